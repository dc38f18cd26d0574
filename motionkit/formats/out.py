"""The file that a command is to write: refused by its name, before anything is read or torch is imported."""

from __future__ import annotations

from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.errors import edits as letters_apart
from motionkit.formats.table import FORMATS, endings, kind_of
from motionkit.page.wording import joined
from motionkit.plugins import INSTALL_FIX, packages

WRITTEN = ("bvh", "glb", "mp4", "gif", "html", "joints", "npz", "amass")

"""Formats that motionkit itself writes, in the order of lists; MPL's has a word alone."""

_FOREIGN = (
    ".gltf",
    ".vrm",
    ".vrma",
    ".usd",
    ".usdz",
    ".c3d",
    ".obj",
    ".mov",
    ".avi",
    ".webm",
    ".pkl",
    ".json",
    ".csv",
    ".zip",
)
"""Endings of files that motionkit does not write; a folder of such a name is not made."""


def refuse_foreign(out: Path) -> None:
    """Refuse a name with the ending of a format that is not written here, rather than make a folder of that name.

    An ending that differs from a known one by one letter, or by two that are swapped, is refused too.
    """
    suffix = out.suffix.lower()
    if kind_of(out) is not None or out.is_dir():
        return
    if absent := packages.owner_of_format(suffix):
        raise MotionkitError(
            f"{out.suffix} files cannot be written.",
            why=f"the package {absent} writes them, and is not installed.",
            fix=INSTALL_FIX,
        )
    written = endings(*WRITTEN)
    meant = [ending for ending in written if letters_apart(suffix, ending) == 1]
    if meant or suffix in _FOREIGN:
        named = [f"{ending} (joints)" if ending == FORMATS["joints"].suffix else ending for ending in written]
        engines = endings("glb", "bvh")
        raise MotionkitError(
            f"{out.suffix} files cannot be written.",
            why=f"files that can be: {joined(named, len(named))}; any other name is a folder.",
            fix=f"did you mean {out.with_suffix(meant[0])}?"
            if meant
            else f"Blender and most engines read {joined(engines, len(engines))}.",
        )


def refuse_existing(out: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, unless it may be replaced; not a folder to fill."""
    if out.exists() and not overwrite:
        raise MotionkitError(f"{out} already exists.", fix="choose another OUT, or add --overwrite.")
