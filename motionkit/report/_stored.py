"""Pictures that a run has written, for its page."""

from __future__ import annotations

import base64
from pathlib import Path


def stored_picture(folder: Path, name: object, *, most: int) -> str:
    """Return a WebP of a folder as an address for ``<img>``; empty where there is none.

    Args:
        folder: Where it lies.
        name: Its name, of an untrusted document; other folders that it names are left out.
        most: Bytes of the largest one.
    """
    path = folder / Path(str(name)).name
    if path.suffix != ".webp" or not path.is_file() or path.stat().st_size > most:
        return ""
    return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}"
