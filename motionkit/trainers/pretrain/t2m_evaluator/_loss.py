"""The losses of the evaluator, on distances between texts and motions.

Source of `hinge`: Guo et al., "Generating Diverse and Natural 3D Human Motions from Text" (CVPR 2022), the loss
of its feature extractors, after Hadsell et al. (2006).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.trainers.pretrain._contrast import Beside, info_nce


def distances(text: Tensor, motion: Tensor) -> Tensor:
    """Return ``[B, B]`` euclidean distances, texts in rows, with a gradient at 0.

    By differences: the three-term expansion of `motionkit.metrics.distances` loses the small distances that count here.
    """
    return ((text[:, None] - motion[None]).square().sum(-1) + 1e-12).sqrt()


def same_caption(tokens: Sequence[Sequence[str]]) -> Tensor:
    """Return ``[B, B]`` bool, True for two different rows whose captions have the same words: no wrong pair."""
    words = [tuple(row) for row in tokens]
    same = torch.tensor([[a == b for b in words] for a in words])
    return same & ~torch.eye(len(words), dtype=torch.bool)


def hinge(distance: Tensor, shift: int, *, margin: float, same: Tensor) -> Tensor:
    """Pull pairs together, push one wrong pair per text apart: ``mean d_ii^2 + mean relu(margin - d_ij)^2``.

    Args:
        distance: ``[B, B]``.
        shift: The wrong motion of text i is ``j = (i + shift) mod B``.
        margin: Distance from which a wrong pair costs nothing.
        same: See `same_caption`; such a pair is left out.
    """
    rows = torch.arange(len(distance), device=distance.device)
    other = (rows + shift) % len(rows)
    wrong = (margin - distance[rows, other]).relu().square()
    keep = ~same[rows, other] & (rows != other)
    return distance.diagonal().square().mean() + torch.where(keep, wrong, wrong.new_zeros(())).mean()


def nce(distance: Tensor, *, temperature: float, same: Tensor, beside: Beside | None = None) -> Tensor:
    """Symmetric InfoNCE of ``-distance / temperature`` over ``[B, B]``, without the pairs of `same_caption`.

    Args:
        distance: ``[B, B]``.
        temperature: In units of distance.
        same: See `same_caption`.
        beside: Changed copies as further wrong answers, which are never left out; see `info_nce`.
    """
    return info_nce((-distance / temperature).masked_fill(same, -torch.inf), beside)


def copies_apart(beside: Beside, *, temperature: float, margin: float) -> Tensor:
    """Push changed copies as far away as the published loss pushes wrong pairs: ``mean relu(margin - d)^2``.

    A copy that only has to score below its clip stays a few units away, where an unrelated pair is `margin` away: the
    change would cost a third of what a wrong caption costs.

    Args:
        beside: Scores of the copies, see `scores`. A row without a copy costs nothing.
        temperature: That of the scores.
        margin: Distance from which a copy costs nothing.
    """
    found = [(margin + temperature * copies).relu().square().mean() for copies in beside if copies is not None]
    return torch.stack(found).sum()


def scores(text: Tensor, motion: Tensor, *, temperature: float) -> Tensor:
    """Return ``[B]``, minus the distance of each row of two ``[B, D]``, divided by the temperature."""
    return -((text - motion).square().sum(-1) + 1e-12).sqrt() / temperature
