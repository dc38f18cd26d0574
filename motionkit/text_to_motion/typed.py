"""What users type into `motionkit generate`: texts, from the command line, stdin or a file, and seconds of actions.

`list_prompts` prints texts that the starter policy was trained on.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from motionkit.documents import read_text
from motionkit.errors import MotionkitError

STDIN = "-"
_LIMIT = 16 << 20
_MOST_SECONDS = 1_000_000


def read_prompts(texts: Sequence[str], file: Path | None) -> list[str]:
    """Return the texts of the command line with ``-`` replaced by the lines of stdin, then those of a file."""
    prompts: list[str] = []
    for text in texts:
        prompts += _lines(sys.stdin.read(_LIMIT)) if text == STDIN else [text]
    if file is not None:
        prompts += _lines(read_text(file))
    if not prompts:
        raise MotionkitError(f"{file or 'stdin'} has no prompt.", fix="write one prompt a line.")
    return prompts


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_seconds(text: str, count: int | None = None, *, name: str = "") -> list[float] | None:
    """Return the seconds of each action; None if none were given, which leaves them open.

    Args:
        text: Numbers with commas or spaces between them.
        count: Number of actions, if it is known: one number is then for each of them.
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
    if count is not None and len(values) not in (0, 1, count):
        raise MotionkitError(
            f"there are {count} actions and {len(values)} durations.",
            why="' | ' separates actions.",
            fix="give one number for each of them, or one for all.",
        )
    return values * count if count is not None and len(values) == 1 else values or None


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
