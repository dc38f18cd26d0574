"""Computes the B-matrix of a sample, the similarity of its texts, with any text tower."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from motionkit.encoders.tmr._model import TMR
from motionkit.text import TextEncoder

_CHUNK = 64


class TextTower(Protocol):
    """Turns texts into vectors that can be compared by cosine.

    Attributes:
        name: What it is, for the file's metadata.
        fingerprint: Changes when a text would get another vector.
    """

    name: str
    fingerprint: str

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return ``[N, D]``."""
        ...


class TmrTower:
    """The text side of a TMR.

    Args:
        tmr: The model, with its text model.
        name: Name that the user gave.
    """

    def __init__(self, tmr: TMR, name: str) -> None:
        text_model = tmr.text_model
        self.name = f"tmr {name}"
        self.fingerprint = f"tmr-{_digest(tmr.text_encoder)}-{text_model.fingerprint if text_model else 'none'}"
        self._tmr = tmr.eval()

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the latent means ``[N, D]``."""
        return self._tmr.encode_texts(texts).detach().cpu()


class EncoderTower:
    """A plain text encoder; a text is the mean of its tokens.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = encoder.name
        self.fingerprint = encoder.fingerprint
        self._encoder = encoder

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Return the mean token ``[N, F]``."""
        features = self._encoder.encode(texts)
        mask = features.mask[..., None].to(features.tokens.dtype)
        return (features.tokens * mask).sum(1) / mask.sum(1)


def similarities(
    prompts: Sequence[Sequence[str]], tower: TextTower, progress: Callable[[int], None] | None = None
) -> Tensor:
    """Return the cosines between the texts of each sample, ``[N, K, K]`` float32, 1 on the diagonal.

    Args:
        prompts: N times K texts; each distinct text is encoded once.
        tower: What encodes them.
        progress: Called with the number of texts encoded, chunk after chunk.
    """
    texts = list(dict.fromkeys(text for row in prompts for text in row))
    vectors = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        vectors.append(functional.normalize(tower.encode_texts(chunk).double(), dim=-1))
        if progress is not None:
            progress(len(chunk))
    places = {text: place for place, text in enumerate(texts)}
    rows = torch.cat(vectors)[torch.tensor([[places[text] for text in row] for row in prompts])]
    cosines = (rows @ rows.transpose(1, 2)).clamp(-1.0, 1.0)
    cosines.diagonal(dim1=1, dim2=2).fill_(1.0)
    return cosines.float()


def _digest(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
