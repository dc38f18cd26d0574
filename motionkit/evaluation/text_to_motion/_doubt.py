"""A check on real motions that the evaluator has its own statistics, not those of the dataset or of another body."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.datasets.base import TextClip
from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.motion import Normalizer

_CLIPS = 256
_LEAST, _MOST = 0.2, 5.0
"""Standard deviations of normalised real motions, median over the body's features; 1 in training."""
_CENTRE = 3.0
_HEADS, _CONTACTS = 4, 4


def doubt_of(
    evaluator: T2MEvaluator,
    clips: Sequence[TextClip],
    *,
    released: bool,
    dataset: Normalizer,
    known: Normalizer | None = None,
) -> str:
    """Return why the evaluator's figures would mean nothing; empty where nothing speaks against them.

    Args:
        evaluator: The evaluator; reads the features of `clips`.
        clips: Real motions.
        released: Whether it is in the layout of its authors, whose standard deviation of the root and the contacts is
            25 times smaller than the dataset's (their ``feat_bias`` of 5, applied twice).
        dataset: Mean and Std of the dataset, which the generator uses.
        known: The evaluator's statistics that lie beside the dataset, where there are any.
    """
    frames = torch.cat([clip.features.float() for clip in clips[:_CLIPS]]).to(evaluator.mean)
    body = slice(_HEADS, -_CONTACTS)
    normal = evaluator.normalize(frames)[:, body]
    spread, centre = float(normal.std(0).median()), float(normal.mean(0).abs().median())
    if not (_LEAST < spread < _MOST and centre < _CENTRE):
        return (
            f"the evaluator's statistics do not fit these motions: normalised, real ones have a median standard "
            f"deviation of {spread:.3g} and a mean of {centre:.3g}, instead of about 1 and 0"
        )
    if released and _alike(evaluator.std, dataset.std):
        return (
            "the evaluator was given the dataset's own Mean and Std; its own are those of Comp_v6_KLD01/meta "
            "(t2m_mean.npy, t2m_std.npy of MDM)"
        )
    if released and known is not None and not _alike(evaluator.std, known.std):
        return "the evaluator's statistics are not those that lie beside the dataset (t2m_std.npy)"
    return ""


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two standard deviations agree within 2 %, root and contacts included."""
    return first.shape == second.shape and bool(torch.allclose(first.cpu(), second.cpu().to(first.dtype), rtol=0.02))
