"""Engines of the algorithms on finished samples, with nothing but the reward to move the weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.algorithms.options import (
    AwmObjective,
    CosineOptim,
    DpoObjective,
    MatchingRollout,
    NftObjective,
)
from motionkit.text_to_motion.grpo.settings import ControlSettings, EmaSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.settings import LoraSettings
from motionkit.training.world import World

from .toy import PROMPTS, Height, TablePolicy

OBJECTIVES = {"awm": AwmObjective, "nft": NftObjective, "dpo": DpoObjective}


def objective(name: str, **options: object) -> object:
    """Return the objective of an algorithm without anchor and hold."""
    return OBJECTIVES[name].model_validate({"anchor": 0.0, "hold": 0.0, **options})


def make(
    name: str,
    policy: object = None,
    reward: object = None,
    *,
    options: dict[str, object] | None = None,
    rollout: dict[str, object] | None = None,
    rate: float = 2e-2,
    shuffle: bool = False,
    seed: int = 0,
    world: World | None = None,
    lora: LoraSettings | None = None,
    ema: float = 0.0,
    reference: object = None,
) -> GRPO:
    """Build an engine of algorithm `name`."""
    return GRPO(
        policy or TablePolicy(),  # type: ignore[arg-type]
        reward or Height(),  # type: ignore[arg-type]
        reference=reference,  # type: ignore[arg-type]
        algorithm=name,
        rollout=MatchingRollout.model_validate({"prompts": 4, "group_size": 8, **(rollout or {})}),
        objective=objective(name, **(options or {})),  # type: ignore[arg-type]
        optim=CosineOptim(learning_rate=rate, schedule="constant"),
        control=ControlSettings(shuffle=shuffle),
        lora=lora or LoraSettings(),
        ema=EmaSettings(decay=ema),
        seed=seed,
        world=world,
    )


def frozen(grpo: GRPO) -> GRPO:
    """Leave the weights alone; gradients stay."""
    grpo.learner.optimizer.step = lambda *_: None  # type: ignore[method-assign,assignment]
    return grpo


def gradient(grpo: GRPO) -> Tensor:
    """Return the gradient of the last update in one vector, before it was clipped."""
    parts = [parameter.grad for _, parameter in grpo.learner.trained]
    return torch.cat([part.flatten() for part in parts if part is not None])


def unclipped(grpo: GRPO) -> GRPO:
    """Clip no gradient."""
    grpo.learner.optim = grpo.learner.optim.model_copy(update={"grad_clip": 0.0})
    return frozen(grpo)


class Random(Height):
    """Draws rewards that know nothing of the motions."""

    def __init__(self) -> None:
        self.draw = torch.Generator().manual_seed(0)

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        scores = super().score(motions, prompts)
        assert scores.segments is not None
        return RewardScores(
            torch.randn(scores.total.shape, generator=self.draw),
            segments=torch.randn(scores.segments.shape, generator=self.draw),
        )


def gain(grpo: GRPO, steps: int = 10) -> float:
    """Mean reward after some steps minus that before, for the same noise."""

    @torch.no_grad()
    def reward() -> float:
        updates, grpo.updates = grpo.updates, 1000
        batch = grpo._sample(PROMPTS)
        grpo.updates = updates
        return float(grpo.rewards.score(batch.motions, batch.prompts).total.mean())

    before = reward()
    for _ in range(steps):
        grpo.step(PROMPTS)
    return reward() - before
