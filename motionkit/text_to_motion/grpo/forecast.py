"""Memory and time of a step of `grpo`, forecast before the first one; see `motionkit.training.memory`.

The algorithm says how many rows there are (`Load`). What a reward without a gradient takes is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.training.memory import Forecast, count, seconds_of, weights_of

_LOSS = 8  # a loss keeps as much of each row as so many predictions
_BACKWARD = 3.0  # a prediction with its backward pass takes as long as so many predictions


def forecast(grpo: GRPO, prompts: Sequence[Prompt], motions: int) -> Forecast:
    """Forecast the longest step of `prompts` with so many motions in this process."""
    policy, algorithm, trained = grpo.policy, grpo.algorithm, [parameter for _, parameter in grpo.learner.trained]
    row = _Row(policy, max(prompts, key=lambda prompt: prompt.length), algorithm.guidance)
    load = algorithm.load(motions)
    with torch.no_grad():
        _, passing, _ = count(row.predict)

    def called(rows: int) -> Tensor:
        with algorithm.calling():
            return row.predict(rows)

    with torch.enable_grad():
        whole, _, _ = count(called)
        with algorithm.calling():
            kept, _, _ = count(row.predict)
    # What all calls share, such as the weights that adapters are merged into, was there before they were counted.
    shared = whole.at(load.rows) - kept.at(load.rows)
    weights = weights_of(
        policy.network, trained, reference=grpo.reference.network, average=grpo.learner.ema is not None
    )
    able = grpo.rewards.gradient or (False,) * len(grpo.rewards.terms)
    pure = RewardMix([term for term, gradient in zip(grpo.rewards.terms, able, strict=True) if gradient])
    with torch.set_grad_enabled(load.scored), torch.random.fork_rng(devices=[]):
        scores, scoring, models = count(lambda rows: row.score(pure, rows))
    # Sampling, scoring and the update follow each other. The update keeps the graph of the predictions and that of
    # either the scores or a loss.
    rows = load.calls * load.rows
    phases = {
        f"sampling of {motions} motions": passing.at(motions),
        f"scoring of {motions} motions": scoring.at(motions),
        f"activations of {rows} rows": shared
        + load.calls * kept.at(load.rows)
        + (scores.at(motions) if load.scored else rows * _LOSS * row.noise.nbytes),
    }
    most = max(phases, key=lambda phase: phases[phase])
    states = motions * row.noise.nbytes * (2 + load.states)  # and the noise of each motion, and itself
    parts = {**weights, "rewards": models, "states": states, most: phases[most]}
    return Forecast(parts, seconds_of(row.predict, load.rows) * (load.sampled + _BACKWARD * load.trained))


class _Row:
    """Predictions and scores of one prompt, in any number of rows."""

    def __init__(self, policy: DiffusionPolicy, prompt: Prompt, guidance: float) -> None:
        self.policy, self.prompt, self.guidance = policy, prompt, guidance
        self.device, width = policy.normalizer.mean.device, policy.normalizer.mean.shape[-1]
        frames = policy.frames(torch.tensor([prompt.length]))
        self.noise = torch.randn(1, frames, width, generator=torch.Generator().manual_seed(0)).to(self.device)
        self.condition = policy.condition([prompt])

    def predict(self, rows: int) -> Tensor:
        """Return predictions ``[N, T, D]`` for noise halfway through the schedule."""
        zeros = torch.zeros(rows, dtype=torch.int64, device=self.device)
        halfway, lengths = zeros + len(self.policy.schedule) // 2, zeros + self.prompt.length
        noise, condition = self.noise.repeat(rows, 1, 1), self.condition.select(zeros)
        return self.policy.predict(noise, halfway, condition, lengths, guidance=self.guidance)

    def score(self, rewards: RewardMix, rows: int) -> object:
        """Return the scores of motions of noise, and the motions."""
        lengths = torch.full((rows,), self.prompt.length, device=self.device)
        x0 = self.noise.repeat(rows, 1, 1).requires_grad_(torch.is_grad_enabled())
        features = self.policy.normalizer.denormalize(x0)
        motions = MotionBatch(features, lengths, skeleton=self.policy.skeleton, fps=self.policy.fps)
        return rewards.score(motions, [self.prompt] * rows), motions.joints, motions
