"""Load a source; any error becomes a MotionkitError that concerns only its own clips."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource


def load_clips(source: ClipSource) -> Sequence[Clip]:
    """Load a source.

    Raises:
        MotionkitError: It cannot be used. Unexpected errors of a reader are converted too, because one damaged file
            must not stop a folder; the message asks for a report.
    """
    try:
        return source.load()
    except MotionkitError:
        raise
    except OSError as error:
        fix = "check its permissions." if isinstance(error, PermissionError) else ""
        raise MotionkitError(f"{source.origin} cannot be read: {error.strerror or error}.", fix=fix) from error
    except Exception as error:
        raise unforeseen(error, source.origin) from error


def unforeseen(error: Exception, origin: str) -> MotionkitError:
    """Return the MotionkitError for an unexpected error of a reader."""
    if isinstance(error, MemoryError):
        return MotionkitError(f"{origin} takes more memory than there is.", fix="cut it into shorter files.")
    words = " ".join(str(error).split())[:200]
    return MotionkitError(
        f"{origin}: unexpected {type(error).__name__}{f': {words}' if words else ''}.",
        fix="the file is damaged in a way that motionkit does not know yet: please report it.",
    )
