"""Encodes each distinct text once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.text._features import TextEncoder, TextFeatures


class CachedEncoder:
    """A `TextEncoder` that wraps another one and caches every text.

    Rows equal those of the inner encoder bit for bit, in any order and batch.

    Args:
        encoder: The encoder that does the work.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.width = encoder.width
        self.fingerprint = encoder.fingerprint
        self.source: str = getattr(encoder, "source", "")
        self._rows: dict[str, Tensor] = {}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return features of `texts`, in order, padded with zeros to the longest."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._rows]:
            features = self.encoder.encode(new)
            counts = features.mask.sum(1).tolist()
            for text, tokens, count in zip(new, features.tokens, counts, strict=True):
                self._rows[text] = tokens[:count].clone()
        return pad_rows([self._rows[text] for text in texts])


def pad_rows(rows: Sequence[Tensor]) -> TextFeatures:
    """Stack rows ``[L_i, F]`` into features, zeros past each row's end."""
    tokens = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([row.shape[0] for row in rows], device=tokens.device)
    return TextFeatures(tokens, torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])
