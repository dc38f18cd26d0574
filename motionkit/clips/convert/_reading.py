"""Refuse reading options that have no effect on the given files."""

from __future__ import annotations

from collections.abc import Iterable

from motionkit.clips.convert._file_source import FileSource
from motionkit.errors import MotionkitError
from motionkit.formats._table import FORMATS
from motionkit.motion._clip import ClipSource, ReadOptions

_FLAGS = {
    "up": "--up",
    "unit": "--units",
    "fps": "--source-fps",
    "rot6d_columns": "--rot6d-columns",
    "hierarchy": "--hierarchy",
    "offsets": "--offsets",
    "smpl_model": "--smpl-model",
}


def refuse_idle(options: ReadOptions, sources: Iterable[ClipSource]) -> None:
    """Refuse options that no reader of these sources uses, and files that do not exist.

    Raises:
        MotionkitError: There is such an option (the message names its formats) or file.
    """
    names = {source.format for source in sources if isinstance(source, FileSource)}
    heard = {option for name in names for option in FORMATS[name].options}
    plain = ReadOptions()
    for name, flag in _FLAGS.items():
        value = getattr(options, name)
        if value == getattr(plain, name):
            continue
        if name not in heard:
            known = ", ".join(entry.summary for entry in FORMATS.values() if name in entry.options)
            raise MotionkitError(
                f"{flag} {value} does not act on these inputs.", why=f"it is for {known}.", fix="leave it out."
            )
        if name in ("hierarchy", "offsets", "smpl_model") and not value.exists():
            raise MotionkitError(f"{flag} {value}: there is no such file.", fix="check the path.")
