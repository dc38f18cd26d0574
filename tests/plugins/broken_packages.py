"""Packages that are broken in every way that was thought of, made by code.

Light halves that fail, by the name of the reward they bring, and metadata that is no metadata.
"""

from __future__ import annotations

from typing import Any

from motionkit.plugins._discovery import forget

GOOD = """
from motionkit.config import Group
from motionkit.plugins import Component
class Options(Group):
    pass
component = Component("It works.", Options, "{module}:Reward")
"""

NOISE = "import os, subprocess, sys\nprint('noise')\nos.write(1, b'noise')\nsubprocess.run(['echo', 'noise'])\n"
"""Prints from Python, straight to descriptor 1, and from another process."""

RAISING = {
    "exits": ("raise SystemExit(0)", "SystemExit: 0"),
    "leaves": ("import typer\nraise typer.Exit(0)", "Exit"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "odd": ("class Odd(BaseException):\n    pass\nraise Odd('strange')", "Odd: strange"),
    "mute": ("class Mute(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise Mute", "Mute: "),
    "quiet": ("from motionkit.errors import MotionkitError\nraise MotionkitError('no.', code=0)", "no."),
    "unwritten": ("def (", "SyntaxError: "),
    "lost": ("import nonesuch_module", "ModuleNotFoundError: No module named 'nonesuch_module'"),
    "empty": ("", "AttributeError: "),
    "number": ("component = 3", "is a int, not a motionkit Component"),
    "hollow": (
        "from motionkit.plugins import Component\ncomponent = Component('x', None, 'a:b')",
        "the options of hollow:component of package 'broken-hollow' cannot be None",
    ),
}
"""Name, source of the light half, part of what is said."""


def install_raising(site: Any) -> None:
    """Install a package for each of `RAISING`."""
    for name, (source, _) in RAISING.items():
        install(site, name, source)


def install(site: Any, name: str, source: str) -> None:
    """Install package ``broken-NAME`` with reward NAME, whose light half is `source`."""
    module = name.replace("-", "_")
    site.install(f"broken-{name}", f"[motionkit.rewards]\n{name} = {module}:component\n", **{module: source})


METADATA = {
    "malformed": b"[motionkit.rewards]\nno entry at all\n",
    "binary": b"[motionkit.rewards]\n\xff\xfe\x00 = \x80\n",
}
"""Contents of an ``entry_points.txt`` that is none."""


def install_metadata(site: Any) -> None:
    """Install a package for each of `METADATA`, one whose file is a folder, and one without a METADATA file."""
    for name, content in METADATA.items():
        (site.install(f"odd-{name}", "") / "entry_points.txt").write_bytes(content)
    folder = site.install("odd-folder", "") / "entry_points.txt"
    folder.unlink()
    folder.mkdir()
    (site.install("odd-bare", "[motionkit.trainers]\nbare = json:component\n") / "METADATA").unlink()
    forget()
