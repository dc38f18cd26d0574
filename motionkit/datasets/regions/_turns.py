"""Which text of a conversation is said of which region.

In Grasp-Any-Region a row with several regions names them ``<Prompt0>``, ``<Prompt1>``, ... A policy is asked for one
region at a time, so a text counts for a region when it is of that region alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from motionkit.datasets.regions._rows import BAD_ROW, NO_CAPTION, NO_MASK, SEVERAL, Part, UnusableError

_PROMPT = re.compile(r"<Prompt(\d{1,6})>")
_LINE = re.compile(r"^\s*<Prompt(\d{1,6})>\s*:\s*(.+)$")
_LEAD = re.compile(r"^\s*<Prompt\d{1,6}>\s*:\s*")
_OTHER = "this object"


def parts_of(masks: object, conversations: object) -> tuple[Part, ...]:
    """Return the regions whose text can be told apart.

    One mask has the last answer. Several masks have, where no text names a region, an answer each in turn; otherwise an
    answer is of the one region that it and its question name, and an answer of lines ``<PromptN>: ...`` has a text for
    each of them.

    Args:
        masks: RLE, or a list of RLE.
        conversations: ``[{"from": "human" or "gpt", "value": text}]``.

    Raises:
        UnusableError: There is no mask or no answer, a text names a region that is not there, or none is of one region.
    """
    shapes = masks if isinstance(masks, list) else [masks]
    if not shapes or shapes[0] is None:
        raise UnusableError(NO_MASK)
    turns = _exchanges(conversations)
    if not turns:
        raise UnusableError(NO_CAPTION, "there is no answer")
    if len(shapes) == 1:
        return (Part(shapes[0], _words(turns[-1][1])),)
    if not any(_PROMPT.search(text) for turn in turns for text in turn):
        if len(turns) != len(shapes):
            raise UnusableError(SEVERAL, f"{len(turns)} answers for {len(shapes)} regions")
        return tuple(Part(shape, answer) for shape, (_, answer) in zip(shapes, turns, strict=True))
    said = [pair for turn in turns for pair in _of_one(*turn)]
    if wrong := [number for number, _ in said if number >= len(shapes)]:
        raise UnusableError(BAD_ROW, f"<Prompt{wrong[0]}> of {len(shapes)} regions")
    if not said:
        raise UnusableError(SEVERAL)
    return tuple(Part(shapes[number], _words(text)) for number, text in said)


def _exchanges(conversations: object) -> list[tuple[str, str]]:
    """Return questions with their answers."""
    found: list[tuple[str, str]] = []
    question = ""
    for turn in conversations if isinstance(conversations, list) else ():
        if not isinstance(turn, Mapping):
            continue
        text = turn.get("value")
        text = text if isinstance(text, str) else ""
        if turn.get("from") == "gpt":
            found.append((question, text))
            question = ""
        else:
            question = text
    return found


def _of_one(question: str, answer: str) -> list[tuple[int, str]]:
    """Return the texts of an exchange that are of one region, with its number."""
    lines: list[Any] = [_LINE.match(line) for line in answer.splitlines() if line.strip()]
    if lines and all(lines):
        return [(int(line[1]), line[2]) for line in lines if not _PROMPT.search(line[2])]
    named = {int(number) for number in _PROMPT.findall(f"{question} {answer}")}
    return [(named.pop(), answer)] if len(named) == 1 else []


def _words(text: str) -> str:
    """Return a text without the names of regions, which no policy knows."""
    return _PROMPT.sub(_OTHER, _LEAD.sub("", text))
