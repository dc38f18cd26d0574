"""Joins single captions into prompts of several segments."""

from __future__ import annotations

import random
from collections.abc import Sequence

from motionkit.errors import MotionkitError
from motionkit.text import Prompt

MIN_SEGMENT = 36
"""Shortest segment in frames: the shortest window that TMR and the evaluator were trained on."""


def join_prompts(
    singles: Sequence[Prompt], k_segments: int, *, seed: int, max_length: int, unit: int = 4
) -> tuple[Prompt, ...]:
    """Join K one-segment prompts into each of ``len(singles)`` prompts, the same ones for the same seed.

    Prompt i begins with ``singles[i]``; the others are drawn from different clips. A segment is as long as
    its source, unless the total exceeds `max_length`: then the longest are cut to one common length (a multiple of
    `unit`, at least `MIN_SEGMENT`).

    Args:
        singles: One-segment prompts with a source clip each; those shorter than `MIN_SEGMENT` are not used.
        k_segments: K >= 2.
        seed: Chooses what is joined.
        max_length: Longest total in frames.
        unit: Segment lengths are multiples of it.

    Returns:
        Prompts in the order of their first segments.

    Raises:
        MotionkitError: K segments do not fit, or there are fewer than K clips to draw from.
    """
    if k_segments * MIN_SEGMENT > max_length:
        raise MotionkitError(
            f"{k_segments} segments do not fit into {max_length} frames.",
            why=f"a segment has at least {MIN_SEGMENT} frames.",
            fix="use fewer segments or a larger --dataset.max-length.",
        )
    usable = [prompt for prompt in singles if prompt.length >= MIN_SEGMENT]
    clips = {_clip(prompt) for prompt in usable}
    if len(clips) < k_segments:
        raise MotionkitError(
            f"prompts of {k_segments} segments need {k_segments} different clips, this split has {len(clips)}."
        )
    rng = random.Random(f"join {seed} {k_segments}")
    joined = []
    for first in usable:
        parts, taken = [first], {_clip(first)}
        while len(parts) < k_segments:
            other = usable[rng.randrange(len(usable))]
            if _clip(other) not in taken:
                parts.append(other)
                taken.add(_clip(other))
        joined.append(_joined(parts, max_length, unit))
    return tuple(joined)


def fit_lengths(lengths: Sequence[int], max_length: int, *, unit: int = 4) -> tuple[int, ...]:
    """Cut the longest of some lengths to a common one, so that all fit into `max_length`; a multiple of `unit`.

    Example:
        >>> fit_lengths([60, 120, 100], max_length=196)
        (60, 68, 68)
    """
    remaining, cap = max_length, max(lengths)
    for place, length in enumerate(sorted(lengths)):
        share = remaining // (len(lengths) - place)
        if length > share:
            cap = max(share // unit * unit, unit)
            break
        remaining -= length
    return tuple(min(length, cap) for length in lengths)


def join_texts(texts: Sequence[str]) -> str:
    """Return captions as one sentence: "First a, then b, finally c".

    Punctuation at the end of captions is removed ("kicks.," would result otherwise).

    Example:
        >>> join_texts(["a man walks.", "he jumps", "he sits down"])
        'First a man walks, then he jumps, finally he sits down'
    """
    parts = [text.strip().rstrip(".,;:!? ") or text.strip() for text in texts]
    middle = [f"then {part}" for part in parts[1:-1]]
    return ", ".join([f"First {parts[0]}", *middle, f"{'finally' if middle else 'then'} {parts[-1]}"])


def _clip(prompt: Prompt) -> str:
    return prompt.source_ids[0] if prompt.source_ids else prompt.key


def _joined(parts: Sequence[Prompt], max_length: int, unit: int) -> Prompt:
    return Prompt(
        segments=tuple(part.segments[0] for part in parts),
        frames=fit_lengths([part.length for part in parts], max_length, unit=unit),
        key=" + ".join(part.key for part in parts),
        source_ids=tuple(_clip(part) for part in parts),
    )
