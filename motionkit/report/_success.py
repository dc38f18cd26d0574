"""What a trained actor does: films of its episodes, with what the environment and the reward said of each."""

from __future__ import annotations

from html import escape
from pathlib import Path

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.page import grid, note
from motionkit.report._source import Source
from motionkit.report._stored import stored_picture

_FOLDER, _BEFORE, _INDEX = "films", "films-before", "films.json"
_MOST, _BYTES = 12, 4 << 20
"""Films that are shown, and the largest one."""


def success(source: Source) -> str:
    """Return the section of films of a run of ppo, each before and after training; empty for any other run."""
    folder, before = (source.info.directory / name for name in (_FOLDER, _BEFORE))
    if not (folder / _INDEX).is_file():
        return ""
    try:
        said = read_json(folder / _INDEX, list)
        earlier = read_json(before / _INDEX, list) if (before / _INDEX).is_file() else []
    except MotionkitError as error:
        return f"<h2>Episodes after training</h2>{note(f'The films cannot be shown: {error.message}')}"
    rows = []
    for number, one in enumerate(said[:_MOST]):
        first = _film(before, earlier[number], "before: ") if number < len(earlier) else ""
        if after := _film(folder, one, "after: " if first else ""):
            rows.append(f'<div class="strip pair">{first}{after}</div>')
    if not rows:
        return ""
    # Runs that are older than this page have no films of before.
    title = "Episodes before and after training" if earlier else "Episodes after training"
    words = "The first held-out episodes, as the camera saw them" + (
        ": on the left before training, on the right after it, from the same start." if earlier else "."
    )
    more = " Below each: what the environment said of it" + (
        ", and the reward." if any(one.get("predicted") is not None for one in said if isinstance(one, dict)) else "."
    )
    return f"<h2>{title}</h2>{note(words + more)}{grid(rows)}"


def _film(folder: Path, one: object, when: str) -> str:
    if not isinstance(one, dict):
        return ""
    address = stored_picture(folder, one.get("file"), most=_BYTES)
    if not address:
        return ""
    words = when + _word(one.get("success"))
    if one.get("predicted") is not None:
        words += f"; reward: {_word(one.get('predicted'))}"
    kind = "" if one.get("success") else ' class="wrong"'
    return f'<figure{kind}><img src="{address}" alt="{escape(words)}"><figcaption>{escape(words)}</figcaption></figure>'


def _word(value: object) -> str:
    return "success" if value else "no success"
