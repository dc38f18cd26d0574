"""Retrieval of a TMR on held-out clips."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.datasets.base import TextClip
from motionkit.encoders.tmr import TMR, Crop, encode_captions, encode_clips
from motionkit.metrics import guo_batches, retrieval, retrieval_guo
from motionkit.rl import stable_hash

_SHOWN = {"R01": "r1", "R02": "r2", "R03": "r3", "R10": "r10", "MedR": "medr"}


@torch.no_grad()
def retrieval_metrics(tmr: TMR, clips: Sequence[TextClip], *, short: int) -> dict[str, float]:
    """Measure retrieval with latent means, each clip with its first caption.

    Args:
        tmr: The model, in eval mode.
        clips: Held-out clips; their order matters for the batches of 32.
        short: Frames of the crops behind the figures that end in ``_short``.

    Returns:
        ``retrieval/t2m/r1`` ... among all clips; ``..._same`` counts clips whose caption says the same (cosine of the
        sentences above 0.9) as right too; ``..._32`` in batches of 32, ``..._32_short`` the same on short crops;
        ``..._chance`` what guessing would reach.
    """
    texts, sentences = encode_captions(tmr, [clip.captions[0] for clip in clips])
    motions = [clip.features for clip in clips]
    result: dict[str, float] = {}
    similarity = texts @ encode_clips(tmr, motions).T
    for tag, values in (("", retrieval(similarity)), ("_same", retrieval(similarity, sentences=sentences))):
        result |= _named(values, tag)
    result["retrieval/t2m/r1_chance"] = 100.0 / len(clips)
    result["retrieval/t2m/r3_chance"] = 100.0 * min(3, len(clips)) / len(clips)
    if guo_batches(len(clips)):
        result |= _named(retrieval_guo(similarity), "_32")
        result |= _named(retrieval_guo(texts @ encode_clips(tmr, motions, _short(clips, short)).T), "_32_short")
        result["retrieval/t2m/r1_32_chance"] = 100.0 / 32
        result["retrieval/t2m/r3_32_chance"] = 300.0 / 32
    return result


def _named(values: dict[str, float], tag: str) -> dict[str, float]:
    return {
        f"retrieval/{way}/{short}{tag}": values[f"{way}/{name}"]
        for way in ("t2m", "m2t")
        for name, short in _SHOWN.items()
    }


def _short(clips: Sequence[TextClip], frames: int) -> list[Crop]:
    crops = []
    for clip in clips:
        spare = max(0, len(clip.features) - frames)
        crops.append(Crop(0, stable_hash(f"short/{clip.key}") % (spare + 1), min(frames, len(clip.features))))
    return crops
