"""The training guides' commands and options, and their names here: one table for answers, tests and the README."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

_DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)+(=|$)")


@dataclass(frozen=True)
class GuideScript:
    """A script of the guides."""

    names: tuple[str, ...]  # Its names, without folder and suffix
    command: str  # motionkit's command
    needs: str  # Word in the call that selects this command; empty for all other calls


@dataclass(frozen=True)
class GuideOption:
    """An option of the guides."""

    guide: tuple[str, ...]  # Names in the guides
    flag: str  # motionkit's flag, with its value
    key: str  # The dotted setting; empty if there is only the flag
    note: str  # Differences
    command: str  # Command that has the flag
    default: str  # The guide's default if it differs from motionkit's


@lru_cache(maxsize=1)
def _file() -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = json.loads(
        (files("motionkit.cli") / "guide_options.json").read_text(encoding="utf-8")
    )
    return tables


@lru_cache(maxsize=1)
def guide_options() -> tuple[GuideOption, ...]:
    """Return the table of options."""
    return tuple(
        GuideOption(
            tuple(row["guide"]),
            row["flag"],
            row.get("key", ""),
            row.get("note", ""),
            row.get("command", "grpo"),
            row.get("default", ""),
        )
        for row in _file()["options"]
    )


@lru_cache(maxsize=1)
def guide_scripts() -> tuple[GuideScript, ...]:
    """Return the table of scripts; of rows for the same script, those that need a word come first."""
    return tuple(GuideScript(tuple(row["names"]), row["command"], row.get("with", "")) for row in _file()["scripts"])


def script_in(words: Sequence[str]) -> tuple[int, str]:
    """Return the place of a guide's script among `words` (``-m train.train_grpo``, ``a/b.py``), and its command.

    The place is -1 if there is none.
    """
    for index, word in enumerate(words):
        stem = word.rpartition("/")[2].removesuffix(".py").removesuffix(".sh").rpartition(".")[2]
        for row in guide_scripts():
            if stem in row.names and (not row.needs or row.needs in words):
                return index, row.command
    return -1, ""


def as_guide_name(word: str) -> str:
    """Return how the guides would spell an option: ``--model_path`` for ``--model-path=x``.

    A dotted name without dashes, as Hydra has it (``reward.num_epochs=50``), stays as it is.
    """
    if is_dotted(word):
        return word.partition("=")[0]
    return "--" + word.lstrip("-").partition("=")[0].replace("-", "_")


def is_dotted(word: str) -> bool:
    """Whether a word is one of Hydra's: ``reward.num_epochs=50``, or its name alone."""
    return _DOTTED.match(word) is not None


def row_of(word: str, command: str) -> GuideOption | None:
    """Return the row of a guide's option, or None if no guide has it.

    Scripts of the guides use one name for different things; the meaning for `command` is preferred.
    """
    name = as_guide_name(word)
    rows = sorted((row for row in guide_options() if name in row.guide), key=lambda row: row.command != command)
    return rows[0] if rows else None


def as_markdown(headings: tuple[str, str, str, str] = ("guide", "motionkit", "key", "note")) -> str:
    """Return the table of `docs/from-the-guides.md`, which a test compares with the file."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---|"]
    for row in guide_options():
        guide = ", ".join(f"`{name}`" for name in row.guide)
        flag, key = row.flag.replace("|", "\\|"), f"`{row.key}`" if row.key else ""
        lines.append(f"| {guide} | `{flag}` | {key} | {row.note} |")
    return "\n".join(lines) + "\n"
