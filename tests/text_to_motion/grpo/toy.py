"""A policy of a few thousand weights and a reward that can be read off a motion."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.rl import Schedule, length_mask, segment_bounds, segment_frames
from motionkit.text import CachedEncoder, Prompt
from motionkit.text_to_motion.grpo.settings import ControlSettings, EmaSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import MDMSettings
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.settings import LoraSettings

from ...made.plain import plain, plain_dataset
from ...made.texts import HashEncoder

PROMPTS = [
    Prompt(("rise", "fall"), (8, 8), "a"),
    Prompt(("fall", "rise"), (8, 12), "b"),
    Prompt(("rise", "rise", "fall"), (8, 4, 4), "c"),
    Prompt(("fall",), (16,), "d"),
]


class Height:
    """Rewards a root that is high while the segment says rise and low while it says fall."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        bounds = segment_bounds([prompt.bounds for prompt in prompts], motions.features.device)
        owned = segment_frames(bounds, motions.features.shape[1]).float()
        sign = torch.zeros(owned.shape[:2])
        for row, prompt in enumerate(prompts):
            for k, text in enumerate(prompt.segments):
                sign[row, k] = 1.0 if text == "rise" else -1.0
        height = torch.nan_to_num(motions.features[..., 3]).clamp(-3, 3)
        segments = sign * (owned * height[:, None]).sum(-1) / owned.sum(-1).clamp(min=1)
        return RewardScores(segments.sum(1) / (sign != 0).sum(1), segments=segments)


def make_policy(*, seed: int = 0, encoder: HashEncoder | None = None, **shape: object) -> MDMPolicy:
    """Build an untrained policy with clause tokens."""
    source = plain_dataset(
        skeleton=HUMANML, fps=20.0, normalizer=Normalizer(torch.zeros(263), torch.ones(263)), max_length=32
    )
    options = {"layers": 1, "latent_dim": 16, "num_heads": 2, "ff_size": 32, "clause_frames": True, "patch_size": 4}
    settings = MDMSettings.model_validate({**options, "mask_frames": True, "dropout": 0.1, **shape})
    return new_policy(settings, dataset=source, encoder=CachedEncoder(encoder or HashEncoder()), seed=seed)


def mask_of(prompts: Sequence[Prompt], frames: int) -> torch.Tensor:
    """Return the valid frames."""
    return length_mask(torch.tensor([prompt.length for prompt in prompts]), frames)


def engine(policy: object = None, reward: object = None, *, shuffle: bool = False, **groups: object) -> GRPO:
    """Build an engine that trains all weights and keeps no average, unless `groups` say so."""
    options = {"lora": LoraSettings(), "ema": EmaSettings(), "control": ControlSettings(shuffle=shuffle), **groups}
    return GRPO(policy or TablePolicy(), reward or Height(), **options)  # type: ignore[arg-type]


class TableCondition:
    """Rows of text numbers per frame."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, index: torch.Tensor) -> TableCondition:
        return TableCondition(self.rows[index])


@plain(DiffusionPolicy)
class TablePolicy:
    """The exact denoiser of N(pose of the text, 0.5^2), with the poses learnt: the smallest policy there is."""

    def __init__(self, dropout: float = 0.0) -> None:
        self.network = nn.Sequential(nn.Embedding(2, 263), nn.Dropout(dropout)).eval()
        nn.init.zeros_(self.network[0].weight)  # type: ignore[arg-type]
        self.schedule = Schedule.cosine(50)
        self.normalizer = Normalizer(torch.zeros(263), torch.ones(263))
        self.skeleton, self.fps, self.max_length = HUMANML, 20.0, 32
        self.autocast: torch.dtype | None = None

    def frames(self, lengths: torch.Tensor) -> int:
        return int(lengths.max())

    def condition(self, prompts: Sequence[Prompt]) -> TableCondition:
        """Number of each frame's text."""
        rows = torch.zeros(len(prompts), 32, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            for text, (first, end) in zip(prompt.segments, prompt.bounds, strict=True):
                rows[row, first:end] = int(text == "rise")
        return TableCondition(rows)

    def predict(
        self,
        x: torch.Tensor,
        timestep: torch.Tensor,
        condition: TableCondition,
        lengths: torch.Tensor,
        *,
        guidance: float = 1.0,
    ) -> torch.Tensor:
        pose: torch.Tensor = self.network(condition.rows[:, : x.shape[1]])
        kept = self.schedule.alphas_cumprod[timestep].float()[:, None, None]
        gain = kept.sqrt() * 0.25 / (kept * 0.25 + 1 - kept)
        return pose + gain * (x - kept.sqrt() * pose)

    def tensors(self) -> dict[str, torch.Tensor]:
        return self.network.state_dict()

    def load_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.network.load_state_dict(dict(tensors))


def gain(grpo: GRPO, steps: int = 10) -> float:
    """Mean reward after some steps minus that before, for the same noise."""

    @torch.no_grad()
    def reward() -> float:
        updates, grpo.updates = grpo.updates, 1000
        batch = grpo._sample(PROMPTS * 4)
        grpo.updates = updates
        return float(grpo.rewards.score(batch.motions, batch.prompts).total.mean())

    before = reward()
    for _ in range(steps):
        grpo.step(PROMPTS)
    return reward() - before


def rise(grpo: GRPO, steps: int = 10) -> float:
    """Mean reward of the last three steps minus that of the first."""
    curve = [grpo.step(PROMPTS)["reward/mean"] for _ in range(steps)]
    return sum(curve[-3:]) / 3 - curve[0]


def learns(make: Callable[..., GRPO], gain: Callable[[GRPO], float] = rise, *, apart: float = 0.2) -> None:
    """Assert that the reward rises for each of two seeds, and does not with shuffled advantages."""
    real, shuffled = ([gain(make(seed=seed, shuffle=control)) for seed in range(2)] for control in (False, True))
    assert min(real) > 0.12, real
    assert max(abs(value) for value in shuffled) < 0.12, shuffled
    assert (sum(real) - sum(shuffled)) / 2 > apart / 3, (real, shuffled)


def weights(grpo: GRPO) -> dict[str, torch.Tensor]:
    """A copy of the policy's weights."""
    return {name: value.clone() for name, value in grpo.policy.tensors().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether they are the same to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def hand_over(one: GRPO, other: GRPO) -> None:
    """Put a checkpoint of one into the other."""
    saved = {name: copy.deepcopy(part.state()) for name, part in one.parts().items()}
    with torch.no_grad():
        for name, part in other.parts().items():
            part.load_state(saved[name])


def resumes(make: Callable[[], GRPO], steps: int = 3) -> list[dict[str, float]]:
    """Assert that an engine made of a checkpoint goes on as the first one does; return the metrics of these steps."""
    whole, second = make(), make()
    for _ in range(steps):
        whole.step(PROMPTS)
    hand_over(whole, second)
    curves = [
        [
            {name: value for name, value in grpo.step(PROMPTS).items() if not name.startswith("time/")}
            for _ in range(steps)
        ]
        for grpo in (whole, second)
    ]
    assert curves[0] == curves[1]
    assert same(weights(whole), weights(second))
    with whole.averaged(), second.averaged():
        assert same(weights(whole), weights(second))
    return curves[0]
