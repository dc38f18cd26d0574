"""The features that a text encoder returns, and the protocol of text encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class TextFeatures:
    """Encoded texts, padded to the longest.

    Attributes:
        tokens: ``[B, L, F]`` float32; L = 1 for encoders that return one vector per text.
        mask: ``[B, L]`` bool, True = valid.
    """

    tokens: Tensor
    mask: Tensor

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def select(self, index: Tensor) -> TextFeatures:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        return TextFeatures(self.tokens[index], self.mask[index])

    def to(self, device: torch.device | str) -> TextFeatures:
        """Move to `device`."""
        return TextFeatures(self.tokens.to(device), self.mask.to(device))


class TextEncoder(Protocol):
    """Turns texts into features; frozen and deterministic.

    Attributes:
        name: Registry name: ``clip``, ``distilbert``, ``minilm``, ``stored``.
        width: F of the features.
        fingerprint: Changes when the same text would encode differently (model, revision, options). In the form
            ``name:digest`` it identifies a model independently of its path; `motionkit.text.TextRecord` compares it
            when a trained model is used again.

    An encoder that runs a model may also have ``source: str``, the folder or hub id of that model.
    """

    name: str
    width: int
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode each text once, in order. Batch composition never changes a row."""
        ...
