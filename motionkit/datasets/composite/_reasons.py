"""Why there are no samples, or fewer than were asked for, or doubtful ones."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.base import Split, TextMotionDataset
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._sources import Source, shared_groups
from motionkit.datasets.joining import MIN_SEGMENT
from motionkit.errors import MotionkitError

ATTEMPTS = 200
"""Draws per sample asked for, at most; the original code's figure."""

BIN = 20
"""Frames per bin of the histogram of lengths."""


def impossible(plan: Plan, reach: tuple[int, int], name: str) -> MotionkitError:
    """Return the error for a plan that nothing fits, with the targets that something would fit."""
    smallest, largest = reach[0], reach[1] + plan.tolerance
    least = f"a window has at least {MIN_SEGMENT} frames, and " if plan.cuts else ""
    fix = f"--target-length {smallest} is the smallest that fits {plan.k_segments} segments, {largest} the largest"
    if smallest > plan.target_length:
        if not plan.cuts and plan.target_length >= MIN_SEGMENT * plan.k_segments:
            fix += "; or --crop, which cuts clips to windows"
        if plan.k_segments > 2:
            fix += "; or use fewer segments"
    elif largest < plan.target_length:
        fix += "; or use more segments"
    else:
        fix += "; or use a larger --tolerance"
    return MotionkitError(
        f"no {plan.k_segments} clips of the {plan.split} split of {name} add up to {plan.low}..{plan.target_length} "
        "frames.",
        why=f"{least}{plan.k_segments} different clips have {reach[0]} to {reach[1]} frames together.",
        fix=fix + ".",
    )


def too_few(count: int, plan: Plan, attempts: int, sources: Sequence[Source], histogram: dict[int, int]) -> str:
    """Return the warning that there are fewer samples than were asked for, with the lengths that there are."""
    bins = ", ".join(f"{start}-{start + BIN - 1}: {clips}" for start, clips in histogram.items())
    reason = (
        f"the limit of {ATTEMPTS} draws per sample was reached"
        if attempts >= ATTEMPTS * plan.max_samples
        else "further draws brought no new combination"
    )
    return (
        f"{count} samples instead of {plan.max_samples}: {reason} ({attempts} draws from {len(sources)} clips). "
        f"Clips by length in frames: {bins}."
    )


def leaks(dataset: TextMotionDataset, split: Split, sources: Sequence[Source]) -> list[str]:
    """Return a warning for each other split that has motions of `sources` too."""
    return [
        f"{len(groups)} motion(s) of the {split} split are in the {other} split too (such as {groups[0]}): what is "
        "trained on one would be measured on itself in the other."
        for other, groups in shared_groups(dataset, split, sources).items()
    ]
