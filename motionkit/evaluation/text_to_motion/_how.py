"""How a policy is sampled and how often: what was asked for, else what suits where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from motionkit.errors import MotionkitError
from motionkit.evaluation._opened import STARTER, FoundModel
from motionkit.policies.base import GUIDANCE, DiffusionPolicy, StoresGuidance, guidance_of
from motionkit.policies.generating import plan_steps
from motionkit.rl import DDIM, StepPlan

Mode = Literal["auto", "wo_mm", "mm_short", "debug", "full"]
MDM_PROMPTS = 1024
"""The original asks for 1,000 in whole batches of 32: 32 batches."""

_FEW = 5


@dataclass(frozen=True)
class Amount:
    """How much is sampled.

    Attributes:
        replications: How often everything is repeated with new prompts and noise.
        prompts: Prompts per replication.
        mm_prompts: Prompts of MultiModality per replication; 0 leaves it out.
        mm_repeats: Motions of each of them.
        mm_pairs: Pairs among these.
    """

    replications: int
    prompts: int
    mm_prompts: int = 0
    mm_repeats: int = 0
    mm_pairs: int = 10

    @property
    def motions(self) -> int:
        """Motions sampled per replication."""
        return self.prompts + self.mm_prompts * self.mm_repeats


MODES: dict[str, tuple[int, int, int]] = {
    "wo_mm": (20, 0, 0),
    "mm_short": (5, 100, 30),
    "debug": (5, 0, 0),
    "full": (20, 100, 30),
    STARTER: (5, 50, 10),
}
"""Replications, and prompts and repeats of MultiModality, of the original's modes; `STARTER` is ours."""


def amount_of(
    mode: str, protocol: str, *, starter: bool, available: int, replications: int = 0, limit: int = 0
) -> tuple[str, Amount]:
    """Return the name of the mode that acts, and what it means.

    Args:
        mode: As in `MODES`, or ``auto``: that of the starter pack on its data, else ``wo_mm``.
        protocol: ``mdm`` asks for 1,024 prompts, ``whole`` for every item of the split once.
        starter: Whether the data are the starter's.
        available: Items of the split.
        replications: How many instead; 0 keeps the mode's.
        limit: Prompts per replication instead; 0 keeps the protocol's.
    """
    name = (STARTER if starter else "wo_mm") if mode == "auto" else mode
    own, mm_prompts, mm_repeats = MODES[name]
    prompts = limit or (MDM_PROMPTS if protocol == "mdm" else available)
    return name, Amount(replications or own, prompts, min(mm_prompts, prompts), mm_repeats)


@dataclass(frozen=True)
class Sampling:
    """How motions are made.

    Attributes:
        plan: Reverse steps.
        guidance: Classifier-free guidance scale.
        words: Sampler, steps, guidance and padding, for tables.
    """

    plan: StepPlan
    guidance: float
    words: str


def sampling_of(
    found: FoundModel,
    policy: DiffusionPolicy,
    *,
    starter: bool,
    kind: Literal["auto", "ddpm", "ddim"] = "auto",
    steps: int = 0,
    guidance: float | None = None,
) -> Sampling:
    """Decide how a policy is sampled.

    Args:
        found: Where it comes from.
        policy: The policy.
        starter: Whether it is evaluated on the starter's data.
        kind: ``auto`` takes what the policy is meant for: few deterministic steps on the starter's data (a run of
            `grpo`: those that it was measured with), else the ancestral sampler, as MDM is evaluated.
        steps: Number of steps; 0 leaves it to `kind` and to the policy, which may have a number of its own.
        guidance: Guidance scale; None takes that of the run, else the policy's own, else 2.5.

    Raises:
        MotionkitError: There are not so many steps.
    """
    own = _of_run(found)
    scale = guidance if guidance is not None else float(own.get("guidance_scale", guidance_of(policy)))
    total = len(policy.schedule)
    if kind == "auto" and starter and not steps:
        count = min(int(own.get("inference_timesteps") or _FEW), total)
        spacing: Literal["early", "even"] = "even" if own.get("spacing") == "even" else "early"
        plan = StepPlan.build(policy.schedule, DDIM(0.0), steps=policy.schedule.visited(spacing, count))
        kind = "ddim"
    else:
        kind = "ddpm" if kind == "auto" else kind
        plan = plan_steps(policy, kind, steps)
    visited = f"all {total} steps" if len(plan) == total else f"{len(plan)} steps of {total}"
    padding = getattr(policy, "padding", "exact")
    return Sampling(plan, scale, f"{kind.upper()}, {visited}, guidance {scale:g}, masks {padding}")


def common_guidance(policies: Sequence[tuple[FoundModel, DiffusionPolicy]], guidance: float | None) -> float:
    """Return one guidance scale for several policies: the one asked for, else that of tuned ones among them, else 2.5.

    Raises:
        MotionkitError: They were tuned with different ones.
    """
    if guidance is not None:
        return guidance
    own = (
        _of_run(found).get("guidance_scale", policy.guidance if isinstance(policy, StoresGuidance) else None)
        for found, policy in policies
    )
    scales = {float(scale) for scale in own if scale is not None}
    if len(scales) > 1:
        listed = ", ".join(f"{scale:g}" for scale in sorted(scales))
        raise MotionkitError(
            f"the runs were made with different guidance scales: {listed}.",
            why="guidance raises R-precision by itself; policies are compared at one value.",
            fix="--guidance-scale X",
        )
    return scales.pop() if scales else GUIDANCE


def _of_run(found: FoundModel) -> Mapping[str, Any]:
    """Return the sampler settings of the run of `grpo` that made a policy; empty where there is none."""
    if found.run is None or found.run.command != "grpo":
        return {}
    own = found.run.config.get("sampler")
    return own if isinstance(own, Mapping) else {}
