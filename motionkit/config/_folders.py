"""Where motionkit keeps what takes a while to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return ``$MOTIONKIT_CACHE``, else ``$XDG_CACHE_HOME/motionkit``, else ``~/.cache/motionkit``."""
    if own := os.environ.get("MOTIONKIT_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "motionkit"
