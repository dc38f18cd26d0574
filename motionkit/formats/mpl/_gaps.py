"""Fields of an exported motion with frames in them that are not finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.mpl._document import Fields
from motionkit.motion.finite import nearest_sound, sound_rows


class Filled:
    """Fields in which gaps are filled with the nearest sound frame, so that paths and turns can be summed up.

    What was filled is remembered for all fields together: whoever builds a motion of them marks these frames in it.

    Attributes:
        sound: ``[T]``: True where every value read so far is finite.
    """

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.sound = torch.ones(fields.frames, dtype=torch.bool)

    @property
    def origin(self) -> str:
        """Return the file, for messages."""
        return self.fields.origin

    @property
    def head(self) -> Mapping[str, Any]:
        """Return what there is besides frames."""
        return self.fields.head

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return the table ``meta``."""
        return self.fields.meta

    @property
    def frames(self) -> int:
        """Return the number of frames."""
        return self.fields.frames

    def has(self, *names: str) -> str:
        """Return the first of some names of a field that is there; empty when none is."""
        return self.fields.has(*names)

    def numbers(self, name: str, *shape: int) -> Tensor:
        """Return a field ``[T, *shape]`` float64, finite.

        Raises:
            MotionkitError: It is damaged, or no frame of the fields read so far is finite in all of them.
        """
        return self.fill(self.fields.numbers(name, *shape), name)

    def fill(self, values: Tensor, name: str) -> Tensor:
        """Return ``[T, ...]`` with its gaps filled, and remember them.

        Raises:
            MotionkitError: As `numbers`.
        """
        sound = sound_rows(values)
        self.sound &= sound
        if bool(sound.all()):
            return values
        if not bool(self.sound.any()):
            raise MotionkitError(
                f"{self.origin} has no frame whose values are all finite.",
                why=f"{name} is empty, NaN or infinite in {int((~sound).sum())} of {len(sound)} frames.",
            )
        return values[nearest_sound(sound)]
