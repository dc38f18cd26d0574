"""Opens zip archives with a bounded list of members."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO

from motionkit.errors import MotionkitError

_DIRECTORY = 8 << 20
"""Most bytes of the list of members, enough for about 80 000."""


def open_zip(file: IO[bytes], path: Path) -> zipfile.ZipFile:
    """Open an archive; no member is read.

    Raises:
        MotionkitError: It is damaged, cut short, or lists too many members.
    """
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        size = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]
        if size <= _DIRECTORY:
            return zipfile.ZipFile(file)
    # For damaged lists zipfile also raises NotImplementedError, UnicodeDecodeError and struct.error.
    except Exception as error:
        raise MotionkitError(
            f"{path} is damaged or cut short.",
            why=str(error) or type(error).__name__,
            fix="copy or download it again; a stopped download leaves a shorter file.",
        ) from error
    raise MotionkitError(
        f"{path} was not opened: its list of members takes {size / 1e6:.0f} MB.",
        why=f"no file of arrays or weights has more than {_DIRECTORY >> 20} MB of it.",
    )
