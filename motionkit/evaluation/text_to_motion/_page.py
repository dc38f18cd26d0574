"""The page of an evaluation: what was measured, how, and what each figure means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from motionkit.evaluation.text_to_motion._summary import TITLES, explain
from motionkit.page import definitions, details, html_page, note
from motionkit.page import table as page_table


def page_of(title: str, sentence: str, facts: Mapping[str, str], shown: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Return the page.

    Args:
        title: Its title.
        sentence: The verdict.
        facts: How it was measured, by name.
        shown: The table, as the command line prints it.
        notes: What to know before comparing.
    """
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead-in">{escape(sentence)}</p>',
        "<h2>Figures</h2>",
        page_table(shown["columns"], shown["rows"], numbers=shown.get("numbers", ())),
        *(note(text) for text in notes),
        "<h2>How it was measured</h2>",
        definitions(facts),
    ]
    meaning = {name: f"{text} Unit {unit}; better: {better}." for name, unit, better, text in explain()}
    assert len(meaning) == len(TITLES)
    body.append(details("What each figure means", definitions(meaning), opened=True))
    return html_page(title, "".join(body), made_by="eval")
