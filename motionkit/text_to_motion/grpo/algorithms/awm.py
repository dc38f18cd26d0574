"""AWM, advantage weighted matching (Xue et al. 2025, arXiv:2509.25050), for a policy that predicts x0.

Samples are noised again, and the denoising error to each is weighted by its advantage:

    mean_i mean_f A_f |f(x_t, t) - x|_f^2 / sg(mean_f |f(x_t, t) - x|_f^2)

with frames f. Predictions move towards the better samples of a group and away from the worse ones. It is a policy
gradient in which the Gaussian N(f(x_t, t), v) is the density of a sample given x_t. Its variance v is the current
error, so that all timesteps have the same weight.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor

from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.credit import assign_credit, frame_weights
from motionkit.text_to_motion.grpo.algorithms.matching import (
    Matching,
    MatchingUpdate,
    Noised,
    mean_frames,
    square_frames,
)
from motionkit.text_to_motion.grpo.algorithms.options import AwmObjective
from motionkit.text_to_motion.rewards.mix import Scored


class AWM(Matching):
    """The algorithm ``awm``; arguments as `Matching`."""

    settings: AwmObjective

    def update(self, batch: Samples, scored: Scored, number: int) -> MatchingUpdate:
        """Weigh each frame by its advantage."""
        credit = assign_credit(scored, batch, self.settings, number, world=self.world, shuffle_seed=self.shuffle_seed)
        weights = frame_weights(credit.values, credit.bounds, batch.mask)
        return MatchingUpdate(
            self,
            batch,
            number,
            partial(weighted_errors, self.noised(batch, number), weights, batch.mask, self.settings.kl_coef),
            units=len(batch.lengths),
            total=len(batch.lengths) * self.world.size,
            metrics=credit.metrics,
        )


def weighted_errors(
    noised: Noised,
    weights: Tensor,  # [N, T] weight of each frame
    mask: Tensor,  # [N, T] bool, True = valid
    kl_coef: float,  # weight of the KL to the reference, ``|f - f_ref|^2 / (2 v)`` per value; at 0 it is not computed
    sample: Tensor,  # [M] rows of the batch
    draw: Tensor,  # [M] numbers of the draws
) -> dict[str, Tensor]:
    """Return the weighted error of noised samples, ``[M]`` values by metric name."""
    states = noised.at(sample, draw)
    x0 = noised.predict(states)
    errors, valid = noised.errors(x0, states), mask[sample]  # [M, T]
    error = mean_frames(errors.detach(), valid)
    variance = error.clamp(min=1e-8)
    result = {"loss/policy": mean_frames(weights[sample] * errors, valid) / variance, "match/error": error}
    if kl_coef:
        kl = mean_frames(square_frames(x0 - noised.predict_reference(states), valid), valid) / (2 * variance)
        result |= {"loss/kl": kl_coef * kl, "kl/nats_per_dim": kl.detach()}
    return result
