"""The page of ``eval mpl``: who wins, the tables, error against horizon, predictions in the player, the worst clips."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from motionkit._version import __version__
from motionkit.evaluation.mpl._folder import write_folder
from motionkit.evaluation.mpl._kept import Predictions
from motionkit.page import count, definitions, html_page, note, table
from motionkit.report._predictor import predictor_sections
from motionkit.runs import disk_errors, write_bytes_atomic

PAGE = "evaluation.html"


def write_evaluation(folder: Path, document: Mapping[str, Any], predictions: Predictions) -> Path:
    """Write the folder of an evaluation of motion predictors: document, predictions, and the page of both.

    Args:
        folder: Where; `motionkit.evaluation.claim` has allowed it.
        document: What `motionkit.evaluation.mpl._run.evaluate` returned, and what was measured.
        predictions: What was kept to be looked at.

    Returns:
        The page.

    Raises:
        MotionkitError: It cannot be written (exit code 1).
    """
    write_folder(folder, document, predictions)
    path = folder / PAGE
    with disk_errors("write the page", path):
        write_bytes_atomic(path, evaluation_page(document, predictions).encode(errors="replace"))
    return path


def evaluation_page(document: Mapping[str, Any], predictions: Predictions) -> str:
    """Return the page as HTML that loads nothing."""
    model = document.get("model")
    title = f"eval mpl: {model}" if model else "eval mpl: baselines"
    *notes, verdict = document["closing"]
    facts = {
        "clips": f"{count(document['clips'], 'clip')} of the {document['split']} split, "
        f"{count(document['windows'], 'window')}",
        "data": ", ".join(document["data"]),
        "known and predicted": f"{document['warmup']} and {document['horizon']} frames at {document['fps']:g} fps",
        "command": "the path of the root, for all of them" if document["future_command"] == "path" else "none",
    }
    tables = "".join(
        f"<h3>{escape(one['title'])}</h3>" + table(one["columns"], one["rows"], numbers=one["numbers"])
        for one in document["table"]
    )
    body = [
        f'<header><h1>{escape(title)}</h1></header><p class="lead-in">{escape(verdict[:1].upper() + verdict[1:])}</p>',
        "<h2>Figures</h2>",
        note("In brackets: 95 % intervals by bootstrap over clips.") if document["ci95"] else "",
        tables,
        *(note(text) for text in notes),
        predictor_sections(document["rows"], document["worst_clips"], predictions, document.get("long")),
        "<h2>How it was measured</h2>",
        definitions(facts),
        f'<p class="cap">Made by motionkit {__version__}; docs/evaluation.md says what each figure means.</p>',
    ]
    return html_page(title, "".join(body), made_by="eval")
