"""Frames that are not finite: filled while something runs over all frames, and marked again afterwards."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.motion._motion import Motion


def nearest_sound(sound: Tensor) -> Tensor:
    """Return for each frame the last sound one up to it; the first sound one for frames before it.

    Args:
        sound: ``[T]``, True somewhere.
    """
    index = torch.where(sound, torch.arange(len(sound)), -1)
    return index.cummax(0).values.clamp_min(int(sound.to(torch.int8).argmax()))


def sound_rows(values: Tensor) -> Tensor:
    """Return ``[T]``: True where all values of a row of ``[T, ...]`` are finite."""
    return values.isfinite().reshape(len(values), math.prod(values.shape[1:])).all(dim=1)


def only(motion: Motion, sound: Tensor) -> Motion:
    """Return the sound frames alone, for what is guessed from a motion; there is time missing between them."""
    if bool(sound.all()):
        return motion
    return replace(motion, rotations=motion.rotations[sound], translations=motion.translations[sound], tracks={})


def spoil(motion: Motion, sound: Tensor) -> Motion:
    """Return the motion with NaN for everything in frames that are not sound; whole numbers of tracks stay."""
    if bool(sound.all()):
        return motion

    def marked(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            return values
        return torch.where(sound.view(-1, *[1] * (values.ndim - 1)), values, math.nan)

    return replace(
        motion,
        rotations=marked(motion.rotations),
        translations=marked(motion.translations),
        tracks={name: marked(values) for name, values in motion.tracks.items()},
    )


def said_of(sound: Tensor) -> list[str]:
    """Return a warning when there are frames that are not sound; which ones is the check's to say."""
    lost = int((~sound).sum())
    return [f"values are not finite in {lost} of {len(sound)} frames."] if lost else []
