"""The contract of a dataset."""

from __future__ import annotations

from typing import Any, cast

import torch

from motionkit.datasets.base import RegionDataset, Split, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import feature_width
from motionkit.plugins import Component
from motionkit.testing._component import check_component
from motionkit.testing._region_datasets import check_regions
from motionkit.testing._report import Findings, component_of, options_of

SPLITS = ("train", "val", "test")


def check_dataset(
    dataset: str | Component | TextMotionDataset | RegionDataset,
    *,
    options: dict[str, Any] | None = None,
    clips: int = 16,
) -> None:
    """Check what trainers rely on in every text-motion dataset, and in every dataset of regions.

    Text-motion: clips come in the same order each time, with distinct keys, finite float32 features of the body's width
    and at least one caption; splits share no clip; prompts are as long as they say, repeatable by seed, and have the
    number of segments that was asked for (a dataset whose prompts all have the same number may refuse another);
    statistics fit the features.

    Regions: a region is the same in every order and at every call, with an image ``[H, W, 3]`` uint8, a mask ``[h, w]``
    bool that is not empty, and a caption; no image is in two splits; areas and captions of absent objects, where it
    offers them, have one entry for each region.

    Args:
        dataset: Its name, its component, or a dataset that is open already.
        options: Options to build it with.
        clips: How many clips or regions of each split to look at.

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
    found = Findings(f"dataset {getattr(dataset, 'name', type(dataset).__name__)!r}")
    if not hasattr(dataset, "clips"):
        check_regions(found, dataset, clips)
        found.close()
        return
    _check_motions(found, cast("TextMotionDataset", dataset), clips)
    found.close()


def _check_motions(found: Findings, dataset: TextMotionDataset, clips: int) -> None:
    width = feature_width(dataset.skeleton)
    found.expect(dataset.fps > 0, f"fps must be positive, is {dataset.fps}.")
    found.expect(
        dataset.normalizer.width == width, f"Its statistics are {dataset.normalizer.width} wide, its features {width}."
    )
    owners: dict[str, str] = {}
    for split in SPLITS:
        _check_split(found, dataset, cast("Split", split), width, owners, clips)
    found.expect(bool(owners), "It has no clips at all.")
    _check_prompts(found, dataset)


def _check_split(
    found: Findings, dataset: TextMotionDataset, split: Split, width: int, owners: dict[str, str], clips: int
) -> None:
    first = dataset.clips(split)
    again = dataset.clips(split)
    keys = [first[i].key for i in range(len(first))]
    found.expect(
        keys == [again[i].key for i in range(len(again))], f"The order of clips({split!r}) changes between calls."
    )
    found.expect(len(set(keys)) == len(keys), f"Two clips of {split!r} have one key.")
    shared = [key for key in keys if key in owners]
    found.expect(not shared, f"Clip {shared[:1]} is in {split!r} and in another split.")
    owners.update(dict.fromkeys(keys, split))
    for i in range(min(len(first), clips)):
        clip = first[i]
        where = f"Clip {clip.key!r} of {split!r}"
        fits = clip.features.ndim == 2 and clip.features.shape[1] == width and clip.features.dtype == torch.float32
        found.expect(
            fits,
            f"{where}: features must be [T, {width}] float32, are {list(clip.features.shape)} {clip.features.dtype}.",
        )
        found.expect(bool(clip.features.isfinite().all()), f"{where} has features that are not finite.")
        found.expect(any(text.strip() for text in clip.captions), f"{where} has no caption.")


def _check_prompts(found: Findings, dataset: TextMotionDataset) -> None:
    prompts = dataset.prompts("train")
    if not found.expect(len(prompts) > 0, "prompts('train') is empty."):
        return
    longest = max(prompts[i].length for i in range(len(prompts)))
    found.expect(
        longest <= dataset.max_length, f"A prompt has {longest} frames, more than max_length {dataset.max_length}."
    )
    keys = [prompts[i].key for i in range(len(prompts))]
    found.expect(len(set(keys)) == len(keys), "Two training prompts have one key; their noise would be the same.")
    count = 2
    try:
        asked = dataset.prompts("train", k_segments=2, seed=3)
    except MotionkitError:
        counts = {len(prompts[i].segments) for i in range(len(prompts))}
        if not found.expect(len(counts) == 1, "prompts('train', k_segments=2) is refused, though K is not fixed."):
            return
        count = counts.pop()
        asked = dataset.prompts("train", k_segments=count, seed=3)
    if found.expect(len(asked) > 0, f"prompts('train', k_segments={count}) is empty."):
        found.expect(
            all(len(asked[i].segments) == count for i in range(len(asked))),
            f"k_segments={count} must give {count} segments.",
        )
        again = dataset.prompts("train", k_segments=count, seed=3)
        found.expect(list(asked[:8]) == list(again[:8]), "The same seed must give the same prompts.")
