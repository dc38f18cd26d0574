"""Which limbs a caption names by their side."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Limb = Literal["arm", "leg"]
Side = Literal["left", "right"]

_LIMBS: dict[Limb, tuple[str, ...]] = {
    "arm": ("arm", "hand", "wrist", "fist", "elbow", "forearm", "palm", "punch", "jab", "hook", "uppercut"),
    "leg": ("leg", "foot", "knee", "ankle", "heel", "toe", "thigh", "shin", "kick", "lunge"),
}
_CHINESE: dict[Limb, str] = {"arm": "手|臂|胳膊|拳|肘|腕", "leg": "腿|脚|足|膝"}
_KIND: dict[str, Limb] = {word: limb for limb, words in _LIMBS.items() for word in words}

_WORDS = "|".join(_KIND)
# "left hand", "left high kick"; a plural names both.
_ENGLISH = re.compile(
    rf"(?:\b(on|from|off|left and|right and|left or|right or)\s+(?:\w+\s+)?)?"
    rf"\b(left|right)(?:\s+\w+)?\s+({_WORDS})\b(?!\s+side\b)",
    re.IGNORECASE,
)
_HAN = re.compile("([左右])(?:边|侧|邊|側)?的?(" + "|".join(_CHINESE.values()) + ")")


class NamedLimb(NamedTuple):
    """A limb and the side that a caption gives it."""

    limb: Limb
    side: Side


def named_limbs(caption: str) -> tuple[NamedLimb, ...]:
    """Return the limbs that an English or Chinese caption names by their side, as those that move.

    A limb that is stood on (``on the left leg``) is left out, and so is one of which both sides are named.

    Example:
        >>> named_limbs("A man waves with the left hand.")
        (NamedLimb(limb='arm', side='left'),)
        >>> named_limbs("he hops on the right leg"), named_limbs("steps left"), named_limbs("left arm, then right arm")
        ((), (), ())
    """
    found: dict[NamedLimb, None] = {}
    for match in _ENGLISH.finditer(caption):
        if not match[1]:
            side: Side = "left" if match[2].lower() == "left" else "right"
            found[NamedLimb(_KIND[match[3].lower()], side)] = None
    for match in _HAN.finditer(caption):
        limb: Limb = "arm" if re.fullmatch(_CHINESE["arm"], match[2]) else "leg"
        found[NamedLimb(limb, "left" if match[1] == "左" else "right")] = None
    limbs = [one.limb for one in found]
    return tuple(one for one in found if limbs.count(one.limb) == 1)
