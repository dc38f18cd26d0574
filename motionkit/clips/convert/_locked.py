"""A source that cannot be opened (permissions); its `load` fails, other sources are not affected."""

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
        reason: The error message of the system.
    """

    path: Path
    key: str
    reason: str

    @property
    def origin(self) -> str:
        """Return the path."""
        return str(self.path)

    def fingerprint(self) -> str:
        """Return an empty text: it is tried again next time."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Raise a MotionkitError with the reason."""
        what = "; what is in it was not read" if self.path.suffix == "" else ""
        raise MotionkitError(f"{self.path}: {self.reason}{what}.", fix="check its permissions.")
