"""A place among the inputs that the system does not let in: one failure of its own, among sources that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip


@dataclass(frozen=True)
class LockedSource:
    """A file or folder that cannot be opened.

    Attributes:
        path: Where it is.
        key: An id, as of a clip.
        reason: What the system says.
    """

    path: Path
    key: str
    reason: str

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return nothing: next time it may open."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Say that it cannot be read (MotionkitError)."""
        what = "; what is in it was not read" if self.path.suffix == "" else ""
        raise MotionkitError(f"{self.path}: {self.reason}{what}.", fix="check its permissions.")
