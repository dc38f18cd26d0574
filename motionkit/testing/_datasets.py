"""The contract of a dataset."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import feature_width
from motionkit.motion.corpus.ids import Split
from motionkit.plugins import Component
from motionkit.regions.datasets.base import HasRegionAreas, KnowsScenes, NamesAbsent, RegionDataset, Regions
from motionkit.regions.evaluation.known import Truth
from motionkit.testing._component import Findings, check_component, component_of, options_of

SPLITS = ("train", "val", "test")


def check_regions(findings: Findings, dataset: RegionDataset, most: int) -> None:
    """Add violations of a dataset of regions; see `motionkit.testing.check_dataset`."""
    owners: dict[int, str] = {}
    total = 0
    for word in SPLITS:
        split = cast("Split", word)
        count = dataset.count(split)
        if not findings.expect(
            isinstance(count, int) and count >= 0, f"count({word!r}) must be 0 or more, is {count!r}."
        ):
            continue
        total += count
        number = min(count, most)
        if number:
            _check_region_split(findings, dataset, split, number, owners)
    findings.expect(total > 0, "It has no regions at all.")


def _check_region_split(
    findings: Findings, dataset: RegionDataset, split: Split, number: int, owners: dict[int, str]
) -> None:
    index = np.arange(number)
    regions = dataset.regions(split, index)
    where = f"regions({split!r}, ...)"
    sizes = {len(regions.images), len(regions.masks), len(regions.captions)}
    if not findings.expect(sizes == {number}, f"{where} must have {number} images, masks and captions."):
        return
    for place in range(number):
        _check_one(findings, regions, place, f"Region {place} of {split!r}")
    turned = dataset.regions(split, index[::-1].copy())
    same = all(_alike(regions, place, turned, number - 1 - place) for place in range(number))
    findings.expect(same, f"{where} gives other regions in another order, or the second time.")
    for place, image in enumerate(regions.images):
        mark = zlib.crc32(np.ascontiguousarray(image).tobytes())
        owner = owners.setdefault(mark, split)
        findings.expect(owner == split, f"The image of region {place} of {split!r} is in {owner!r} as well.")
    if isinstance(dataset, HasRegionAreas):
        areas = np.asarray(dataset.areas(split))
        fits = areas.shape == (dataset.count(split),) and bool(((areas > 0) & (areas <= 1)).all())
        findings.expect(fits, f"areas({split!r}) must be one number above 0 up to 1 for each region.")
    if isinstance(dataset, NamesAbsent):
        named = list(dataset.absent(split, index))
        fits = len(named) == number and all(isinstance(text, str) and text.strip() for text in named)
        findings.expect(fits, f"absent({split!r}, ...) must give a caption for each region.")
    if isinstance(dataset, KnowsScenes):
        _check_scenes(findings, dataset, split, index, regions.captions)


def _check_scenes(
    findings: Findings, dataset: KnowsScenes, split: Split, index: NDArray[np.int64], captions: Sequence[str]
) -> None:
    where, kinds = f"scenes({split!r}, ...)", set(dataset.attributes)
    scenes = list(dataset.scenes(split, index))
    if not findings.expect(bool(kinds) and len(scenes) == len(index), f"{where} must give a scene for each region."):
        return
    for place, scene in enumerate(scenes):
        fits = 0 <= scene.meant < len(scene.things) and all(set(thing.attributes) == kinds for thing in scene.things)
        message = (
            f"{where}: the things of scene {place} must have the attributes {sorted(kinds)}, and one must be meant."
        )
        if not findings.expect(fits, message):
            return
    wrong = Truth(dataset, scenes).score(captions)["attributes_wrong"] > 0
    # People make mistakes; scenes of other objects, or misread words, would be wrong most of the time.
    message = (
        f"{where} and read(...): {int(wrong.sum())} of {len(wrong)} captions of the data are not true of their object."
    )
    findings.expect(2 * int(wrong.sum()) <= len(wrong), message)


def _check_one(findings: Findings, regions: Regions, place: int, where: str) -> None:
    image, mask, caption = regions.images[place], regions.masks[place], regions.captions[place]
    fits = image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8
    findings.expect(fits, f"{where}: the image must be [H, W, 3] uint8, is {list(image.shape)} {image.dtype}.")
    fits = mask.ndim == 2 and mask.dtype == np.bool_
    if findings.expect(fits, f"{where}: the mask must be [h, w] bool, is {list(mask.shape)} {mask.dtype}."):
        findings.expect(bool(mask.any()), f"{where} has an empty mask: leave such rows out.")
    findings.expect(bool(caption.strip()), f"{where} has no caption.")


def _alike(first: Regions, row: int, second: Regions, other_row: int) -> bool:
    return (
        np.array_equal(first.images[row], second.images[other_row])
        and np.array_equal(first.masks[row], second.masks[other_row])
        and first.captions[row] == second.captions[other_row]
    )


def check_dataset(
    dataset: str | Component | TextMotionDataset | RegionDataset,
    *,
    options: dict[str, Any] | None = None,
    clips: int = 16,
) -> None:
    """Check what trainers rely on in every text-motion dataset, and in every dataset of regions.

    Text-motion: clips have a fixed order, distinct keys, finite float32 features of the body's width and at least one
    caption; splits share no clip; prompts are at most `max_length` long, repeatable by seed, and have the requested
    number of segments (a dataset whose prompts all have the same number may refuse another); statistics fit the
    features.

    Regions: a region is the same in every order and at every call, with an image ``[H, W, 3]`` uint8, a mask ``[h, w]``
    bool that is not empty, and a caption; no image is in two splits; areas and captions of absent objects, if it offers
    them, have one entry for each region.

    Args:
        dataset: Its name, its component, or an open dataset.
        options: Options to build it with.
        clips: Number of clips or regions of each split to check.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_dataset
        >>> check_dataset(load_dataset("starter", clips=8, val_clips=8, test_clips=8, prompts=8, cache=False), clips=2)
    """
    if isinstance(dataset, str):
        check_component("datasets", dataset)
    if isinstance(dataset, (str, Component)):
        component = component_of("datasets", dataset)
        dataset = cast("TextMotionDataset | RegionDataset", component.build(options_of(component, options)))
    findings = Findings(f"dataset {getattr(dataset, 'name', type(dataset).__name__)!r}")
    if not hasattr(dataset, "clips"):
        check_regions(findings, dataset, clips)
        findings.close()
        return
    _check_motions(findings, cast("TextMotionDataset", dataset), clips)
    findings.close()


def _check_motions(findings: Findings, dataset: TextMotionDataset, clips: int) -> None:
    width = feature_width(dataset.skeleton)
    findings.expect(dataset.fps > 0, f"fps must be positive, is {dataset.fps}.")
    findings.expect(
        dataset.normalizer.width == width, f"Its statistics are {dataset.normalizer.width} wide, its features {width}."
    )
    owners: dict[str, str] = {}
    for split in SPLITS:
        _check_split(findings, dataset, cast("Split", split), width, owners, clips)
    findings.expect(bool(owners), "It has no clips at all.")
    _check_prompts(findings, dataset)


def _check_split(
    findings: Findings, dataset: TextMotionDataset, split: Split, width: int, owners: dict[str, str], clips: int
) -> None:
    first = dataset.clips(split)
    again = dataset.clips(split)
    keys = [first[i].key for i in range(len(first))]
    findings.expect(
        keys == [again[i].key for i in range(len(again))], f"The order of clips({split!r}) changes between calls."
    )
    findings.expect(len(set(keys)) == len(keys), f"Two clips of {split!r} have one key.")
    shared = [key for key in keys if key in owners]
    findings.expect(not shared, f"Clip {shared[:1]} is in {split!r} and in another split.")
    owners.update(dict.fromkeys(keys, split))
    for i in range(min(len(first), clips)):
        clip = first[i]
        where = f"Clip {clip.key!r} of {split!r}"
        fits = clip.features.ndim == 2 and clip.features.shape[1] == width and clip.features.dtype == torch.float32
        findings.expect(
            fits,
            f"{where}: features must be [T, {width}] float32, are {list(clip.features.shape)} {clip.features.dtype}.",
        )
        findings.expect(bool(clip.features.isfinite().all()), f"{where} has features that are not finite.")
        findings.expect(any(text.strip() for text in clip.captions), f"{where} has no caption.")


def _check_prompts(findings: Findings, dataset: TextMotionDataset) -> None:
    prompts = dataset.prompts("train")
    if not findings.expect(len(prompts) > 0, "prompts('train') is empty."):
        return
    longest = max(prompts[i].length for i in range(len(prompts)))
    findings.expect(
        longest <= dataset.max_length, f"A prompt has {longest} frames, more than max_length {dataset.max_length}."
    )
    keys = [prompts[i].key for i in range(len(prompts))]
    findings.expect(len(set(keys)) == len(keys), "Two training prompts have one key; their noise would be the same.")
    count = 2
    try:
        composite = dataset.prompts("train", k_segments=2, seed=3)
    except MotionkitError:
        counts = {len(prompts[i].segments) for i in range(len(prompts))}
        if not findings.expect(len(counts) == 1, "prompts('train', k_segments=2) is refused, though K is not fixed."):
            return
        count = counts.pop()
        composite = dataset.prompts("train", k_segments=count, seed=3)
    if findings.expect(len(composite) > 0, f"prompts('train', k_segments={count}) is empty."):
        findings.expect(
            all(len(composite[i].segments) == count for i in range(len(composite))),
            f"k_segments={count} must give {count} segments.",
        )
        again = dataset.prompts("train", k_segments=count, seed=3)
        findings.expect(list(composite[:8]) == list(again[:8]), "The same seed must give the same prompts.")
