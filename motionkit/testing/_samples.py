"""Small motions and prompts to check rewards and policies with."""

from __future__ import annotations

import torch

from motionkit.motion import HUMANML, MotionBatch, Skeleton, feature_width
from motionkit.text import Prompt

TEXTS = (
    "a man walks forward.",
    "a person jumps up.",
    "a woman waves with the left hand.",
    "the person sits down.",
)
"""Texts whose embeddings the starter pack stores, so that checks of its policy need no text model."""


def sample_motions(
    *, count: int = 4, frames: int = 48, skeleton: Skeleton = HUMANML, fps: float = 20.0, seed: int = 0
) -> MotionBatch:
    """Return smooth random motions of different lengths; padding is NaN.

    Args:
        count: Number of motions N.
        frames: Length of the longest.
        skeleton: Body of the features.
        fps: Frames per second.
        seed: Changes the motions.

    Example:
        >>> sample_motions(count=2, frames=12).features.shape
        torch.Size([2, 12, 263])
    """
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(count, frames, feature_width(skeleton), generator=generator) * 0.02
    features = steps.cumsum(dim=1)
    features[..., 3] = 0.9 + 0.1 * features[..., 3]  # root height in metres
    lengths = torch.tensor([frames - 4 * (index % 3) for index in range(count)])
    batch = MotionBatch(features, lengths, skeleton=skeleton, fps=fps)
    features[~batch.mask] = torch.nan
    return MotionBatch(features, lengths, skeleton=skeleton, fps=fps)


def sample_prompts(motions: MotionBatch) -> list[Prompt]:
    """Return one prompt per motion with one, two or three segments in turn, and the motion's length.

    Example:
        >>> [len(prompt.segments) for prompt in sample_prompts(sample_motions(count=4))]
        [1, 2, 3, 1]
    """
    prompts = []
    for index, length in enumerate(motions.lengths.tolist()):
        count = 1 + index % 3
        segments = tuple(TEXTS[(index + k) % len(TEXTS)] for k in range(count))
        frames = tuple(length * (k + 1) // count - length * k // count for k in range(count))
        prompts.append(Prompt(segments, frames, key=f"sample-{index}"))
    return prompts
