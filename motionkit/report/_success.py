"""What a trained actor does: films of its episodes, with what the environment and the reward said of each."""

from __future__ import annotations

from html import escape
from pathlib import Path

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.page import note
from motionkit.report._source import Source
from motionkit.report._stored import stored_picture

_FOLDER, _INDEX = "films", "films.json"
_MOST, _BYTES = 12, 4 << 20
"""Films that are shown, and the largest one."""


def success(source: Source) -> str:
    """Return the section of films of a run of ppo; empty for any other run."""
    folder = source.info.directory / _FOLDER
    if not (folder / _INDEX).is_file():
        return ""
    try:
        said = read_json(folder / _INDEX, list)
    except MotionkitError as error:
        return f"<h2>Episodes after training</h2>{note(f'The films cannot be shown: {error.message}')}"
    cells = [cell for one in said[:_MOST] if isinstance(one, dict) and (cell := _film(folder, one))]
    if not cells:
        return ""
    words = "The first held-out episodes, as the camera saw them. Below each: what the environment said of it"
    more = (
        ", and the reward." if any(one.get("predicted") is not None for one in said if isinstance(one, dict)) else "."
    )
    return f'<h2>Episodes after training</h2>{note(words + more)}<div class="strip">{"".join(cells)}</div>'


def _film(folder: Path, one: dict[str, object]) -> str:
    address = stored_picture(folder, one.get("file"), most=_BYTES)
    if not address:
        return ""
    words = _word(one.get("success"))
    if one.get("predicted") is not None:
        words += f"; reward: {_word(one.get('predicted'))}"
    kind = "" if one.get("success") else ' class="wrong"'
    return f'<figure{kind}><img src="{address}" alt="{escape(words)}"><figcaption>{escape(words)}</figcaption></figure>'


def _word(value: object) -> str:
    return "success" if value else "no success"
