"""Which frames belong to which segment."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.encoders._crops import Crop
from motionkit.text import Prompt


def segment_crops(prompts: Sequence[Prompt], lengths: Sequence[int]) -> list[list[Crop]]:
    """Cut N motions at the bounds of their prompts.

    Bounds are clipped to the motion; the last segment is extended to its end. A segment that starts at or after the
    end has length 0.

    Args:
        prompts: One per motion.
        lengths: Frames per motion.

    Returns:
        One list of crops per motion.
    """
    crops = []
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        bounds = [(min(start, length), min(end, length)) for start, end in prompt.bounds]
        bounds[-1] = (bounds[-1][0], length)
        crops.append([Crop(row, start, end - start) for start, end in bounds])
    return crops


def whole_crops(lengths: Sequence[int]) -> list[Crop]:
    """Return one crop per motion that covers all of it."""
    return [Crop(row, 0, length) for row, length in enumerate(lengths)]
