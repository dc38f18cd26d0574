"""Retrieval of a TMR on held-out clips."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.datasets.base import TextClip
from motionkit.encoders.tmr._model import TMR
from motionkit.encoders.tmr._pairs import encode_captions, encode_clips
from motionkit.trainers.pretrain._retrieval import retrieval_figures, short_crops


@torch.no_grad()
def retrieval_metrics(tmr: TMR, clips: Sequence[TextClip], *, short: int) -> dict[str, float]:
    """Measure retrieval with latent means, each clip with its first caption.

    Args:
        tmr: The model, in eval mode.
        clips: Held-out clips; their order matters for the batches of 32.
        short: Frames of the crops behind the figures that end in ``_short``.

    Returns:
        See `retrieval_figures`, with ``_same``.
    """
    texts, sentences = encode_captions(tmr, [clip.captions[0] for clip in clips])
    motions = [clip.features for clip in clips]
    whole = texts @ encode_clips(tmr, motions).T
    cut = texts @ encode_clips(tmr, motions, short_crops(clips, short)).T
    return retrieval_figures(whole, cut, sentences=sentences)
