"""The options of the five guides and their names here: one table for the hint on an old flag, tests and the README."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class GuideOption:
    """One row.

    Attributes:
        guide: Names in the guides.
        flag: The flag here, with its value.
        key: The dotted setting; empty when the flag alone says it.
        note: What differs.
        command: Command that has the flag.
    """

    guide: tuple[str, ...]
    flag: str
    key: str
    note: str
    command: str


@lru_cache(maxsize=1)
def guide_options() -> tuple[GuideOption, ...]:
    """Return the table."""
    rows = json.loads((files("motionkit.cli") / "guide_options.json").read_text(encoding="utf-8"))
    return tuple(
        GuideOption(
            tuple(row["guide"]), row["flag"], row.get("key", ""), row.get("note", ""), row.get("command", "grpo")
        )
        for row in rows
    )


def translate(flag: str) -> str:
    """Return what to write instead of a guide's `flag`, or nothing when no guide knows it."""
    wanted = "--" + flag.lstrip("-").partition("=")[0].replace("-", "_")
    for row in guide_options():
        if wanted in row.guide:
            note = f" ({row.note})" if row.note else ""
            return f"{row.flag}{note}"
    return ""


def as_markdown(headings: tuple[str, str, str, str] = ("guide", "motionkit", "key", "note")) -> str:
    """Return the table for the READMEs; a test compares it with what stands there."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---|"]
    for row in guide_options():
        guide = ", ".join(f"`{name}`" for name in row.guide)
        flag, key = row.flag.replace("|", "\\|"), f"`{row.key}`" if row.key else ""
        lines.append(f"| {guide} | `{flag}` | {key} | {row.note} |")
    return "\n".join(lines) + "\n"
