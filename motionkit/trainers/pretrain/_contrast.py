"""InfoNCE over a batch of pairs, with changed copies of a pair as further wrong answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Beside(NamedTuple):
    """Scores of changed copies, in units of the temperature; ``-inf`` where a row has none, None where no row has one.

    Attributes:
        motions: ``[B]``, of text i and the changed copy of motion i.
        captions: ``[B]``, of motion i and the changed copy of text i.
    """

    motions: Tensor | None = None
    captions: Tensor | None = None


def info_nce(logits: Tensor, beside: Beside | None = None) -> Tensor:
    """Symmetric InfoNCE of ``[B, B]`` logits, texts in rows; row i belongs to column i.

    Args:
        logits: Scores in units of the temperature, ``-inf`` for a pair that is left out.
        beside: The copy of a motion is a further column of its own text's row, the copy of a caption one of its own
            motion's.
    """
    texts, motions = logits, logits.T
    if beside is not None and beside.motions is not None:
        texts = torch.cat([texts, beside.motions[:, None]], 1)
    if beside is not None and beside.captions is not None:
        motions = torch.cat([motions, beside.captions[:, None]], 1)
    target = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(texts, target) + F.cross_entropy(motions, target)) / 2


def above_copies(own: Tensor, beside: Beside) -> Tensor:
    """``softplus(score of the copy - score of the pair)``, summed over both kinds of copies and averaged over B.

    Args:
        own: ``[B]`` scores of the pairs, in units of the temperature.
        beside: Scores of the copies. A row without one costs nothing.
    """
    found = [F.softplus(copies - own).mean() for copies in beside if copies is not None]
    return torch.stack(found).sum() if found else own.new_zeros(())
