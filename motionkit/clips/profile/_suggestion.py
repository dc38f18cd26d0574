"""Suggested settings, and the protocol of an advisor that suggests them: profile itself knows no trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from motionkit.clips.profile._profile import Profile


@dataclass(frozen=True)
class Suggestion:
    """One setting.

    Attributes:
        key: Its name in the configuration.
        value: What to set it to.
        reason: Why, with the figure of the dataset it follows from.
        columns: Heads of a table that shows a value of several parts.
        rows: The table's rows; empty for a plain value.
        note: What to say below the table.
    """

    key: str
    value: Any
    reason: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    note: str = ""

    @property
    def short(self) -> str:
        """The value on one line."""
        return short(self.value)


class Advisor(Protocol):
    """Suggests settings of one trainer for a dataset.

    Attributes:
        title: What the settings are for: ``the motion predictor``.
    """

    @property
    def title(self) -> str:
        """Return what the settings are for."""
        ...

    def suggest(self, profile: Profile, fixed: Mapping[str, Any] | None = None) -> Sequence[Suggestion]:
        """Return settings with reasons, by the clips to train on; those in `fixed` stay, and the others follow them."""
        ...

    def problems(self, kept: Mapping[str, Any], suggestions: Sequence[Suggestion]) -> Sequence[str]:
        """Return the faults of settings that stay in a file, one sentence each."""
        ...


def short(value: object) -> str:
    """Return a setting on one line; a list of stages as their labels and ranges."""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "range" in part for part in value):
        return ", ".join(f"{part.get('label', '?')} {part['range']}" for part in value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
