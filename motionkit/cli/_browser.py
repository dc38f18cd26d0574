"""Opens pages in the user's browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from motionkit.cli.output import say


def open_address(address: str) -> bool:
    """Open an address in a browser with windows; one in a terminal would show nothing. Returns whether there is one."""
    windows = sys.platform in ("darwin", "win32") or any(os.environ.get(key) for key in ("DISPLAY", "WAYLAND_DISPLAY"))
    return bool(windows or os.environ.get("BROWSER")) and webbrowser.open(address)


def open_page(page: Path) -> None:
    """Open a page in a browser, or say that there is none."""
    if not open_address(page.resolve().as_uri()):
        say("there is no browser here: open the page on a machine that has one.")
