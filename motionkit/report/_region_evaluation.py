"""The folder of ``eval sa2va``: document, gallery, and the page of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit._version import __version__
from motionkit.datasets.base import RegionDataset
from motionkit.evaluation._folder import write_record
from motionkit.evaluation.regions._gallery import GALLERY, write_gallery
from motionkit.evaluation.regions._measure import RegionFigures
from motionkit.evaluation.regions._result import explained
from motionkit.page import definitions, html_page, note, table
from motionkit.report._regions import gallery
from motionkit.runs import disk_errors, write_bytes_atomic

_PAGE = "evaluation.html"


def write_region_evaluation(
    folder: Path,
    document: Mapping[str, Any],
    data: RegionDataset,
    index: NDArray[np.int64],
    after: RegionFigures,
    before: RegionFigures | None,
) -> Path:
    """Write the folder.

    Args:
        folder: Where; `motionkit.evaluation.claim` has allowed it.
        document: What was measured, with ``table`` and ``closing``.
        data: Where the regions come from.
        index: ``[R]`` the regions that were measured.
        after: What the policy says and draws of them.
        before: The same of the one that it is compared with.

    Returns:
        The page.

    Raises:
        MotionkitError: It cannot be written (exit code 1).
    """
    write_record(folder, "sa2va", document)
    with disk_errors("write the gallery", folder):
        write_gallery(folder / GALLERY, data, document["split"], index, after, before)
    path = folder / _PAGE
    with disk_errors("write the page", path):
        write_bytes_atomic(path, _page(folder, document).encode(errors="replace"))
    return path


def _page(folder: Path, document: Mapping[str, Any]) -> str:
    title = f"eval sa2va: {document['model']}"
    verdict = str(document["verdict"])
    facts = {
        "policy": str(document["model"]),
        **({"compared with": str(document["base"])} if document["base"] else {}),
        "data": f"{document['regions']:,} regions of the {document['split']} split of {document['dataset']}",
        "captions": "of the likeliest words (greedy), which the pictures show; and sampled at temperature "
        f"{document['temperature']:g} with seed {document['seed']}",
    }
    shown = "".join(
        (f"<h3>{escape(str(one['title']))}</h3>" if place else "")
        + table(one["columns"], one["rows"], numbers=one["numbers"], kind=_kind(one["columns"]))
        for place, one in enumerate(document["table"])
    )
    body = [
        f'<header><h1>{escape(title)}</h1></header><p class="lead-in">{escape(verdict[:1].upper() + verdict[1:])}</p>',
        f"<h2>Figures</h2>{note('Intervals: 95 % bootstrap over regions.')}{shown}",
        gallery(folder / GALLERY),
        f"<h2>How it was measured</h2>{definitions(facts)}",
        *(note(text[:1].upper() + text[1:]) for text in document["notes"]),
        f"<h2>What each figure means</h2>{definitions(dict(explained()))}",
        f'<p class="cap">Made by motionkit {__version__}; docs/evaluation.md says more.</p>',
    ]
    return html_page(title, "".join(body), made_by="eval")


def _kind(columns: Sequence[str]) -> str:
    """Return how a table is shown: a telephone has no room for intervals, nor for changes beside three values."""
    wide = columns[4:5] == ["change"]
    return "plain result" + " interval" * ("95 % interval" in columns) + " real" * wide
