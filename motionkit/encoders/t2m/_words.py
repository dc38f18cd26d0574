"""Words as the evaluator reads them: a vector of the word and a one-hot of its part of speech."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import evaluator_words
from motionkit.runs import fingerprint

MAX_WORDS = 20
"""Words of a caption that are read; the rest is cut off."""

PARTS_OF_SPEECH = (
    "VERB",
    "NOUN",
    "DET",
    "ADP",
    "NUM",
    "AUX",
    "PRON",
    "ADJ",
    "ADV",
    "Loc_VIP",
    "Body_VIP",
    "Obj_VIP",
    "Act_VIP",
    "Desc_VIP",
    "OTHER",
)
"""Order of the one-hot vector."""

_LISTS = {
    "location": "Loc_VIP",
    "body": "Body_VIP",
    "object": "Obj_VIP",
    "action": "Act_VIP",
    "description": "Desc_VIP",
}
_START, _END, _UNKNOWN = "sos", "eos", "unk"


class Sentences(NamedTuple):
    """Captions as tensors.

    Attributes:
        words: ``[N, L, W]`` word vectors, start and end included, zeros past a caption's end.
        parts: ``[N, L, 15]`` one-hot parts of speech, zeros past a caption's end.
        counts: ``[N]`` int64, words of each caption, start and end included.
    """

    words: Tensor
    parts: Tensor
    counts: Tensor

    def to(self, device: torch.device | str) -> Sentences:
        """Return a copy on another device."""
        return Sentences(*(tensor.to(device) for tensor in self))


class WordTable:
    """Vectors of a fixed vocabulary.

    Args:
        vectors: ``[V, W]``.
        rows: Word to its row; ``sos``, ``eos`` and ``unk`` must be there.
        origin: Where it came from, for messages.

    Raises:
        MotionkitError: One of the three is missing, or a row is not in the table.
    """

    def __init__(self, vectors: Tensor, rows: Mapping[str, int], origin: str = "new words") -> None:
        missing = [word for word in (_START, _END, _UNKNOWN) if word not in rows]
        if missing:
            raise MotionkitError(f"the vocabulary of {origin} has no {' and no '.join(missing)}.", fix="copy it again.")
        if vectors.ndim != 2 or not all(0 <= row < len(vectors) for row in rows.values()):
            raise MotionkitError(
                f"the words of {origin} do not fit its vectors {list(vectors.shape)}.", fix="copy them again."
            )
        self.vectors = vectors.float()
        self.rows = dict(rows)
        self.origin = origin

    @property
    def width(self) -> int:
        """Width W of a vector."""
        return int(self.vectors.shape[1])

    def fingerprint(self) -> str:
        """Return the fingerprint of words and vectors."""
        return fingerprint(self.vectors, *(f"{word} {row}" for word, row in sorted(self.rows.items())))

    def knows(self, tokens: Sequence[str]) -> bool:
        """Whether one of the ``word/POS`` tokens that are read is in the vocabulary."""
        return any(token.rpartition("/")[0] in self.rows for token in tokens[:MAX_WORDS])

    def look_up(self, captions: Sequence[Sequence[str]]) -> Sentences:
        """Turn ``word/POS`` tokens of N captions, without start and end, into tensors.

        A word outside the vocabulary is ``unk``; a word of one of the evaluator's five lists has that list's part of
        speech whatever its tag says; an unknown tag is ``OTHER``.
        """
        sentences = [[f"{_START}/OTHER", *tokens[:MAX_WORDS], f"{_END}/OTHER"] for tokens in captions]
        counts = torch.tensor([len(tokens) for tokens in sentences], dtype=torch.int64)
        longest = max(map(len, sentences), default=0)
        words = torch.zeros(len(sentences), longest, self.width)
        parts = torch.zeros(len(sentences), longest, len(PARTS_OF_SPEECH))
        for number, tokens in enumerate(sentences):
            found = [self._read(token) for token in tokens]
            words[number, : len(tokens)] = self.vectors[[row for row, _ in found]]
            parts[number, range(len(tokens)), [part for _, part in found]] = 1.0
        return Sentences(words, parts, counts)

    def _read(self, token: str) -> tuple[int, int]:
        """Return the row of a token's word and the index of its part of speech."""
        word, _, part = token.rpartition("/")
        if word not in self.rows:
            word, part = _UNKNOWN, "OTHER"
        part = _special().get(word, part)
        return self.rows[word], PARTS_OF_SPEECH.index(part if part in PARTS_OF_SPEECH else "OTHER")


@lru_cache(maxsize=1)
def _special() -> dict[str, str]:
    """Return the part of speech of every listed word; where two lists have a word, the first of `_LISTS` wins."""
    found: dict[str, str] = {}
    for name, part in _LISTS.items():
        for word in evaluator_words(name):
            found.setdefault(word, part)
    return found
