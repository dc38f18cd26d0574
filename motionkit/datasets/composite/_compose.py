"""Joining single clips into composite samples: what `motionkit compose` does."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from motionkit.datasets.base import TextMotionDataset
from motionkit.datasets.composite._arrays import Arrays
from motionkit.datasets.composite._draw import Draw, extremes
from motionkit.datasets.composite._motion import reference_joints
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._reasons import ATTEMPTS, BIN, impossible, leaks, too_few
from motionkit.datasets.composite._schema import TMR_LEAST, Metadata, Sample, Tower
from motionkit.datasets.composite._sources import Source, fingerprint, read_sources
from motionkit.datasets.composite._tower import TextTower, similarities
from motionkit.datasets.joining import join_texts
from motionkit.errors import MotionkitError
from motionkit.text import Prompt

_STALE = 50
"""Draws in a row, per sample found so far, that bring nothing new before the search ends. With N combinations in all,
the last one is overlooked with a chance of exp(-50)."""

_log = logging.getLogger("motionkit.datasets")


@dataclass(frozen=True)
class Composed:
    """A composite set in memory.

    Attributes:
        metadata: How it was made.
        samples: The samples.
        arrays: Statistics, reference motions and B-matrices.
        asked: Samples that were asked for.
        attempts: Draws it took.
        histogram: Usable clips by length: lower end of a bin of 20 frames to their number.
        warnings: What the user should know.
    """

    metadata: Metadata
    samples: tuple[Sample, ...]
    arrays: Arrays
    asked: int
    attempts: int
    histogram: dict[int, int]
    warnings: tuple[str, ...]


def compose(
    dataset: TextMotionDataset,
    plan: Plan,
    *,
    tower: TextTower | None = None,
    progress: Callable[[int], None] | None = None,
) -> Composed:
    """Join clips of one split into samples of K actions, the same ones for the same seed.

    Every set of K motions whose lengths fit is as likely as any other, and none is taken twice. A caption of each clip
    is drawn, a different one for each segment where there is a choice.

    Args:
        dataset: Where clips and statistics come from.
        plan: What is wanted.
        tower: Computes the B-matrices; None leaves them out.
        progress: Called with the number of samples made.

    Raises:
        MotionkitError: Nothing fits; the smallest and the largest total that do are named.
    """
    if dataset.name == "composite":
        raise MotionkitError("composite data are composed already.", fix="name the dataset of the single clips.")
    sources = read_sources(dataset, plan.split)
    drawn, attempts = _draw(sources, plan, dataset.name)
    warnings = leaks(dataset, plan.split, sources)
    histogram = dict(sorted(Counter(source.frames // BIN * BIN for source in sources).items()))
    if len(drawn) < plan.max_samples:
        warnings.append(too_few(len(drawn), plan, attempts, sources, histogram))
    captions = random.Random(f"compose captions {plan.seed} {plan.split} {plan.k_segments}")
    samples, joints = [], []
    for number, (chosen, windows) in enumerate(drawn):
        parts = [sources[place] for place in chosen]
        samples.append(_sample(number, parts, windows, plan, dataset.fps, captions))
        joints.append(_motion(parts, windows, dataset))
        if progress is not None:
            progress(1)
    short = sum(any(sample.outside_tmr_range) for sample in samples)
    if short:
        warnings.append(
            f"{short} of {len(samples)} samples have a segment under {TMR_LEAST} frames, which is shorter than what "
            "TMR was trained on; outside_tmr_range marks them."
        )
    metadata = Metadata(
        dataset_name=dataset.name,
        split=plan.split,
        k_segments=plan.k_segments,
        target_length=plan.target_length,
        tolerance=plan.tolerance,
        fps=dataset.fps,
        num_samples=len(samples),
        seed=plan.seed,
        crop=plan.cuts,
        skeleton=dataset.skeleton.name,
        source=fingerprint(dataset, plan.split, sources, (place for chosen, _ in drawn for place in chosen)),
        text_tower=Tower(name=tower.name, fingerprint=tower.fingerprint) if tower is not None else None,
        physics_reference=_physics(dataset),
    )
    similarity = similarities([sample.sub_prompts for sample in samples], tower) if tower is not None else None
    arrays = Arrays(dataset.normalizer, tuple(joints), similarity)
    return Composed(metadata, tuple(samples), arrays, plan.max_samples, attempts, histogram, tuple(warnings))


_Drawn = list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]]


def _draw(sources: Sequence[Source], plan: Plan, name: str) -> tuple[_Drawn, int]:
    """Return the clips and windows of each sample, and the number of draws.

    Ends early when draws have brought nothing new for so long that there is very likely nothing left.
    """
    reach = extremes(sources, plan.k_segments, crop=plan.cuts)
    if reach is None:
        groups = len({source.group for source in sources})
        raise MotionkitError(
            f"samples of {plan.k_segments} segments need {plan.k_segments} different clips; the {plan.split} split of "
            f"{name} has {groups}.",
            fix=f"--k-segments {groups} or fewer." if groups > 1 else "",
        )
    if reach[0] > plan.target_length or reach[1] < plan.low:
        raise impossible(plan, reach, name)
    seed = f"compose {plan.seed} {plan.split} {plan.k_segments}"
    draw = Draw(sources, plan.k_segments, low=plan.low, high=plan.target_length, crop=plan.cuts, seed=seed)
    found: _Drawn = []
    seen: set[tuple[str, ...]] = set()
    attempts = stale = 0
    while draw.possible and len(found) < plan.max_samples and attempts < ATTEMPTS * plan.max_samples:
        attempts += 1
        stale += 1
        if stale > _STALE * (len(found) + _STALE):
            break
        chosen = draw.draw()
        if chosen is None or (key := tuple(sorted(sources[place].file for place in chosen))) in seen:
            continue
        if (windows := draw.windows(chosen)) is not None:
            seen.add(key)
            found.append((chosen, windows))
            stale = 0
    if not found:
        raise impossible(plan, reach, name)
    return found, attempts


def _sample(
    number: int,
    parts: Sequence[Source],
    windows: Sequence[tuple[int, int]],
    plan: Plan,
    fps: float,
    rng: random.Random,
) -> Sample:
    texts: list[str] = []
    for part in parts:
        every = [text for text in part.clip.captions if text.strip()]
        texts.append(rng.choice([text for text in every if text not in texts] or every))
    frames = tuple(end - start for start, end in windows)
    key = f"composite-{plan.split}-k{plan.k_segments}-s{plan.seed}-{number:05d}"
    return Sample(
        id=key,
        text=Prompt(tuple(texts), frames).text,
        composite_prompt=join_texts(texts),
        sub_prompts=tuple(texts),
        durations=tuple(count / fps for count in frames),
        durations_frames=frames,
        source_ids=tuple(part.file for part in parts),
        source_frames=tuple(
            (part.start + start, part.start + end) for part, (start, end) in zip(parts, windows, strict=True)
        ),
        outside_tmr_range=tuple(count < TMR_LEAST for count in frames),
        total_frames=sum(frames),
    )


def _motion(parts: Sequence[Source], windows: Sequence[tuple[int, int]], dataset: TextMotionDataset) -> Tensor:
    pieces = [part.clip.features[start:end] for part, (start, end) in zip(parts, windows, strict=True)]
    joints = reference_joints(pieces, dataset.skeleton, dataset.fps)
    if not bool(joints.isfinite().all()):
        broken = next(part.clip.key for part, piece in zip(parts, pieces, strict=True) if not piece.isfinite().all())
        raise MotionkitError(f"clip {broken} of {dataset.name} is not finite (NaN or infinite).")
    return joints.float()


def _physics(dataset: TextMotionDataset) -> tuple[float, float] | None:
    """Return the reference of the physics reward, or None for a dataset without training clips."""
    try:
        return dataset.physics_reference()
    except MotionkitError as error:
        _log.warning("the physics reward will have no reference: %s", error.message)
        return None
