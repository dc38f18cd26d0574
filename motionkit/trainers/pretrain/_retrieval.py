"""Retrieval figures of a joint space of texts and motions, on held-out clips."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.encoders._crops import Crop
from motionkit.metrics import guo_batches, retrieval, retrieval_guo
from motionkit.rl import stable_hash

_SHOWN = {"R01": "r1", "R02": "r2", "R03": "r3", "R10": "r10", "MedR": "medr"}


def retrieval_figures(whole: Tensor, short: Tensor, *, sentences: Tensor | None = None) -> dict[str, float]:
    """Measure retrieval with similarities of N texts (rows) and their N motions.

    Args:
        whole: ``[N, N]`` similarities to whole motions; the order of the clips matters for the batches of 32.
        short: ``[N, N]`` similarities to `short_crops`.
        sentences: ``[N, F]`` unit-norm sentence embeddings, for the figures that end in ``_same``.

    Returns:
        ``retrieval/t2m/r1`` ... among all clips; ``..._same`` counts clips whose caption says the same (cosine of the
        sentences above 0.9) as right too; ``..._32`` in batches of 32, ``..._32_short`` the same on short crops;
        ``..._chance`` what guessing would reach.
    """
    count = len(whole)
    result = _named(retrieval(whole), "")
    if sentences is not None:
        result |= _named(retrieval(whole, sentences=sentences), "_same")
    result["retrieval/t2m/r1_chance"] = 100.0 / count
    result["retrieval/t2m/r3_chance"] = 100.0 * min(3, count) / count
    if guo_batches(count):
        result |= _named(retrieval_guo(whole), "_32")
        result |= _named(retrieval_guo(short), "_32_short")
        result["retrieval/t2m/r1_32_chance"] = 100.0 / 32
        result["retrieval/t2m/r3_32_chance"] = 300.0 / 32
    return result


def _named(values: dict[str, float], tag: str) -> dict[str, float]:
    return {
        f"retrieval/{way}/{short}{tag}": values[f"{way}/{name}"]
        for way in ("t2m", "m2t")
        for name, short in _SHOWN.items()
    }


def short_crops(clips: Sequence[TextClip], frames: int) -> list[Crop]:
    """Return a crop of at most `frames` frames of each clip, at a place that its key decides; all rows are 0."""
    crops = []
    for clip in clips:
        spare = max(0, len(clip.features) - frames)
        crops.append(Crop(0, stable_hash(f"short/{clip.key}") % (spare + 1), min(frames, len(clip.features))))
    return crops
