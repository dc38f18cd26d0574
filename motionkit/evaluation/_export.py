"""Generated motions as files that other tools read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from motionkit.motion import ReadOptions
from motionkit.motion.convert import (
    ConvertReport,
    FileKind,
    FileSource,
    FileTarget,
    convert,
    convert_file,
    generated_texts,
    kind_of,
)

PAGE = "motions.html"
SHOWN = 12
"""Motions on the page that every folder of generated motions gets; more would crowd it."""


def export_motions(folder: Path, kinds: Sequence[FileKind], *, overwrite: bool = False) -> dict[str, ConvertReport]:
    """Write the motions of a folder that `generate` made in further formats, and a page that plays them.

    Args:
        folder: The folder; each kind becomes ``folder/KIND``, the page ``folder/motions.html``.
        kinds: Formats to write.
        overwrite: Replace what is there.

    Returns:
        What was done for each kind; rotations that had to be found come with their residual.

    Raises:
        MotionkitError: A format cannot be written.
    """
    sources = _sources(folder)
    reports: dict[str, ConvertReport] = {
        kind: convert(sources, folder / kind, FileTarget(kind), overwrite=overwrite) for kind in dict.fromkeys(kinds)
    }
    convert_file(sources[:SHOWN], folder / PAGE, "html", overwrite=True)
    return reports


def export_one(make: Callable[[Path], object], out: Path, *, overwrite: bool = False) -> ConvertReport:
    """Generate into a folder that does not stay, and write what it holds as one file.

    Args:
        make: Makes the motions in the folder it is given, as `generate` does.
        out: The file; its ending says what it is.
        overwrite: Replace it.

    Raises:
        MotionkitError: The ending is unknown, or the motions do not fit into one such file.
    """
    kind = kind_of(out)
    assert kind is not None, "the caller looks at the ending first"
    with tempfile.TemporaryDirectory(prefix="motionkit-") as scratch:
        make(Path(scratch) / "motions")
        return convert_file(_sources(Path(scratch) / "motions"), out, kind, overwrite=overwrite)


def _sources(folder: Path) -> list[FileSource]:
    """Return a generated folder's joints as clips; whatever a policy makes can be looked at, sound or not."""
    document = json.loads((folder / "motions.json").read_text(encoding="utf-8"))
    texts = generated_texts(folder)
    options = ReadOptions(up="y", unit="m", fps=float(document["fps"]))
    return [
        FileSource(folder / entry["joints"], entry["id"], "joints", options, texts.get(entry["id"], ()))
        for entry in document["motions"]
    ]
