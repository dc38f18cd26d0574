"""Semi-online Diffusion-DPO (Wallace et al. 2023, arXiv:2311.12908, eq. 14), for a policy that predicts x0.

The best sample w and the worst sample l of each group are a pair (samples are the policy's, as in SoPo,
arXiv:2412.05095), for each segment or for the whole motion. Both get the same timestep and noise:

    -log sigmoid(-beta ((e_w - e_w_ref) - (e_l - e_l_ref)) / v),    e = mean_f |f(x_t, t) - x|_f^2

with v the current mean error of the pair, so that beta means the same for all timesteps and lengths. The gradient of a
pair vanishes once the policy prefers w by about v / beta more than the reference does, which keeps the policy near it.
With ``objective.sync_every`` the reference follows the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from motionkit.rl import noise_key, segment_bounds, segment_frames, stable_hash
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.base import Load
from motionkit.text_to_motion.grpo.algorithms.matching import Matching, MatchingUpdate, Noised, mean_frames
from motionkit.text_to_motion.grpo.algorithms.options import DpoObjective
from motionkit.text_to_motion.rewards.mix import Scored

_SWAP = -7  # noise stream, used for nothing else
_FLAT = 1e-6  # a gap below this share of the scores is rounding


@dataclass(frozen=True, eq=False)
class Pairs:
    """U pairs of samples."""

    best: Tensor  # [U] int64 rows of the better samples
    worst: Tensor  # [U] int64 rows of the worse ones
    mask: Tensor  # [U, T] bool, the frames that are compared
    weight: Tensor  # [U] 1, or 0 for a pair that is left out
    gap: Tensor  # [U] difference of the rewards


class DPO(Matching):
    """The algorithm ``dpo``; arguments as `Matching`. The negative control swaps half of the pairs at random."""

    settings: DpoObjective

    def load(self, motions: int) -> Load:
        """Return what a step asks of the network: two motions of each group are compared."""
        return replace(super().load(2 * motions // self.samples), sampled=motions * len(self.plan))

    def update(self, batch: Samples, scored: Scored, number: int) -> MatchingUpdate:
        """Find the pairs."""
        settings, world = self.settings, self.world
        scores, valid, owned = scored.total[:, None], scored.finite[:, None], batch.mask[:, None]
        if settings.credit == "segment":
            bounds = segment_bounds([prompt.bounds for prompt in batch.prompts], batch.lengths.device)
            scores, valid = scored.segments, scored.valid & valid
            owned = segment_frames(bounds, batch.mask.shape[1]) & owned
        pairs = find_pairs(scores, valid, owned, self.samples, settings.min_gap)
        if self.shuffle_seed is not None:
            pairs = _swapped(pairs, batch, self.shuffle_seed, number)
        present = pairs.mask.any(-1)  # [U]: a prompt may have fewer segments than another
        counts = torch.stack([pairs.weight.sum(), (pairs.weight * pairs.gap).sum(), present.sum().to(pairs.gap.dtype)])
        count, gap, possible = (world.sum(counts) if world.size > 1 else counts).tolist()
        return MatchingUpdate(
            self,
            batch,
            number,
            partial(preference, self.noised(batch, number), pairs, settings.dpo_beta),
            units=len(pairs.best),
            total=max(1.0, count),
            metrics={"pair/gap": gap / max(1.0, count), "pair/left_out": 1 - count / max(1.0, possible)},
            states=2,
        )


def find_pairs(
    scores: Tensor,  # [N, K], group after group
    valid: Tensor,  # [N, K] bool
    owned: Tensor,  # [N, K, T] bool, the frames of each score; the same for all samples of a group
    group_size: int,
    min_gap: float,  # pairs whose scores differ by no more have weight 0
) -> Pairs:
    """Return the best and the worst sample of each group, for each column of scores."""
    count, columns = scores.shape
    shape = (count // group_size, group_size, columns)
    values, known = scores.detach().view(shape), valid.view(shape)
    high, best = torch.where(known, values, -torch.inf).max(1)  # [P, K] each
    low, worst = torch.where(known, values, torch.inf).min(1)
    gap = torch.where(known.any(1), high - low, 0.0)
    rounding = _FLAT * torch.where(known.any(1), torch.maximum(high.abs(), low.abs()), 0.0)
    first = torch.arange(0, count, group_size, device=scores.device)[:, None]  # row of each group's first sample
    return Pairs(
        best=(first + best).flatten(),
        worst=(first + worst).flatten(),
        mask=owned[::group_size].flatten(0, 1),
        weight=(gap > rounding.clamp(min=min_gap)).to(scores.dtype).flatten(),
        gap=gap.flatten(),
    )


def preference(
    noised: Noised,
    pairs: Pairs,
    beta: float,
    unit: Tensor,  # [M] numbers of pairs
    draw: Tensor,  # [M] numbers of the draws
) -> dict[str, Tensor]:
    """Return the loss of pairs, ``[M]`` values by metric name; 0 for a pair that is left out."""
    states = noised.at(torch.cat([pairs.best[unit], pairs.worst[unit]]), draw.repeat(2))
    valid = pairs.mask[unit].repeat(2, 1)

    def error(x0: Tensor) -> Tensor:
        return mean_frames(noised.errors(x0, states) * valid, valid)  # [2 M], over the frames of the pair

    errors = error(noised.predict(states))
    better, worse = (errors - error(noised.predict_reference(states))).chunk(2)
    level = (errors.detach()[: len(unit)] + errors.detach()[len(unit) :]) / 2
    margin = (better - worse) / level.clamp(min=1e-8)
    weight = pairs.weight[unit]
    return {
        "loss/policy": -logsigmoid(-beta * margin) * weight,
        "match/error": level * weight,
        "pair/accuracy": (margin.detach() < 0) * weight,
    }


def _swapped(pairs: Pairs, batch: Samples, seed: int, number: int) -> Pairs:
    """Swap best and worst in half of the pairs, chosen by the seed."""
    keys = torch.tensor([stable_hash(prompt.key) for prompt in batch.prompts], device=pairs.best.device)
    # Pair p K + k is that of segment k of group p.
    columns = torch.arange(len(pairs.best), device=keys.device) % (len(pairs.best) // len(batch.groups.unique()))
    swap = noise_key(seed, number, _SWAP, keys[pairs.best], columns) % 2 == 0
    best, worst = torch.where(swap, pairs.worst, pairs.best), torch.where(swap, pairs.best, pairs.worst)
    return Pairs(best, worst, pairs.mask, pairs.weight, pairs.gap)
