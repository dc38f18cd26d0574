"""What captions of the built-in shapes say: attributes of an object, and where it is from another one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Claim, Thing
from motionkit.datasets.shapes._words import RELATIONS

_APART = 0.15
"""Share of the image's width or height that one middle has to be beyond the other; neighbours are 0.29 apart."""

_ARTICLES = ("a", "an", "the")
_SIDES = ("top", "bottom", "left", "right", "middle")
_WORD = re.compile(r"[\w'-]+")
_RELATION = re.compile(rf"\b(?:to the |on the )?({'|'.join(RELATIONS)})\b")


def read_caption(caption: str, kinds: Mapping[str, Sequence[str]]) -> Claim:
    """Return what a caption says.

    What comes before a relation is said of the object, what comes after it of the other one: in "the small circle left
    of the red square" the circle is small and the square is red. A place, such as "at the top left", belongs to the
    noun before it.

    Args:
        caption: Any text.
        kinds: The values of each attribute; those of ``place`` are phrases.

    Example:
        >>> kinds = {"shape": ("circle", "square"), "size": ("small",), "place": ("at the top",)}
        >>> found = read_caption("the small circle at the top left of the square", kinds)
        >>> found.said
        (('size', 'small'), ('shape', 'circle'), ('place', 'at the top'))
        >>> found.relations
        (('left of', Claim(said=(('shape', 'square'),), relations=(), unread=())),)
    """
    text = " ".join(_WORD.findall(caption.lower()))
    first = _RELATION.search(text)
    own = text[: first.start()] if first else text
    said, unread = _phrase(own, kinds)
    if first is None:
        return Claim(said, (), unread)
    # "above the square left of the circle": the circle is where the square is from, and so on.
    return Claim(said, ((first[1], read_caption(text[first.end() :], kinds)),), unread)


def _phrase(text: str, kinds: Mapping[str, Sequence[str]]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the attributes of one noun with its adjectives and its place, and the words that are none of these."""
    words = text.split()
    values = {value: kind for kind, own in kinds.items() for value in own if kind != "place"}
    said: list[tuple[str, str]] = []
    unread: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word in ("at", "in") and words[place + 1 : place + 2] == ["the"]:
            end = place + 2
            while end < len(words) and words[end] in _SIDES:
                end += 1
            # A place that no object can be at, such as "at the top bottom", is wrong of every object.
            said += [("place", " ".join(words[place:end]))] if end > place + 2 else []
            unread += words[place:end] if end == place + 2 else []
            place = end
            continue
        if word in values:
            said.append((values[word], word))
        elif word not in _ARTICLES:
            unread.append(word)
        place += 1
    return tuple(said), tuple(unread)


def related(relation: str, one: Thing, other: Thing) -> bool:
    """Return whether an object is left of, right of, above or below another one.

    Left and right compare columns alone, above and below rows alone.

    Example:
        >>> one, other = Thing({}, (0.2, 0.8)), Thing({}, (0.8, 0.2))
        >>> [word for word in RELATIONS if related(word, one, other)]
        ['left of', 'below']
    """
    right, down = one.middle[0] - other.middle[0], one.middle[1] - other.middle[1]
    found: dict[str, float] = {"left of": -right, "right of": right, "above": -down, "below": down}
    return found.get(relation, 0.0) > _APART


def things_of(
    numbers: Sequence[NDArray[np.int64]], shifts: NDArray[np.float64], kinds: Mapping[str, Sequence[str]]
) -> tuple[Thing, ...]:
    """Return the K objects of a scene in words.

    Args:
        numbers: For each attribute ``[K]`` the numbers of its values; the last one is the cell of the 3 x 3 grid.
        shifts: ``[K, 2]`` how far x and y of a middle are from that of its cell, as shares of the image.
        kinds: The values of each attribute.
    """
    columns = [[own[number] for number in row.tolist()] for own, row in zip(kinds.values(), numbers, strict=True)]
    middles = (np.stack([numbers[-1] % 3, numbers[-1] // 3], 1) + 0.5) / 3 + shifts
    words = [dict(zip(kinds, one, strict=True)) for one in zip(*columns, strict=True)]
    return tuple(Thing(one, (x, y)) for one, (x, y) in zip(words, middles.tolist(), strict=True))
