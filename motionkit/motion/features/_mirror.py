"""Left and right swapped, in joints and in captions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import Tensor

from motionkit.motion._skeleton import Skeleton

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


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


# Chinese has no blanks between words, so English ones end where their letters do (ASCII).
_WORDS = re.compile(rf"\b(?:{_any_of(_OPPOSITE)})\b|{_any_of((*_BOTH, *_CHINESE))}", re.IGNORECASE | re.ASCII)


def mirror(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return joints ``[..., J, 3]`` reflected in x, with left and right joints swapped.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> joints = torch.zeros(22, 3)
        >>> joints[HUMANML.index("left_wrist")] = torch.tensor([0.7, 1.4, 0.0])
        >>> mirror(joints, HUMANML)[HUMANML.index("right_wrist")]
        tensor([-0.7000,  1.4000,  0.0000])
    """
    return joints[..., list(skeleton.mirror_order), :] * joints.new_tensor([-1.0, 1.0, 1.0])


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
        other = _CHINESE.get(word) or _OPPOSITE[word.lower()]
        if word.isupper():
            return other.upper()
        return other.capitalize() if word[0].isupper() else other

    return _WORDS.sub(swap, text)
