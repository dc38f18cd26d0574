"""The contract of a dataset of motions and texts."""

from __future__ import annotations

from typing import Any, cast

import torch

from motionkit import plugins
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import feature_width
from motionkit.motion.corpus.ids import Split
from motionkit.plugins import Component, gives_of
from motionkit.testing._component import Findings, check_component, component_of, options_of, other_check

SPLITS = ("train", "val", "test")


def check_dataset(
    dataset: str | Component | TextMotionDataset, *, options: dict[str, Any] | None = None, clips: int = 16
) -> None:
    """Check what trainers rely on in every text-motion dataset; by name, a dataset of another type by its check.

    Clips have a fixed order, distinct keys, finite float32 features of the body's width and at least one caption;
    splits share no clip; prompts are at most `max_length` long, repeatable by seed, and have the requested number of
    segments (a dataset whose prompts all have the same number may refuse another); statistics fit the features. Of one
    without clips the prompts alone are checked.

    Args:
        dataset: Its name, its component, or an open dataset.
        options: Options to build it with.
        clips: Number of clips of each split to check.

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
        if (other := other_check("datasets", gives_of("datasets", component))) is not None:
            return other(dataset, options=options, clips=clips)
        dataset = cast("TextMotionDataset", plugins.build("datasets", component, options_of(component, options)))
    findings = Findings(f"dataset {dataset.name!r}")
    _check_motions(findings, dataset, clips)
    findings.close()


def _check_motions(findings: Findings, dataset: TextMotionDataset, clips: int) -> None:
    findings.expect(dataset.fps > 0, f"fps must be positive, is {dataset.fps}.")
    if not dataset.has_clips:
        _check_prompts(findings, dataset)
        return
    width = feature_width(dataset.skeleton)
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
