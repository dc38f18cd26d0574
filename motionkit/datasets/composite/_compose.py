"""Joins single clips into composite samples (`motionkit compose`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from motionkit.datasets.base import TextMotionDataset
from motionkit.datasets.composite._arrays import Arrays
from motionkit.datasets.composite._draw import Drawn, draw_samples
from motionkit.datasets.composite._messages import BIN, alike, leaks, none_fits, too_few
from motionkit.datasets.composite._motion import reference_joints
from motionkit.datasets.composite._plan import Plan
from motionkit.datasets.composite._schema import TMR_LEAST, Metadata, Sample, Tower
from motionkit.datasets.composite._sources import fingerprint, read_sources
from motionkit.datasets.composite._tower import TextTower, similarities
from motionkit.datasets.joining import join_texts
from motionkit.errors import MotionkitError
from motionkit.text import Prompt

_log = logging.getLogger("motionkit.datasets")


@dataclass(frozen=True)
class Composed:
    """A composite set in memory.

    Attributes:
        metadata: How it was made.
        samples: The samples.
        arrays: Statistics, reference motions and B-matrices.
        asked: Samples requested.
        attempts: Number of draws.
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

    Samples are drawn uniformly without replacement from all sets of K clips of different motions whose lengths fit, and
    no set of motions is taken twice. When fewer fit than requested, all are taken. A caption of each clip is drawn,
    different for each segment; sets of clips without different captions are used last.

    Args:
        dataset: Where clips and statistics come from.
        plan: What is wanted.
        tower: Computes the B-matrices; None leaves them out.
        progress: Called with the number of samples made.

    Raises:
        MotionkitError: No clips fit; the error names a target length that some would fit.
    """
    if dataset.name == "composite":
        raise MotionkitError("composite data are composed already.", fix="name the dataset of the single clips.")
    sources = read_sources(dataset, plan.split)
    drawing = draw_samples(sources, plan)
    if not drawing.samples:
        raise none_fits(sources, plan, dataset.name)
    warnings = leaks(dataset, plan.split, sources)
    histogram = dict(sorted(Counter(source.frames // BIN * BIN for source in sources).items()))
    if len(drawing.samples) < plan.max_samples:
        warnings.append(too_few(drawing, plan, sources, histogram))
    if drawing.repeats:
        warnings.append(alike(drawing))
    samples, joints = [], []
    for number, drawn in enumerate(drawing.samples):
        samples.append(_sample(number, drawn, plan, dataset.fps))
        joints.append(_motion(drawn, dataset))
        if progress is not None:
            progress(1)
    short = sum(any(sample.outside_tmr_range) for sample in samples)
    if short:
        warnings.append(
            f"{short} of {len(samples)} samples have a segment under {TMR_LEAST:g} s ({TMR_LEAST * dataset.fps:g} "
            "frames), which is shorter than what TMR was trained on; outside_tmr_range marks them."
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
        source=fingerprint(dataset, plan.split, sources, (part for drawn in drawing.samples for part in drawn.parts)),
        text_tower=Tower(name=tower.name, fingerprint=tower.fingerprint) if tower is not None else None,
        physics_reference=_physics(dataset),
    )
    similarity = similarities([sample.sub_prompts for sample in samples], tower) if tower is not None else None
    arrays = Arrays(dataset.normalizer, tuple(joints), similarity)
    return Composed(metadata, tuple(samples), arrays, plan.max_samples, drawing.attempts, histogram, tuple(warnings))


def _sample(number: int, drawn: Drawn, plan: Plan, fps: float) -> Sample:
    texts, windows, parts = drawn.texts, drawn.windows, drawn.parts
    frames = tuple(end - start for start, end in windows)
    key = f"composite-{plan.split}-k{plan.k_segments}-s{plan.seed}-{number:05d}"
    return Sample(
        id=key,
        text=Prompt(texts, frames).text,
        composite_prompt=join_texts(texts),
        sub_prompts=texts,
        durations=tuple(count / fps for count in frames),
        durations_frames=frames,
        source_ids=tuple(part.file for part in parts),
        source_frames=tuple(
            (part.start + start, part.start + end) for part, (start, end) in zip(parts, windows, strict=True)
        ),
        outside_tmr_range=tuple(count / fps < TMR_LEAST for count in frames),
        total_frames=sum(frames),
    )


def _motion(drawn: Drawn, dataset: TextMotionDataset) -> Tensor:
    pieces = [part.clip.features[start:end] for part, (start, end) in zip(drawn.parts, drawn.windows, strict=True)]
    joints = reference_joints(pieces, dataset.skeleton, dataset.fps)
    if not bool(joints.isfinite().all()):
        broken = next(
            part.clip.key for part, piece in zip(drawn.parts, pieces, strict=True) if not piece.isfinite().all()
        )
        raise MotionkitError(f"clip {broken} of {dataset.name} is not finite (NaN or infinite).")
    return joints.float()


def _physics(dataset: TextMotionDataset) -> tuple[float, float] | None:
    """Return the reference of the physics reward, or None for a dataset without training clips."""
    try:
        return dataset.physics_reference()
    except MotionkitError as error:
        _log.warning("the physics reward will have no reference: %s", error.message)
        return None
