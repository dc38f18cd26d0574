"""What users type into `motionkit generate`: texts, from the command line, stdin or a file, and seconds of actions.

`list_prompts` prints texts that the starter policy was trained on.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.page.wording import count

STDIN = "-"
_LIMIT = 16 << 20
_MOST_SECONDS = 1_000_000

_RATE = 20
"""Frames a second of the lengths that prompt files state: HumanML3D's."""

_FEWEST = 20
_BEGINS = re.compile(
    r"(\d{1,9})\s+((?:an?|the|this|some\w+|he|she|they|people|person|(?:wo)?m[ae]n)\s.*)", re.IGNORECASE | re.DOTALL
)
_ENDS = re.compile(r"(.*\S)\s*#\s*(\d{1,9}|NA)", re.DOTALL)


class TypedPrompt(NamedTuple):
    """A prompt as it was typed."""

    text: str
    seconds: float | None = None  # Of all its actions, if its line states a length


def read_prompts(texts: Sequence[str], file: Path | None, say: Callable[[str], None]) -> list[TypedPrompt]:
    """Return the texts of the command line with ``-`` replaced by the lines of stdin, then those of a file.

    Args:
        texts: The command line's.
        file: A file with a prompt a line.
        say: Tells which lines state lengths.
    """
    prompts: list[TypedPrompt] = []
    for text in texts:
        prompts += _lines(sys.stdin.read(_LIMIT), "stdin", say) if text == STDIN else [TypedPrompt(text)]
    if file is not None:
        prompts += _lines(read_text(file), str(file), say)
    if not prompts:
        raise MotionkitError(f"{file or 'stdin'} has no prompt.", fix="write one prompt a line.")
    return prompts


def _lines(text: str, origin: str, say: Callable[[str], None]) -> list[TypedPrompt]:
    """Return the lines of a prompt file, with the lengths that other projects' files state in frames.

    MoMask's lines end in ``#52``, or ``#NA`` for an open length. MLD's all begin with the number, before a subject:
    "50 jumping jacks" is a count.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    prompts = [TypedPrompt(line) for line in lines]
    begun = [match for line in lines if (match := _BEGINS.fullmatch(line))]
    if lines and len(begun) == len(lines):
        prompts = [TypedPrompt(match[2], _seconds(match[1], origin)) for match in begun]
    else:
        for place, line in enumerate(lines):
            if (match := _ENDS.fullmatch(line)) and (
                match[2] == "NA" or int(match[2]) >= _FEWEST
            ):  # "take #2" is a text
                prompts[place] = TypedPrompt(match[1], None if match[2] == "NA" else _seconds(match[2], origin))
    stated = [(line, prompt) for line, prompt in zip(lines, prompts, strict=True) if prompt.text != line]
    if stated:
        line, prompt = next(((line, one) for line, one in stated if one.seconds), stated[0])
        taken = f"{line!r} is {prompt.text!r}" + (f", {prompt.seconds:g} s" if prompt.seconds else "")
        number = f"{count(len(stated), 'line')} of {len(lines)}"
        say(f"{origin}: {number} state a length in frames at {_RATE} a second: {taken}")
    return prompts


def _seconds(frames: str, origin: str) -> float:
    if not 0 < int(frames) < _RATE * _MOST_SECONDS:
        raise MotionkitError(f"{origin} states a length of {frames} frames.", fix="state at least one frame.")
    return int(frames) / _RATE


def read_seconds(text: str, actions: int | None = None, *, name: str = "") -> list[float] | None:
    """Return the seconds of each action; None if none were given, which leaves them open.

    Args:
        text: Numbers with commas or spaces between them.
        actions: Their number, if it is known: one number is then for each of them.
        name: What gave the text, such as an option, for messages.
    """
    fix = "such as 3, or 3,2 for two actions."
    given = f"{name} {text!r}".strip()
    try:
        values = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise MotionkitError(f"{given} are not seconds.", fix=fix) from error
    if not all(0 < value < _MOST_SECONDS for value in values):
        raise MotionkitError(f"{given}: every action takes more than 0 s and less than {_MOST_SECONDS:,} s.", fix=fix)
    if actions is not None and len(values) not in (0, 1, actions):
        raise MotionkitError(
            f"there are {actions} actions and {len(values)} durations.",
            why="' | ' separates actions.",
            fix="give one number for each of them, or one for all.",
        )
    return values * actions if actions is not None and len(values) == 1 else values or None


def refuse_loose_words(texts: Sequence[str], out: Path) -> None:
    """Refuse several texts of one word each: a sentence whose quotes are missing."""
    if len(texts) < 2 or not all(text.isalpha() for text in texts):
        return
    words, place = list(texts), str(out)
    if not out.suffix and len(out.parts) == 1 and not out.exists():
        words, place = [*words, str(out)], "OUT"
    raise MotionkitError(
        f"these are {len(texts)} prompts of one word each ({', '.join(texts)}); was one prompt meant?",
        why=f"without quotes every word is a prompt, and the last one, {out}, is the place to write to.",
        fix=f"motionkit generate {shlex.quote(' '.join(words))} {place}; prompts of one word can come from stdin, "
        "one a line: motionkit generate - OUT",
    )


def list_prompts(ctx: typer.Context, value: bool) -> None:
    """Print one wording of every movement that the starter policy was trained on, and exit."""
    if not value:
        return
    from motionkit.starter import CATALOGUE

    for entry in CATALOGUE:
        ctx.obj.write(f"a person {entry.phrases[0]}")
    ctx.obj.say(
        f"{len(CATALOGUE)} movements of the starter pack, one wording each. Other wordings work too; join actions with "
        "' | '."
    )
    raise typer.Exit
