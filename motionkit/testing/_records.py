"""Small records of every sort that rewards read, and the changes to them that must not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.rewards._records import contents, rows
from motionkit.rewards.base import FrameBatch, MaskBatch, Record, TextBatch
from motionkit.testing._samples import TEXTS, sample_motions, sample_prompts
from motionkit.text import Prompt


def sample_record(reads: str) -> Record:
    """Return four small samples of what a reward reads.

    Args:
        reads: ``motion``, ``image``, ``mask`` or ``text``.

    Raises:
        ValueError: It is none of these.
    """
    generator = torch.Generator().manual_seed(0)
    match reads:
        case "motion":
            return sample_motions()
        case "image":
            frames = torch.randint(0, 256, (4, 6, 16, 16, 3), generator=generator, dtype=torch.uint8)
            return FrameBatch(frames, torch.tensor([6, 5, 4, 6]))
        case "mask":
            # Discs of different sizes against discs beside them: all overlap, none is empty.
            y, x = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
            away = ((x - 7) ** 2 + (y - 7) ** 2).float().sqrt()
            beside = ((x - 9) ** 2 + (y - 7) ** 2).float().sqrt()
            radius = torch.tensor([3.0, 4.0, 5.0, 6.0])[:, None, None]
            return MaskBatch(away < radius, beside < 4.0 + 0 * radius, torch.tensor([0.9, 0.4, 0.7, 0.2]))
        case "text":
            return TextBatch(list(TEXTS), [(TEXTS[0], text.upper()) for text in TEXTS])
    raise ValueError(f"no reward reads {reads!r}: motion, image, mask or text.")


def prompts_for(record: Record) -> list[Prompt]:
    """Return one prompt per sample; those of motions have one, two and three segments by turns."""
    if isinstance(record, MotionBatch):
        return sample_prompts(record)
    return [Prompt((TEXTS[index % len(TEXTS)],), (1,), key=f"sample-{index}") for index in range(len(record))]


def equal(first: Any, second: Any) -> bool:
    """Whether two records hold the same values; NaN equals NaN."""
    pairs = zip(contents(first).values(), contents(second).values(), strict=True)
    return all(
        torch.equal(one.nan_to_num(7.0), two.nan_to_num(7.0)) if isinstance(one, Tensor) else list(one) == list(two)
        for one, two in pairs
    )


def padded(record: Any) -> Iterator[tuple[Any, str]]:
    """Yield copies with other padding, and with more of it; nothing for records without padding."""
    if isinstance(record, MotionBatch):
        filled = record.features.clone()
        filled[~record.mask] = 1e3
        yield _motions(record, filled, record.lengths), "What stands in the padding changes the score."
        more = torch.full_like(record.features[:, :5], torch.nan)
        longer = torch.cat([record.features, more], dim=1)
        yield _motions(record, longer, record.lengths), "More padding changes the score."
    if isinstance(record, FrameBatch):
        black = record.frames.clone()
        black[~record.mask] = 0
        yield replace(record, frames=black), "What stands in the padding changes the score."
        longer = torch.cat([record.frames, torch.full_like(record.frames[:, :2], 255)], dim=1)
        yield replace(record, frames=longer), "More padding changes the score."


def spoiled(record: Any) -> Any:
    """Return a copy whose first sample is unusable: a motion of NaN, a black film, an empty mask, no text."""
    made = rows(record, range(len(record)))
    if isinstance(made, MotionBatch):
        made.features[0] = torch.nan
    elif isinstance(made, FrameBatch):
        made.frames[0] = 0
    elif isinstance(made, MaskBatch):
        made.masks[0] = False
        if made.confidence is not None:
            made.confidence[0] = torch.nan
    else:
        made = replace(made, texts=["", *made.texts[1:]])
    return made


def _motions(record: MotionBatch, features: Tensor, lengths: Tensor) -> MotionBatch:
    return MotionBatch(features, lengths, skeleton=record.skeleton, fps=record.fps)
