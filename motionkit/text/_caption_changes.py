"""The kinds of captions, and the changes that make a caption untrue of its motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from motionkit.text._named import (
    names_count,
    names_direction,
    names_order,
    names_travel,
    swap_count,
    swap_direction,
    swap_order,
    swap_tempo,
    tempo_of,
)
from motionkit.text._sides import mirror_text, names_side


@dataclass(frozen=True)
class CaptionChange:
    """A change of a caption.

    Attributes:
        name: What it is called, in options and tables.
        meaning: What it does.
        make: Returns the changed caption, or the caption itself where the change does not apply.
        applies: Whether the changed caption is untrue of a motion of which the caption is true.
    """

    name: str
    meaning: str
    make: Callable[[str], str]
    applies: Callable[[str], bool]


_TEXTS = (
    CaptionChange("text-side", "left for right, clockwise for counterclockwise", mirror_text, names_side),
    CaptionChange("text-order", "the events in the opposite order", swap_order, names_order),
    CaptionChange("text-tempo", "slow for fast, fast for slow", swap_tempo, lambda text: tempo_of(text) != ""),
    CaptionChange(
        "text-direction", "forward for backward, down for up", swap_direction, lambda text: swap_direction(text) != text
    ),
    CaptionChange("text-count", "one for many, many for one", swap_count, names_count),
)

CAPTION_CHANGES: Mapping[str, CaptionChange] = {change.name: change for change in _TEXTS}
"""All changes of captions by name."""

_KINDS: Mapping[str, Callable[[str], bool]] = {
    "side": names_side,
    "tempo": lambda text: tempo_of(text) != "",
    "direction": names_direction,
    "travel": names_travel,
    "count": names_count,
    "order": names_order,
}

KINDS = tuple(_KINDS)
"""What a caption can name besides the action."""


def kinds_of(text: str) -> frozenset[str]:
    """Return what a caption names, of `KINDS`; of one that is not English at most the side (Chinese too).

    Example:
        >>> sorted(kinds_of("walks slowly to the left"))
        ['direction', 'side', 'tempo', 'travel']
    """
    return frozenset(name for name, names in _KINDS.items() if names(text))
