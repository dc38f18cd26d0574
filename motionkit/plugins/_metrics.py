"""Metrics that plugins log besides motionkit's own, which `motionkit.tracking` defines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Direction = Literal["up", "down", "one", "none"]

FREE = "my/"
"""Names that begin so need no definition."""

_NAME = re.compile(r"(?:[\w.:+-]+|<\w+>)(?:/(?:[\w.:+-]+|<\w+>))*")
_PARTS = re.compile(r"(<\w+>)")


@dataclass(frozen=True)
class Metric:
    """One logged quantity."""

    name: str  # Key in metrics.jsonl; ``<...>`` stands for any single part, such as a reward's name
    unit: str  # Unit, or "1" for a pure number
    better: Direction  # Which way is an improvement; "one" where values near 1 are best, "none" where nothing is
    meaning: str  # What is measured, over what

    @property
    def fault(self) -> str:
        """What is wrong with the definition; empty where nothing is."""
        if not all(isinstance(text, str) and text for text in (self.name, self.unit, self.meaning)):
            return "name, unit and meaning are texts of at least one letter"
        if not _NAME.fullmatch(self.name):
            return "a name has letters, digits and _.:+- in parts between slashes, as in loss/mine"
        return "" if self.better in get_args(Direction) else f"better is one of {', '.join(get_args(Direction))}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the names that it defines look like."""
        parts = _PARTS.split(self.name)
        return re.compile("".join(r"[\w.:+-]+" if part.startswith("<") else re.escape(part) for part in parts))


_declared: dict[str, Metric] = {}


def declare(metrics: Iterable[Metric]) -> None:
    """Define metrics of a plugin for this process; a name that another plugin defined gets the newer definition."""
    _declared.update({one.name: one for one in metrics})


def declared(name: str) -> Metric | None:
    """Return the definition that a plugin gave a name, or the one of every name under ``my/``; None without any."""
    if name in _declared:
        return _declared[name]
    found = next((one for one in _declared.values() if "<" in one.name and one.pattern.fullmatch(name)), None)
    if found is None and name.startswith(FREE) and _NAME.fullmatch(name) and "<" not in name:
        return Metric(name, "1", "none", "A figure of a plugin, which does not say more.")
    return found
