"""The contract of a dataset of regions."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import HasRegionAreas, KnowsScenes, NamesAbsent, RegionDataset, Regions, Split
from motionkit.evaluation.regions._truth import Truth
from motionkit.testing._report import Findings

_SPLITS = ("train", "val", "test")


def check_regions(found: Findings, dataset: RegionDataset, most: int) -> None:
    """Add violations of a dataset of regions; see `motionkit.testing.check_dataset`.

    Args:
        found: Where they go.
        dataset: The dataset.
        most: Regions of each split to look at.
    """
    owners: dict[int, str] = {}
    total = 0
    for word in _SPLITS:
        split = cast("Split", word)
        count = dataset.count(split)
        if not found.expect(isinstance(count, int) and count >= 0, f"count({word!r}) must be 0 or more, is {count!r}."):
            continue
        total += count
        number = min(count, most)
        if number:
            _check_split(found, dataset, split, number, owners)
    found.expect(total > 0, "It has no regions at all.")


def _check_split(found: Findings, dataset: RegionDataset, split: Split, number: int, owners: dict[int, str]) -> None:
    index = np.arange(number)
    regions = dataset.regions(split, index)
    where = f"regions({split!r}, ...)"
    sizes = {len(regions.images), len(regions.masks), len(regions.captions)}
    if not found.expect(sizes == {number}, f"{where} must have {number} images, masks and captions."):
        return
    for place in range(number):
        _check_one(found, regions, place, f"Region {place} of {split!r}")
    turned = dataset.regions(split, index[::-1].copy())
    same = all(_alike(regions, place, turned, number - 1 - place) for place in range(number))
    found.expect(same, f"{where} gives other regions in another order, or the second time.")
    for place, image in enumerate(regions.images):
        mark = zlib.crc32(np.ascontiguousarray(image).tobytes())
        other = owners.setdefault(mark, split)
        found.expect(other == split, f"The image of region {place} of {split!r} is in {other!r} as well.")
    if isinstance(dataset, HasRegionAreas):
        areas = np.asarray(dataset.areas(split))
        fits = areas.shape == (dataset.count(split),) and bool(((areas > 0) & (areas <= 1)).all())
        found.expect(fits, f"areas({split!r}) must be one number above 0 up to 1 for each region.")
    if isinstance(dataset, NamesAbsent):
        named = list(dataset.absent(split, index))
        fits = len(named) == number and all(isinstance(text, str) and text.strip() for text in named)
        found.expect(fits, f"absent({split!r}, ...) must give a caption for each region.")
    if isinstance(dataset, KnowsScenes):
        _check_scenes(found, dataset, split, index, regions.captions)


def _check_scenes(
    found: Findings, dataset: KnowsScenes, split: Split, index: NDArray[np.int64], captions: Sequence[str]
) -> None:
    where, kinds = f"scenes({split!r}, ...)", set(dataset.attributes)
    scenes = list(dataset.scenes(split, index))
    if not found.expect(bool(kinds) and len(scenes) == len(index), f"{where} must give a scene for each region."):
        return
    for place, scene in enumerate(scenes):
        fits = 0 <= scene.meant < len(scene.things) and all(set(one.attributes) == kinds for one in scene.things)
        said = f"{where}: the things of scene {place} must have the attributes {sorted(kinds)}, and one must be meant."
        if not found.expect(fits, said):
            return
    wrong = Truth(dataset, scenes).score(captions)["attributes_wrong"] > 0
    # People err now and then; scenes of other objects, or words that are read as others, are wrong most of the time.
    said = (
        f"{where} and read(...): {int(wrong.sum())} of {len(wrong)} captions of the data are not true of their object."
    )
    found.expect(2 * int(wrong.sum()) <= len(wrong), said)


def _check_one(found: Findings, regions: Regions, place: int, where: str) -> None:
    image, mask, caption = regions.images[place], regions.masks[place], regions.captions[place]
    fits = image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8
    found.expect(fits, f"{where}: the image must be [H, W, 3] uint8, is {list(image.shape)} {image.dtype}.")
    fits = mask.ndim == 2 and mask.dtype == np.bool_
    if found.expect(fits, f"{where}: the mask must be [h, w] bool, is {list(mask.shape)} {mask.dtype}."):
        found.expect(bool(mask.any()), f"{where} has an empty mask: leave such rows out.")
    found.expect(bool(caption.strip()), f"{where} has no caption.")


def _alike(first: Regions, one: int, second: Regions, two: int) -> bool:
    return (
        np.array_equal(first.images[one], second.images[two])
        and np.array_equal(first.masks[one], second.masks[two])
        and first.captions[one] == second.captions[two]
    )
