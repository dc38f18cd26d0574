"""Words and their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

PAD, END, SEG, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<end>", "[SEG]", "<unknown>")
_TOKEN = re.compile(r"[a-z]+")


class Words:
    """The vocabulary of a region policy.

    Args:
        words: In order, without the special ones, which come before them.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._all = (*SPECIAL, *self.words)
        self._numbers = {word: number for number, word in enumerate(self._all) if number >= len(SPECIAL)}

    def __len__(self) -> int:
        return len(self._all)

    def encode(self, texts: Sequence[str], longest: int) -> Tensor:
        """Return ``[N, L]`` int64: the words and END, then PAD; words that do not fit are cut off.

        What is written like a special word is no word: a caption cannot smuggle ``[SEG]`` into a prompt.
        """
        rows = [[self._numbers.get(word, UNKNOWN) for word in _TOKEN.findall(text.lower().replace("[seg]", " "))]
                for text in texts]  # fmt: skip
        rows = [[*row[: longest - 1], END] for row in rows]
        width = max(map(len, rows), default=1)
        return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows], dtype=torch.int64)

    def share(self, texts: Sequence[str]) -> float:
        """Return the share of the words of texts that are known; 1 where there are none."""
        found = [word in self._numbers for text in texts for word in _TOKEN.findall(text.lower())]
        return sum(found) / len(found) if found else 1.0

    def decode(self, ids: Tensor) -> list[str]:
        """Return the texts of ``[N, L]`` ids, each up to its END."""
        texts = []
        for row in ids.tolist():
            row = row[: row.index(END)] if END in row else row
            texts.append(" ".join(self._all[number] for number in row if number >= len(SPECIAL)))
        return texts
