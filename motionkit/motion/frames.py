"""Masks over frames: runs of frames, and frames that hold values that are not finite."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.motion.motion import Motion

Ranges = tuple[tuple[int, int], ...]
"""Half-open runs of frames, in order."""


def ranges(marked: Tensor) -> Ranges:
    """Return the half-open ranges in which a ``[T]`` mask is True."""
    steps = torch.nn.functional.pad(marked.to(torch.int8), (1, 1)).diff()
    starts, stops = torch.nonzero(steps == 1)[:, 0].tolist(), torch.nonzero(steps == -1)[:, 0].tolist()
    return tuple(zip(starts, stops, strict=True))


def finite_frames(values: Tensor) -> Tensor:
    """Return ``[T]``: True where all values of a row of ``[T, ...]`` are finite."""
    return values.isfinite().reshape(len(values), math.prod(values.shape[1:])).all(dim=1)


def nearest_finite(finite: Tensor) -> Tensor:
    """Return for each frame the index of the last finite one up to it, and of the first one for frames before that.

    Args:
        finite: ``[T]``, True somewhere.
    """
    index = torch.where(finite, torch.arange(len(finite)), -1)
    return index.cummax(0).values.clamp_min(int(finite.to(torch.int8).argmax()))


def finite_part(motion: Motion, finite: Tensor) -> Motion:
    """Return the finite frames of a motion without its tracks: enough to guess a unit or an axis from."""
    if bool(finite.all()):
        return motion
    return replace(motion, rotations=motion.rotations[finite], translations=motion.translations[finite], tracks={})


def mark_missing(motion: Motion, finite: Tensor) -> Motion:
    """Return the motion with NaN in all frames that are not finite; tracks of whole numbers stay as they are."""
    if bool(finite.all()):
        return motion

    def marked(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            return values
        return torch.where(finite.view(-1, *[1] * (values.ndim - 1)), values, math.nan)

    return replace(
        motion,
        rotations=marked(motion.rotations),
        translations=marked(motion.translations),
        tracks={name: marked(values) for name, values in motion.tracks.items()},
    )


def finite_warning(finite: Tensor) -> list[str]:
    """Return a warning with the number of frames that are not finite; empty when all are."""
    lost = int((~finite).sum())
    return [f"values are not finite in {lost} of {len(finite)} frames."] if lost else []
