"""Captions of what an image does not show."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import NamesAbsent, RegionDataset, Split

_PART = 64


def absent_captions(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> tuple[list[str], bool]:
    """Return a caption for each region whose object is not in the image.

    Data that know what they show name something else (`motionkit.datasets.base.NamesAbsent`). Of other data each
    region gets the caption of a region of another image, from half of the regions further on: what it names may be in
    the image by chance.

    Returns:
        The captions, and whether it is certain that nothing fits them. A region has an empty one where every caption
        of another image is its own.
    """
    if isinstance(data, NamesAbsent):
        return list(data.absent(split, index)), True
    captions: list[str] = []
    images: list[int] = []
    for start in range(0, len(index), _PART):
        found = data.regions(split, index[start : start + _PART])
        captions += found.captions
        images += [zlib.crc32(np.ascontiguousarray(one).tobytes()) for one in found.images]
    return borrowed(captions, images), False


def borrowed(captions: Sequence[str], images: Sequence[int]) -> list[str]:
    """Return for each region the caption of one of another image.

    Args:
        captions: Captions of the regions.
        images: A number of the image that each is in.
    """
    own: dict[int, set[str]] = {}
    for caption, image in zip(captions, images, strict=True):
        own.setdefault(image, set()).add(caption)
    count = len(captions)
    found = []
    for place, image in enumerate(images):
        others = (captions[(place + count // 2 + step) % count] for step in range(count))
        found.append(next((text for text in others if text not in own[image]), ""))
    return found
