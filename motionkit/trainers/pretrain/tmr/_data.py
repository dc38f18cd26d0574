"""What is read off the texts before training: their scale."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.base import TextClip
from motionkit.text import TextEncoder


def text_scale(text_model: TextEncoder, clips: Sequence[TextClip]) -> float:
    """Root mean square of the features of up to 256 first captions; also opens the text model in earnest."""
    stride = max(1, len(clips) // 256)
    features = text_model.encode([clip.captions[0] for clip in clips[::stride]])
    return max(float(features.tokens[features.mask].square().mean().sqrt()), 1e-6)
