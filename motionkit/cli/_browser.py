"""Opens pages in the user's browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from motionkit.cli.output import say


def open_page(page: Path) -> None:
    """Open a page in a browser with windows, or say that there is none; one in a terminal would show nothing."""
    windows = sys.platform in ("darwin", "win32") or any(os.environ.get(key) for key in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not ((windows or os.environ.get("BROWSER")) and webbrowser.open(page.resolve().as_uri())):
        say("there is no browser here: open the page on a machine that has one.")
