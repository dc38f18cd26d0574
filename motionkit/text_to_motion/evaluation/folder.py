"""The folder of motions that `motionkit generate` makes. Importing this imports no torch."""

from __future__ import annotations

from pathlib import Path

from motionkit.runs import OutputFolder

RECORD = "motions.json"
"""Its record, with an entry for each motion."""


def motions_folder(out: Path, *, overwrite: bool) -> OutputFolder:
    """Return the folder that motions are written into, and refuse one that may not be taken."""
    place = OutputFolder(out, RECORD, "motionkit-motions", overwrite=overwrite)
    place.claim()
    return place
