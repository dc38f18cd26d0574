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
        key: The dotted setting; empty when there is only the flag.
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


def translate(flag: str, command: str = "") -> str:
    """Return what to write instead of a guide's `flag`, or nothing when no guide knows it.

    Scripts of the guides gave one name to different things; the meaning it had for `command` comes first.
    """
    wanted = "--" + flag.lstrip("-").partition("=")[0].replace("-", "_")
    rows = sorted((row for row in guide_options() if wanted in row.guide), key=lambda row: row.command != command)
    if not rows:
        return ""
    return f"{rows[0].flag} ({rows[0].note})" if rows[0].note else rows[0].flag


def as_markdown(headings: tuple[str, str, str, str] = ("guide", "motionkit", "key", "note")) -> str:
    """Return the table of `docs/from-the-guides.md`; a test compares it with what stands there."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|---|"]
    for row in guide_options():
        guide = ", ".join(f"`{name}`" for name in row.guide)
        flag, key = row.flag.replace("|", "\\|"), f"`{row.key}`" if row.key else ""
        lines.append(f"| {guide} | `{flag}` | {key} | {row.note} |")
    return "\n".join(lines) + "\n"
