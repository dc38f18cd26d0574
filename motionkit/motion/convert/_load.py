"""Opening a source without letting whatever is wrong with it get further than its own clip."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource


def load_clips(source: ClipSource) -> Sequence[Clip]:
    """Load a source.

    Raises:
        MotionkitError: It cannot be used. A file that a reader did not expect counts as such a file as well: one of a
            thousand must not stop the others, and the message says that it was not foreseen.
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
    """Return what an error of any kind means for the clip that caused it."""
    if isinstance(error, MemoryError):
        return MotionkitError(f"{origin} takes more memory than there is.", fix="cut it into shorter files.")
    words = " ".join(str(error).split())[:200]
    return MotionkitError(
        f"{origin}: unexpected {type(error).__name__}{f': {words}' if words else ''}.",
        fix="the file is damaged in a way that motionkit does not know yet: please report it.",
    )
