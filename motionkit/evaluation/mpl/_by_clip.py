"""GeoDeg of single clips: which of them a predictor is worst at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.datasets.motions._windows import Windows
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._measure import Row

LISTED = 10
"""Clips in the list of the worst."""

_WORST, _MOST = 3, 8
"""Clips that are shown from the bad end, and in all."""


def clip_errors(row: Row) -> Tensor:
    """Return GeoDeg of each clip, ``[C, H]`` degrees, mean over its windows; NaN where it ends before the horizon."""
    above, below = row.sums["geo_deg"]
    return above / torch.where(below > 0, below, torch.nan)


def by_error(errors: Tensor, horizons: Horizons) -> list[int]:
    """Return the clips from the worst to the best at the furthest horizon that any of them reaches.

    Args:
        errors: ``[C, H]`` as `clip_errors` returns it; clips that end before that horizon are left out.
        horizons: The horizons of its columns.
    """
    for place in sorted(range(len(horizons.frames)), key=horizons.frames.__getitem__, reverse=True):
        found = errors[:, place].tolist()
        reached = [clip for clip, value in enumerate(found) if math.isfinite(value)]
        if reached:
            return sorted(reached, key=lambda clip: -found[clip])
    return []


def chosen(order: Sequence[int]) -> list[int]:
    """Return places in an order from the worst to the best: the worst three, the middle one and the best.

    Example:
        >>> chosen(range(100)), chosen(range(3)), chosen([])
        ([0, 1, 2, 50, 99], [0, 1, 2], [])
    """
    last = len(order) - 1
    places = {*range(min(_WORST, len(order))), *((len(order) // 2, last) if order else ())}
    return sorted(places)[:_MOST]


def worst_document(
    rows: Mapping[str, Row], name: str, beside: str, windows: Windows, horizons: Horizons
) -> dict[str, Any]:
    """Return the worst clips of a predictor.

    Args:
        rows: What was found, by predictor.
        name: Whose worst clips.
        beside: Whose GeoDeg on the same clips is given as well.
        windows: Where it was measured.
        horizons: As in `measure_row`.

    Returns:
        ``of`` and ``beside``, the two names, and ``clips``, at most `LISTED`: ``clip``, ``windows``, ``geo_deg`` and
        ``beside`` by milliseconds.
    """
    own, other = clip_errors(rows[name]), clip_errors(rows[beside])
    clips = [
        {
            "clip": windows.keys[clip],
            "windows": int((windows.clip == clip).sum()),
            "geo_deg": by_key(own[clip], horizons),
            "beside": by_key(other[clip], horizons),
        }
        for clip in by_error(own, horizons)[:LISTED]
    ]
    return {"of": name, "beside": beside, "clips": clips}


def by_key(values: Tensor, horizons: Horizons) -> dict[str, float | None]:
    """Return ``[H]`` values by milliseconds; None where one is not finite."""
    pairs = zip(horizons.keys, values.tolist(), strict=True)
    return {key: value if math.isfinite(value) else None for key, value in pairs}
