"""Reads captions of shapes back, independently of what writes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from motionkit_regions.datasets.scenes import COLOURS, PLACES, SHAPES, SIZES

_SIDES = {"left of": (1, -1), "right of": (1, 1), "above": (0, -1), "below": (0, 1)}


def fits_of(caption: str, scene: Any) -> list[int]:
    """Return the objects of a scene that a caption fits."""
    own, relation, other = (*re.split(r" (left of|right of|above|below) the ", caption), "", "")[:3]
    found = _plain(own, scene)
    if not relation:
        return found
    axis, sign = _SIDES[relation]
    at = [divmod(int(cell), 3) for cell in scene.cells]
    marks = _plain(f"the {other}", scene)
    return [one for one in found if any(sign * (at[one][axis] - at[mark][axis]) > 0 for mark in marks if mark != one)]


def _plain(text: str, scene: Any) -> list[int]:
    place = next((name for name in sorted(PLACES, key=len, reverse=True) if text.endswith(f" {name}")), "")
    words = text.removesuffix(place).split()
    found = []
    for thing in range(len(scene.cells)):
        colour, size = list(COLOURS)[scene.colours[thing]], list(SIZES)[scene.sizes[thing]]
        true = {colour, size, SHAPES[scene.shapes[thing]], "the", "a"}
        if set(words) <= true and (not place or PLACES.index(place) == scene.cells[thing]):
            found.append(thing)
    return list(np.array(found, int))
