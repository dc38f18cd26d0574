"""Text models that need no download: random vectors that depend on the text alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.rl import stable_hash
from motionkit.text import TextFeatures


def _drawn(text: str, width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(stable_hash(text) % 2**63))


class HashEncoder:
    """Gives every text one vector of its own, and notes what it is asked."""

    def __init__(self, width: int = 12, name: str = "clip") -> None:
        self.width, self.name, self.fingerprint = width, name, "hash"
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[N, 1, width]``."""
        self.asked += texts
        rows = [_drawn(text, self.width)[None] for text in texts]
        return TextFeatures(torch.stack(rows), torch.ones(len(texts), 1, dtype=torch.bool))


class WordEncoder(HashEncoder):
    """Gives every word a vector of its own: a sequence for each text, as DistilBERT does."""

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[N, most words, width]``."""
        self.asked += texts
        rows = [torch.stack([_drawn(word, self.width) for word in text.split()]) for text in texts]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        counts = torch.tensor([len(row) for row in rows])
        return TextFeatures(padded, torch.arange(padded.shape[1]) < counts[:, None])
