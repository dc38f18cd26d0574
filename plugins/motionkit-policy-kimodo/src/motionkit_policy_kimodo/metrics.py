"""What Kimodo's benchmark measures: feet, constraints, and retrieval by TMR-SOMA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.rl import length_mask
from motionkit.text import Prompt
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.rewards import KimodoConstraints, of_kimodo
from motionkit_policy_kimodo.settings import ConstraintRewardOptions
from motionkit_policy_kimodo.tmr import Retrieval, benchmark, places

_FLOOR, _SLIDING = 0.05, 0.2  # metres, metres per second


def foot_metrics(
    joints: Tensor, contacts: Tensor, lengths: Tensor, representation: KimodoRepresentation
) -> dict[str, Tensor]:
    """Return measures ``[N]`` of motions, by name.

    - ``skate_height``: mean speed of toes below 5 cm, in metres per second.
    - ``skate_contacts``, ``skate_most``: mean and largest speed of the feet where the model says contact.
    - ``skate_ratio``: share of the toes on the floor, in a frame and the next, that are faster than 0.2 m/s.
    - ``consistency``: share of the model's contacts that are as `KimodoRepresentation.moving` finds them.

    A mean over nothing is 0.

    Args:
        joints: ``[N, T, J, 3]`` metres; padding is finite.
        contacts: ``[N, T, 4]`` bool, as the model says.
        lengths: ``[N]``, each at least 2.
        representation: Gives the feet and the frame rate.
    """
    velocities, found = representation.moving(joints, lengths)
    feet = list(representation.body.feet)
    # Speeds lead to the next frame, so that a motion's last frame has none.
    valid = length_mask(lengths, joints.shape[1])[:, 1:, None]
    speeds = velocities[:, :-1, feet].norm(dim=-1)
    touching = contacts[:, :-1] & valid
    low = joints[:, :, feet[1::2], 1] < _FLOOR
    toes, on_floor = speeds[..., 1::2], low[:, :-1] & low[:, 1:] & valid
    return {
        "skate_height": _mean(toes, low[:, :-1] & valid),
        "skate_contacts": _mean(speeds, touching),
        "skate_most": (speeds * touching).amax((1, 2)),
        "skate_ratio": _mean((toes > _SLIDING).to(speeds), on_floor),
        "consistency": _mean((contacts == found)[:, :-1].to(speeds), valid.expand_as(touching)),
    }


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return (values * where).sum((1, 2)) / where.sum((1, 2)).clamp(min=1)


class KimodoMeasures:
    """Rows of eval and of `grpo`'s tables; see `motionkit.text_to_motion.policy.Measures`.

    Args:
        retrieval: TMR-SOMA with the policy's text vectors; None leaves its rows out.
    """

    def __init__(self, retrieval: Retrieval | None = None) -> None:
        self.retrieval = retrieval
        self._errors = {of: KimodoConstraints(ConstraintRewardOptions(of=of)) for of in ("path", "effectors")}
        self._file = None if retrieval is None else cache(retrieval.file)

    def parts(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> dict[str, Tensor]:
        """Return measures ``[N]`` of feet and constraints, and unit vectors ``[N, E]``."""
        body = of_kimodo(motions, "what Kimodo's policy measures")
        joints, lengths = motions.joints, motions.lengths
        parts = foot_metrics(joints, body.contacts(motions.features), lengths, body)
        for name, reward in self._errors.items():
            scores = reward.score(motions, prompts)
            parts[f"{name}_error"] = torch.where(scores.applying, -scores.total, torch.nan)
        return parts if self.retrieval is None else {**parts, "latent": self.retrieval.motions(joints, lengths)}

    def figures(self, parts: Mapping[str, Tensor], prompts: Sequence[Prompt]) -> dict[str, Tensor | str]:
        """Return the rows; R@3 has a value for each motion, other rows of retrieval one for all."""
        result: dict[str, Tensor | str] = {name: values for name, values in parts.items() if name != "latent"}
        for name in self._errors:
            if not bool(parts[f"{name}_error"].isfinite().any()):
                result[f"{name}_error"] = "no prompt has such constraints"
        if self.retrieval is None or self._file is None:
            return result | {"t2m_R03": "no TMR-SOMA is named: --policy.retrieval nvidia/TMR-SOMA-RP-v1"}
        if len(prompts) < 2:
            return result | {"t2m_R03": "retrieval needs two prompts"}
        texts, latent = self.retrieval.texts([prompt.text for prompt in prompts]), parts["latent"]
        files = [prompt.extras.get("truth") for prompt in prompts]
        truth = torch.stack([self._file(Path(str(file))) for file in files]).to(texts) if all(files) else None
        result |= {name: torch.tensor(value) for name, value in benchmark(texts, latent, truth).items()}
        result["t2m_R03"] = 100.0 * (places(texts, latent) < 3).double()
        if truth is None:
            result |= dict.fromkeys(("m2m_R03", "FID_gen_gt"), "not every prompt has its true motion, gt_motion.npz")
        return result
