"""DiffusionNFT (Zheng et al. 2025, arXiv:2509.16117), for a policy that predicts x0.

The prediction f_old of the policy that samples and the trained one f define a better and a worse policy,

    x+ = f_old + beta (f - f_old),    x- = f_old - beta (f - f_old).

A frame of a sample is matched by x+ with weight r, its probability of being good, and by x- with 1 - r:

    (r |x+ - x|^2 + (1 - r) |x- - x|^2) / (beta v),    r = 1/2 + clip(A, -1, 1) / 2

with v the current error of f, as in `awm`. At f = f_old the gradient is that of AWM with A clipped to +-1; farther away
both errors pull f back. The paper samples from a moving average of the weights: ``rollout.averaged``.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.credit import assign_credit, frame_weights
from motionkit.text_to_motion.grpo.algorithms.matching import Matching, MatchingUpdate, Noised, mean_frames
from motionkit.text_to_motion.grpo.algorithms.options import NftObjective
from motionkit.text_to_motion.rewards.mix import Scored


class NFT(Matching):
    """The algorithm ``nft``; arguments as `Matching`."""

    settings: NftObjective

    def update(self, batch: Samples, scored: Scored, number: int) -> MatchingUpdate:
        """Turn advantages into probabilities of being good, and predict with the policy that sampled."""
        credit = assign_credit(scored, batch, self.settings, number, world=self.world, shuffle_seed=self.shuffle_seed)
        good = 0.5 + frame_weights(credit.values.clamp(-1, 1), credit.bounds, batch.mask) / 2
        noised = self.noised(batch, number)
        # With one pass, and rollouts by the trained weights, f_old is f.
        old = self._old(noised, len(batch.lengths)) if self.averaged or self.passes > 1 else None
        return MatchingUpdate(
            self,
            batch,
            number,
            partial(contrast, noised, good, batch.mask, old, self.settings.nft_beta),
            units=len(batch.lengths),
            total=len(batch.lengths) * self.world.size,
            metrics=credit.metrics,
        )

    @torch.no_grad()
    def _old(self, noised: Noised, samples: int) -> Tensor:
        """Return the predictions at all states of the update, ``[draws, N, T, D]``."""
        draws = self.passes * self.settings.draws
        rows = torch.arange(samples * draws, device=noised.clean.device)
        parts = [
            noised.predict(noised.at(chunk % samples, torch.div(chunk, samples, rounding_mode="floor")))
            for chunk in rows.split(self.micro_batch)
        ]
        return torch.cat(parts).view(draws, samples, *noised.clean.shape[1:])


def contrast(
    noised: Noised,
    good: Tensor,  # [N, T] probability of each frame of being good
    mask: Tensor,  # [N, T] bool, True = valid
    old: Tensor | None,  # [draws, N, T, D] predictions of the policy that samples; None if it is the trained one
    beta: float,  # step from f_old to the two policies, as a share of f - f_old
    sample: Tensor,  # [M] rows of the batch
    draw: Tensor,  # [M] numbers of the draws
) -> dict[str, Tensor]:
    """Return the errors of the better and the worse policy, ``[M]`` values by metric name."""
    states = noised.at(sample, draw)
    x0 = noised.predict(states)
    before = x0.detach() if old is None else old[draw, sample]
    step = beta * (x0 - before)
    better, worse = noised.errors(before + step, states), noised.errors(before - step, states)  # [M, T]
    valid = mask[sample]
    error = mean_frames(noised.errors(x0.detach(), states), valid)
    frames = good[sample] * better + (1 - good[sample]) * worse
    return {"loss/policy": mean_frames(frames, valid) / (beta * error.clamp(min=1e-8)), "match/error": error}
