"""What a region policy says and draws, before and after training."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.page import note
from motionkit.report._source import Source

_FOLDER, _INDEX = "gallery", "gallery.json"
_MOST, _BYTES = 24, 1 << 20
"""Regions that are shown, and the largest picture."""


def regions(source: Source) -> str:
    """Return the gallery of a run of sa2va-rl; empty for any other run."""
    folder = source.info.directory / _FOLDER
    if not (folder / _INDEX).is_file():
        return ""
    try:
        said = read_json(folder / _INDEX, list)
    except MotionkitError as error:
        return f"<h2>Regions</h2>{note(f'They cannot be shown: {error.message}')}"
    rows = "".join(_row(folder, one) for one in said[:_MOST] if isinstance(one, Mapping))
    words = (
        "The first held-out regions. Left: the region and the data's caption. Then the caption that the policy sampled "
        "before and after training, the mask that it drew of its own words, and the overlap of both masks (IoU)."
    )
    return f"<h2>Regions</h2>{note(words)}{rows}" if rows else ""


def _row(folder: Path, one: Mapping[str, Any]) -> str:
    files, captions, scores = (one.get(key) for key in ("files", "captions", "cycle_iou"))
    if not all(isinstance(part, Mapping) for part in (files, captions, scores)):
        return ""
    cells = []
    for name in ("region", "before", "after"):
        path = folder / Path(str(files.get(name))).name  # type: ignore[union-attr]
        if path.suffix != ".png" or not path.is_file() or path.stat().st_size > _BYTES:
            return ""
        words = str(one.get("caption")) if name == "region" else f"{name}: {captions.get(name)}"  # type: ignore[union-attr]
        score = "" if name == "region" else f", {scores.get(name)}"  # type: ignore[union-attr]
        data = base64.b64encode(path.read_bytes()).decode()
        cells.append(
            f'<figure><img src="data:image/png;base64,{data}" width="144" alt="{escape(words)}">'
            f"<figcaption>{escape(words + score)}</figcaption></figure>"
        )
    return f'<div class="strip">{"".join(cells)}</div>'
