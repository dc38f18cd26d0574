"""Errors and warnings for too few or doubtful samples."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.base import Split, TextMotionDataset
from motionkit.datasets.composite._draw import ATTEMPTS, Drawing
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._sources import Source, shared_groups
from motionkit.datasets.composite._totals import extremes, next_total
from motionkit.datasets.joining import MIN_SEGMENT
from motionkit.errors import MotionkitError

MDM_LONGEST = 196
"""Frames of the longest motion that the published MDM and the starter's policy make."""

BIN = 20
"""Frames per bin of the histogram of lengths."""


def none_fits(sources: Sequence[Source], plan: Plan, name: str) -> MotionkitError:
    """Return the error for a plan that no clips fit, with a target length that would work."""
    clips, where = plan.k_segments, f"the {plan.split} split of {name}"
    reach = extremes(sources, clips, crop=plan.cuts)
    if reach is None:
        groups = len({source.group for source in sources})
        return MotionkitError(
            f"samples of {clips} segments need {clips} different clips; {where} has {groups}.",
            fix=f"--k-segments {groups} or fewer." if groups > 1 else "",
        )
    smallest, largest = reach
    if smallest > plan.target_length:
        most = largest + plan.tolerance
        fixes = [f"--target-length {smallest} is the smallest that fits {clips} segments, {most} the largest"]
        if not plan.cuts and plan.target_length >= MIN_SEGMENT * clips:
            fixes.append("--crop, which cuts clips to windows")
        if clips > 2:
            long = f", as most policies make at most {MDM_LONGEST} frames" if smallest > MDM_LONGEST else ""
            fixes.append(f"fewer segments{long}")
    elif largest < plan.low:
        fixes = [
            f"--target-length {largest + plan.tolerance} is the largest that fits {clips} segments",
            "more segments",
        ]
    else:
        further = next_total(sources, clips, above=plan.target_length, crop=plan.cuts)
        fixes = [f"--target-length {further} is the next that fits {clips} segments", "a larger --tolerance"]
    cut = (
        f"a cut window has at least {MIN_SEGMENT} frames, and clips shorter than that stay whole: " if plan.cuts else ""
    )
    return MotionkitError(
        f"no {clips} clips of {where} add up to {plan.low}..{plan.target_length} frames.",
        why=f"{cut}{clips} different clips have {smallest} to {largest} frames together.",
        fix="; or ".join(fixes) + ".",
    )


def too_few(drawing: Drawing, plan: Plan, sources: Sequence[Source], histogram: dict[int, int]) -> str:
    """Return the warning that there are fewer samples than were asked for, with the lengths that there are."""
    bins = ", ".join(f"{start}-{start + BIN - 1}: {clips}" for start, clips in histogram.items())
    reason = "no other clips fit" if drawing.exhausted else f"the limit of {ATTEMPTS} draws per sample was reached"
    return (
        f"{len(drawing.samples)} samples instead of {plan.max_samples}: {reason} ({drawing.attempts} draws from "
        f"{len(sources)} clips). Clips by length in frames: {bins}."
    )


def alike(drawing: Drawing) -> str:
    """Return the warning that captions repeat within samples."""
    return (
        f"{drawing.repeats} of {len(drawing.samples)} samples have one caption in two segments, because their clips "
        "have no others: a reward that compares the segments of a sample cannot tell these apart."
    )


def leaks(dataset: TextMotionDataset, split: Split, sources: Sequence[Source]) -> list[str]:
    """Return a warning for each other split that has motions of `sources` too."""
    return [
        f"{len(groups)} motion(s) of the {split} split are in the {other} split too (such as {groups[0]}): what is "
        "trained on one would be measured on itself in the other."
        for other, groups in shared_groups(dataset, split, sources).items()
    ]
