"""Latents of captioned clips, for retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.encoders import _crops
from motionkit.encoders._crops import Crop
from motionkit.encoders.tmr._model import TMR
from motionkit.encoders.tmr._sentences import sentence_embeddings

_CHUNK = 64


def encode_captions(tmr: TMR, captions: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return unit-norm latents ``[N, D]`` and sentence embeddings ``[N, F]`` of captions; `tmr` has a text model."""
    assert tmr.text_model is not None
    features = tmr.text_model.encode(captions).to(tmr.mean.device)
    chunks = torch.split(torch.arange(len(captions), device=tmr.mean.device), _CHUNK)
    mu = torch.cat([tmr.encode_tokens(features.select(chunk)).mu for chunk in chunks])
    return F.normalize(mu, dim=-1), sentence_embeddings(features)


def encode_clips(
    tmr: TMR, clips: Sequence[Tensor], crops: Sequence[Crop] = (), *, progress: Callable[[int], None] | None = None
) -> Tensor:
    """Return unit-norm latents ``[N, D]`` of clips.

    Args:
        tmr: The model.
        clips: N clips ``[T, F]``, unnormalised.
        crops: Part of each clip; whole clips when empty.
        progress: Called with how many clips are done since its last call.
    """
    return F.normalize(_crops.encode_clips(tmr, clips, crops, progress=progress), dim=-1)
