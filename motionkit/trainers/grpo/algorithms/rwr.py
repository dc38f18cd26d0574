"""RWR, reward-weighted regression (Peters and Schaal 2007), and its hard form, RAFT (Dong et al. 2023).

Own samples are matched with weights ``exp(A / temperature)`` that have mean 1 over a group (the RWR baseline of Black
et al. 2023, arXiv:2305.13301, section 3), or the best of a group alone is (arXiv:2304.06767).

This is a baseline, and it is expected to lose. Every weight is positive, so each update also fits the policy to its own
samples. Predictions of x0 are means, and samples of a few deterministic steps have less spread than the data: with
each round of such fitting motions become more alike and more still, which costs reward. `awm` has the same loss with
weights that add up to zero, and no such drift. Groups whose scores do not differ are left out, because they would do
nothing else.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from motionkit.evaluation import Samples
from motionkit.rewards.mix import Scored
from motionkit.trainers.grpo.algorithms._credit import assign_credit, frame_weights
from motionkit.trainers.grpo.algorithms._matching import Matching, MatchingUpdate
from motionkit.trainers.grpo.algorithms.awm import weighted_errors
from motionkit.trainers.grpo.algorithms.options import RwrObjective


class RWR(Matching):
    """The algorithm ``rwr``; arguments as `Matching`."""

    settings: RwrObjective

    def update(self, batch: Samples, scored: Scored, number: int) -> MatchingUpdate:
        """Weigh each frame by how good its sample is within its group."""
        settings = self.settings
        credit = assign_credit(scored, batch, settings, number, world=self.world, shuffle_seed=self.shuffle_seed)
        valid = scored.finite if credit.bounds is None else scored.valid & scored.finite[:, None]
        weights = group_weights(
            credit.values, valid, self.samples, kind=settings.weights, temperature=settings.temperature
        )
        frames = frame_weights(weights, credit.bounds, batch.mask)
        return MatchingUpdate(
            self,
            batch,
            number,
            partial(weighted_errors, self.noised(batch, number), frames, batch.mask, 0.0),
            units=len(batch.lengths),
            total=len(batch.lengths) * self.world.size,
            metrics=credit.metrics,
        )


def group_weights(
    advantages: Tensor, valid: Tensor, group_size: int, *, kind: Literal["softmax", "best"], temperature: float
) -> Tensor:
    """Return weights that have mean 1 over the valid samples of a group.

    Args:
        advantages: ``[N]`` or ``[N, K]``, group after group.
        valid: Same shape, bool; the others get weight 0.
        group_size: G.
        kind: ``softmax`` of advantages over temperature, or all weight on the ``best`` sample.
        temperature: Positive.

    Returns:
        Same shape; 0 in groups whose advantages are all 0.
    """
    # [P, G, K]: one row per group.
    shape = (len(advantages) // group_size, group_size, -1)
    values, known = advantages.view(shape), valid.view(shape)
    logits = torch.where(known, values / temperature, -torch.inf)
    if kind == "softmax":
        share = logits.softmax(1)
    else:
        share = torch.zeros_like(logits).scatter_(1, logits.argmax(1, keepdim=True), 1.0)
    # A group without spread, or with no valid sample at all, says nothing.
    live = known & (values != 0).any(1, keepdim=True)
    return torch.where(live, share * known.sum(1, keepdim=True), 0.0).view_as(advantages)
