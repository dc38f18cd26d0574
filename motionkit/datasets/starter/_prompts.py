"""Prompts of the starter dataset: single captions, or several actions in a row, which no clip shows."""

from __future__ import annotations

from motionkit.datasets.base import Split
from motionkit.datasets.joining import MIN_SEGMENT, fit_lengths
from motionkit.datasets.starter import StarterOptions
from motionkit.datasets.starter._plan import UNIT, draw_caption, draw_length, generator
from motionkit.errors import MotionkitError
from motionkit.starter import CATALOGUE
from motionkit.text import Prompt

_BEGINS_LOW = ("sit/up", "kneel/up")
"""Actions that begin seated or kneeling cannot follow an arbitrary other action."""

_FIRST = tuple(i for i, entry in enumerate(CATALOGUE) if not entry.name.startswith(_BEGINS_LOW))


def composites(
    split: Split, options: StarterOptions, *, k_segments: int, seed: int, max_length: int
) -> tuple[Prompt, ...]:
    """Draw prompts of several different actions.

    Args:
        split: Which wordings to use.
        options: Number of prompts and lengths of segments.
        k_segments: Segments per prompt; 0 alternates two and three.
        seed: Seed of the draw.
        max_length: Longest total in frames.

    Raises:
        MotionkitError: The segments do not fit.
    """
    if k_segments * MIN_SEGMENT > max_length:
        raise MotionkitError(
            f"{k_segments} segments do not fit into {max_length} frames.",
            why=f"a segment has at least {MIN_SEGMENT} frames.",
            fix=f"use at most {max_length // MIN_SEGMENT} segments.",
        )
    prompts = []
    for number in range(options.prompts):
        rng = generator(options.seed, split, 1, seed, k_segments, number)
        count = k_segments or 2 + number % 2
        classes: list[int] = []
        while len(classes) < count:
            choice = _FIRST[int(rng.integers(len(_FIRST)))]
            if all(CATALOGUE[choice].action != CATALOGUE[other].action for other in classes):
                classes.append(choice)
        frames = [draw_length(rng, options.min_segment, options.max_segment) for _ in classes]
        prompts.append(
            Prompt(
                segments=tuple(draw_caption(rng, choice, split, options.unseen) for choice in classes),
                frames=fit_lengths(frames, max_length, unit=UNIT),
                key=f"{split}-k{k_segments}-s{seed}-{number:05d}",
            )
        )
    return tuple(prompts)
