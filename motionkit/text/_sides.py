"""Left and right in captions; the kinds of captions, and changes that make a caption false."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from motionkit.text._named import (
    any_of,
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

_OPPOSITE = {
    "left": "right",
    "right": "left",
    "clockwise": "counterclockwise",
    "counterclockwise": "clockwise",
    "anticlockwise": "clockwise",
    "counter-clockwise": "clockwise",
    "anti-clockwise": "clockwise",
    "counter clockwise": "clockwise",
    "leftward": "rightward",
    "rightward": "leftward",
    "leftwards": "rightwards",
    "rightwards": "leftwards",
    "lefthand": "righthand",
    "righthand": "lefthand",
    "lefts": "rights",
    "rights": "lefts",
}
_CHINESE = {
    "左": "右",
    "右": "左",
    "顺时针": "逆时针",
    "逆时针": "顺时针",
    "反时针": "顺时针",
    "順時針": "逆時針",
    "逆時針": "順時針",
    "反時針": "順時針",
}
_BOTH = ("左右", "右左", "左顾右盼", "左顧右盼", "左摇右晃", "左搖右晃", "左摇右摆", "左搖右擺", "左思右想")
"""Chinese for to and fro, about, and the like: true of the mirror image too, and fixed in their order."""

# Chinese has no blanks between words, so English ones end with their ASCII letters.
_WORDS = re.compile(rf"\b(?:{any_of(_OPPOSITE)})\b|{any_of((*_BOTH, *_CHINESE))}", re.IGNORECASE | re.ASCII)

_SIDE = r"(?:left|right)(?:wards?)?"
_TO_AND_FRO = re.compile(
    rf"\b(?:(?:both )?{_SIDE} (?:and|or) {_SIDE}|side to side)\b|{any_of(_BOTH)}", re.IGNORECASE | re.ASCII
)


def mirror_text(text: str) -> str:
    """Swap left and right, clockwise and counterclockwise in an English or Chinese caption, keeping capitals.

    Example:
        >>> mirror_text("Left foot first, then a clockwise turn")
        'Right foot first, then a counterclockwise turn'
    """

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        if word in _BOTH:
            return word
        opposite = _CHINESE.get(word) or _OPPOSITE[word.lower()]
        if word.isupper():
            return opposite.upper()
        return opposite.capitalize() if word[0].isupper() else opposite

    return _WORDS.sub(swap, text)


def names_side(text: str) -> bool:
    """Whether an English or Chinese caption is false for the mirror image; "left and right" is true for both.

    Example:
        >>> names_side("waves with the left hand"), names_side("looks left and right")
        (True, False)
    """
    without = _TO_AND_FRO.sub(" ", text)
    return mirror_text(without) != without


@dataclass(frozen=True)
class CaptionChange:
    """A change that makes a caption false for its motion."""

    name: str  # in options and tables
    meaning: str
    make: Callable[[str], str]  # Returns the changed caption, or the same one if the change does not apply
    applies: Callable[[str], bool]  # Whether the changed caption is false for motions of the original one


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
_KINDS: Mapping[str, Callable[[str], bool]] = {
    "side": names_side,
    "tempo": lambda text: tempo_of(text) != "",
    "direction": names_direction,
    "travel": names_travel,
    "count": names_count,
    "order": names_order,
}

KINDS = tuple(_KINDS)  # what a caption can name besides the action


def kinds_of(text: str) -> frozenset[str]:
    """Return which of `KINDS` a caption names; if it is not English, at most the side (Chinese too).

    Example:
        >>> sorted(kinds_of("walks slowly to the left"))
        ['direction', 'side', 'tempo', 'travel']
    """
    return frozenset(name for name, names in _KINDS.items() if names(text))
