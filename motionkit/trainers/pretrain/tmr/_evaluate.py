"""Retrieval of a TMR on held-out clips."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from motionkit.datasets.base import TextClip
from motionkit.encoders.tmr import TMR, Crop
from motionkit.text import TextFeatures
from motionkit.trainers.pretrain._retrieval import encode_clips, retrieval_figures, short_crops
from motionkit.trainers.pretrain.tmr._loss import sentence_embeddings

_CHUNK = 64


@torch.no_grad()
def retrieval_metrics(tmr: TMR, clips: Sequence[TextClip], *, short: int) -> dict[str, float]:
    """Measure retrieval with latent means, each clip with its first caption.

    Args:
        tmr: The model, in eval mode.
        clips: Held-out clips; their order matters for the batches of 32.
        short: Frames of the crops behind the figures that end in ``_short``.

    Returns:
        ``retrieval/t2m/r1`` ... among all clips; ``..._same`` counts clips whose caption says the same (cosine of the
        sentences above 0.9) as right too; ``..._32`` in batches of 32, ``..._32_short`` the same on short crops;
        ``..._chance`` what guessing would reach.
    """
    texts, sentences = _encode_texts(tmr, [clip.captions[0] for clip in clips])
    whole = [Crop(0, 0, len(clip.features)) for clip in clips]
    similarities = [
        texts @ F.normalize(encode_clips(tmr, clips, crops), dim=-1).T for crops in (whole, short_crops(clips, short))
    ]
    return retrieval_figures(*similarities, sentences=sentences)


def _encode_texts(tmr: TMR, captions: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    assert tmr.text_model is not None
    features: TextFeatures = tmr.text_model.encode(captions).to(tmr.mean.device)
    chunks = torch.split(torch.arange(len(captions), device=tmr.mean.device), _CHUNK)
    mu = torch.cat([tmr.encode_tokens(features.select(chunk)).mu for chunk in chunks])
    return F.normalize(mu, dim=-1), sentence_embeddings(features)
