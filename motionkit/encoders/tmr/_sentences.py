"""Sentence embeddings from the token features of a text model."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from motionkit.text import TextFeatures


def sentence_embeddings(texts: TextFeatures) -> Tensor:
    """Return ``[B, F]`` unit-norm means over a text's valid tokens, as sentence transformers pool them."""
    weight = texts.mask[..., None].to(texts.tokens.dtype)
    return F.normalize((texts.tokens * weight).sum(1) / weight.sum(1).clamp(min=1), dim=-1)
