"""Captions of one content in several styles, found among the captions of a dataset, and how well styles are told apart.

A style is what a caption has more than another caption of the data, at its end or before the verb: ``a person walks
like an old person`` and ``an old person walks`` are ``a person walks`` in a style. A content needs three styles beside
the plain caption. Words that say where, how often, with which limb, or what happens next are no styles; nor are words
inside of what follows the verb (``throws a red ball``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.metrics import distances, expected_hits
from motionkit.motion import tag_caption
from motionkit.motion.corpus.ids import Split

LEAST = 3  # styles of a content, beside its plain caption
_WORD = re.compile(r"\w+(?:'\w+)?")
_EARLY, _INSERTED = 4, 4  # words before those that stand before the verb, and these, at most
# Words that are no style: a further action, a place or direction, a count, a limb; before the verb another person.
_OTHER = frozenset({
    "and", "then", "while", "before", "after", "until",
    "forward", "forwards", "backward", "backwards", "back", "ahead", "left", "right", "up", "down", "upward", "upwards",
    "downward", "downwards", "around", "about", "away", "across", "along", "through", "over", "under", "onto", "into",
    "toward", "towards", "from", "off", "out", "place", "spot", "side", "sideways", "diagonally", "straight", "circle",
    "circles", "curve", "shape", "clockwise", "counterclockwise", "anticlockwise", "zigzag",
    "once", "twice", "times", "time", "step", "steps", "one", "two", "three", "four", "five", "six", "seven", "eight",
    "nine", "ten", "several", "few", "again", "first", "second", "third", "other", "another", "same",
    "arm", "arms", "hand", "hands", "leg", "legs", "foot", "feet", "knee", "knees", "head", "both",
})  # fmt: skip


class Styles(NamedTuple):
    """The captions of one content in all styles."""

    captions: tuple[str, ...]  # the plain one first
    own: int  # number of the one that is meant


def styles_of(captions: Iterable[str]) -> dict[str, Styles]:
    """Return the styles of the content of each caption that names one.

    Case and punctuation do not count, nor does ``an`` for ``a``. A caption that has more than two others belongs to the
    longer one that is a content.

    Example:
        >>> found = styles_of(["He walks.", "He walks sadly.", "He walks proudly.", "He walks like a cat.", "He sits."])
        >>> found["He walks sadly."]
        Styles(captions=('He walks.', 'He walks like a cat.', 'He walks proudly.', 'He walks sadly.'), own=3)
    """
    texts: dict[tuple[str, ...], list[str]] = {}
    for caption in dict.fromkeys(captions):
        if words := tuple("a" if word == "an" else word for word in _WORD.findall(caption.lower())):
            texts.setdefault(words, []).append(caption)
    styled: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for words in texts:
        for end in range(1, len(words)):
            if words[:end] in texts and _OTHER.isdisjoint(words[end:]):
                styled.setdefault(words[:end], set()).add(words)
        for start, end in _inner(len(words)):
            content = words[:start] + words[end:]
            if content in texts and _OTHER.isdisjoint(words[start:end]) and start <= _verb(texts[content][0]):
                styled.setdefault(content, set()).add(words)
    contents = sorted((content for content, found in styled.items() if len(found) >= LEAST), key=_length_first)
    longest = {words: content for content in contents for words in styled[content]}
    result: dict[str, Styles] = {}
    for content in contents:
        found = sorted(words for words in styled[content] if longest[words] == content)
        if len(found) >= LEAST:
            family = tuple(texts[words][0] for words in (content, *found))
            for number, words in enumerate(found, start=1):
                result |= {caption: Styles(family, number) for caption in texts[words]}
    return result


def _inner(count: int) -> Iterator[tuple[int, int]]:
    """Yield the starts and ends of words that may stand before the verb of a caption of `count` words."""
    for start in range(min(_EARLY, count - 1)):
        for end in range(start + 1, min(start + _INSERTED, count - 1) + 1):
            yield start, end


def _length_first(words: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return len(words), words


@lru_cache(maxsize=65536)
def _verb(caption: str) -> int:
    """Return the place of the first verb of an English caption among its words; -1 if none is found."""
    tokens, words = tag_caption(caption, builtin=True), _WORD.findall(caption)
    if len(tokens) != len(words):  # hyphens, for one
        return -1
    return next((place for place, token in enumerate(tokens) if token.endswith("/VERB")), -1)


def captions_of(dataset: TextMotionDataset, split: Split) -> list[str]:
    """Return the captions among which styles are looked for: those of a split, and of train where that costs little."""
    captions = dataset.captions(split)
    if captions is None:
        return [text for clip in dataset.clips(split) for text in clip.captions]
    with suppress(MotionkitError):  # a folder may have one split alone
        return [*captions, *(dataset.captions("train") or ())]
    return list(captions)


def style_hits(
    styles: Mapping[str, Styles],
    texts: Sequence[str],
    motions: Tensor,
    encode: Callable[[Sequence[str]], Tensor],
) -> Tensor:
    """Return whether each motion is nearest to its own caption among those of its content in all styles.

    Args:
        styles: What `styles_of` returned.
        texts: N captions.
        motions: ``[N, E]`` latents of their motions; not finite for one that is unknown.
        encode: Returns the latents ``[C, E]`` of C captions.

    Returns:
        ``[N]`` float64 within 0 and 1, fractions are ties; NaN where the caption names no style.
    """
    result = torch.full((len(texts),), torch.nan, dtype=torch.float64)
    rows: dict[Styles, list[int]] = {}
    for row, text in enumerate(texts):
        if text in styles and bool(motions[row].isfinite().all()):
            rows.setdefault(styles[text], []).append(row)
    for family, places in rows.items():
        table = distances(motions[places][:, None], encode(family.captions)[None].expand(len(places), -1, -1))[:, 0]
        right = table[:, family.own, None]
        nearer, tied = (table < right).sum(1).double(), (table == right).sum(1).double()
        result[places] = expected_hits(nearer, tied, top=1)[0].cpu()
    return result


def style_chance(styles: Mapping[str, Styles], texts: Iterable[str]) -> float:
    """Return the mean of `style_hits` that guessing reaches; NaN if no caption names a style."""
    shares = [1 / len(styles[text].captions) for text in texts if text in styles]
    return sum(shares) / len(shares) if shares else float("nan")
