"""Checks that several composite files can be used as one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from motionkit.datasets.composite._read import CompositeFile
from motionkit.datasets.overlap import shared_motions
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, Skeleton

_BODIES: dict[str, Skeleton] = {"humanml": HUMANML, "t2m": HUMANML, "starter": HUMANML, "kit": KIT}


def refuse_twins(files: Sequence[CompositeFile]) -> None:
    """Refuse two files of one split and one number of segments."""
    seen: dict[tuple[str, int], CompositeFile] = {}
    for file in files:
        key = (file.document.metadata.split, file.document.metadata.k_segments)
        if key in seen:
            raise MotionkitError(
                f"{seen[key].path} and {file.path} both hold {key[0]} prompts of {key[1]} segments.",
                fix="name one of them with --dataset.path.",
            )
        seen[key] = file


def one_skeleton(files: Sequence[CompositeFile]) -> Skeleton:
    """Return the body of all files."""
    names = sorted({file.document.metadata.skeleton or file.document.metadata.dataset_name for file in files})
    bodies = [body for body in {_BODIES.get(name) for name in names} if body is not None]
    if len(bodies) != 1 or any(name not in _BODIES for name in names):
        raise MotionkitError(
            f"the composite files are of {', '.join(map(repr, names))}, which is not one known body.",
            fix="name files of one dataset: humanml (22 joints) or kit (21).",
        )
    return bodies[0]


def one_fps(files: Sequence[CompositeFile], wanted: float | None) -> float:
    """Return the frame rate of all files, and of `wanted` if it is given."""
    own = files[0].document.metadata.fps
    found = sorted({file.document.metadata.fps for file in files} | ({wanted} if wanted is not None else set()))
    if len(found) > 1:
        raise MotionkitError(
            f"frames per second differ: {', '.join(f'{value:g}' for value in found)}.",
            why="segment lengths are in frames of the rate they were composed at.",
            fix=f"leave --dataset.fps out, or make it {own:g}.",
        )
    return own


def longest(files: Sequence[CompositeFile], wanted: int | None) -> int:
    """Return the longest motion in frames: `wanted`, else the files' own target length."""
    most = max(sample.total_frames for file in files for sample in file.document.samples)
    if wanted is not None and most > wanted:
        raise MotionkitError(
            f"a composite prompt asks for {most} frames, more than dataset.max_length {wanted}.",
            fix=f"--dataset.max-length {most}, or compose with a smaller --target-length.",
        )
    return wanted or max(most, *(file.document.metadata.target_length for file in files))


def shared_clips(files: Sequence[CompositeFile]) -> list[str]:
    """Return the source motions that the prompts of two splits have in common, mirrored or not; sorted."""
    splits: dict[str, set[str]] = {}
    for file in files:
        names = splits.setdefault(file.document.metadata.split, set())
        names.update(name for sample in file.document.samples for name in sample.source_ids)
    return sorted({name for one, other in combinations(splits.values(), 2) for name in shared_motions(one, other)})
