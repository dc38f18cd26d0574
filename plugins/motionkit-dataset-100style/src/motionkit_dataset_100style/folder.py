"""What a folder of 100STYLE holds: recordings with their good frames and captions. Nothing is read of the motions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from motionkit.documents import CsvTable
from motionkit.errors import MotionkitError

CUTS, STYLES = "Frame_Cuts.csv", "Dataset_List.csv"

_DOES = {
    "FW": "walks forward", "BW": "walks backward", "SW": "walks sideways", "FR": "runs forward",
    "BR": "runs backward", "SR": "runs sideways", "ID": "stands",
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """One BVH file."""

    path: Path  # the file
    key: str  # its name without the ending, such as ``Zombie_FW``
    start: int  # first good frame of the file; before it and after `stop` the performer gets ready
    stop: int  # frame after the last good one
    captions: tuple[str, ...]  # what it shows


def find_recordings(root: Path, styles: Collection[str], contents: Collection[str]) -> list[Recording]:
    """Return the recordings of a folder, sorted by name.

    Args:
        root: Folder with `CUTS`, `STYLES` and files ``STYLE_CONTENT.bvh`` at any depth.
        styles: Styles that are wanted; empty for all.
        contents: Codes of contents that are wanted, such as ``FW``.

    Raises:
        MotionkitError: A table is missing or has another form; a style is not there; nothing is left.
    """
    cuts = _table(root / CUTS, "STYLE_NAME")
    described = _table(root / STYLES, "Style Name")
    if missing := sorted(set(styles) - cuts.keys()):
        raise MotionkitError(f"{root / CUTS} has no style {missing[0]!r}.", fix=f"styles it has: {_some(cuts)}.")
    found = []
    # Copies that went through a Mac have a file ``._NAME`` beside each file.
    for path in sorted(path for path in root.rglob("*.bvh") if not path.name.startswith("._")):
        style, _, content = path.stem.rpartition("_")
        if content not in contents or content not in _DOES or (styles and style not in styles):
            continue
        if style not in cuts:
            raise MotionkitError(f"{root / CUTS} has no row for {path}.", fix="take the file out, or add its row.")
        start, stop = (_frame(cuts[style].get(f"{content}_{end}"), root, path.stem) for end in ("START", "STOP"))
        if not start < stop:
            raise MotionkitError(f"{root / CUTS}: {path.stem} ends at frame {stop}, before its start {start}.")
        captions = captions_of(style, content, described.get(style, {}).get("Description", ""))
        found.append(Recording(path, path.stem, start, stop, captions))
    if not found:
        raise MotionkitError(f"{root} has no recording of these styles and contents.", fix="check --dataset.root.")
    if len(names := [each.key for each in found]) != len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise MotionkitError(f"{root} has two files {twice}.bvh.", fix="take one of them out.")
    return found


def captions_of(style: str, content: str, description: str) -> tuple[str, ...]:
    """Return what a recording shows, by its style's name and by the description of the style where there is one.

    Example:
        >>> captions_of("BentForward", "FW", "Torso bent forward.")
        ('a person walks forward in the style bent forward.', 'a person walks forward: torso bent forward.')
    """
    does = _DOES[content]
    name = " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+", style)).lower() or style
    first = f"a person {does} normally." if name == "neutral" else f"a person {does} in the style {name}."
    words = " ".join(description.split()).rstrip(". ")
    return (first, f"a person {does}: {words[0].lower()}{words[1:]}.") if words else (first,)


def _table(path: Path, key: str) -> dict[str, Mapping[str, str]]:
    """Return the rows of a table by the column `key`."""
    table = CsvTable(path)
    if key not in table.columns:
        raise MotionkitError(f"{path} has no column {key!r}.", fix="take the table that 100STYLE comes with.")
    rows: dict[str, Mapping[str, str]] = {}
    for line, cells in table.rows(key):
        row = {name: value.strip() for name, value in cells.items()}
        if not row[key]:
            continue
        if row[key] in rows:
            raise MotionkitError(f"{path}, line {line} is the second row of {row[key]!r}.", fix="take one of them out.")
        rows[row[key]] = row
    return rows


def _frame(value: str | None, root: Path, name: str) -> int:
    text = value or ""
    if not text.isascii() or not text.isdigit():
        raise MotionkitError(
            f"{root / CUTS} does not say which frames of {name} are good: {text[:40]!r}.", fix="take the file out."
        )
    return int(text)


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:8]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
