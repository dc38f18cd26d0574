"""Measuring predictors and baselines on the same windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._windows import Windows
from motionkit.errors import MotionkitError
from motionkit.evaluation.mpl._extrapolate import DAMPED, Extrapolation
from motionkit.evaluation.mpl._figures import Body, Terms, window_terms
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._nearest import Nearest
from motionkit.evaluation.mpl._ridge import Ridge
from motionkit.metrics import CONTACT, LEVELS, auroc, geodesic_degrees, score_levels
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.base import Predictor

BATCH = 256
RESAMPLES = 1000
FEWEST = 5
"""Clips from which an interval says something."""

_DRAWS = 100
"""Samples of the bootstrap that are worked on at a time."""

Figures = dict[str, Tensor]
"""``[B, H]`` of each figure, in each of B samples of the clips; NaN where it has no meaning."""


@dataclass(frozen=True)
class Row:
    """What was found of one predictor, per clip.

    Attributes:
        sums: ``[C, H]`` above and below the fraction bar, by figure (`window_terms`).
        contact: ``[H, C, L]`` feet that stand, by the step of the predicted score, up to each horizon.
        none: ``[H, C, L]`` feet that do not.
    """

    sums: Mapping[str, tuple[Tensor, Tensor]]
    contact: Tensor
    none: Tensor

    def figures(self, counts: Tensor) -> Figures:
        """Return every figure, each clip counting as often as `counts` (``[B, C]``) says."""
        counts = counts.double()
        found: Figures = {}
        for name, (above, below) in self.sums.items():
            under = counts @ below
            found[name] = (counts @ above) / torch.where(under > 0, under, torch.nan)
        few = [auroc(part @ self.contact, part @ self.none) for part in counts.split(_DRAWS)]  # [H, B] each
        found["contact_auroc"] = torch.cat(few, dim=1).T
        teacher = found["teacher_geo_deg"]
        found["free_teacher_ratio"] = found["geo_deg"] / torch.where(teacher > 0, teacher, torch.nan)
        return found


@dataclass(frozen=True)
class Measured:
    """Figures of a model and of the baselines.

    Attributes:
        values: By row and figure, ``[H]``.
        intervals: The same, ``[2, H]``: 95 % by bootstrap over clips, all rows with the same draws.
        horizons: Where.
    """

    values: Mapping[str, Mapping[str, Tensor]]
    intervals: Mapping[str, Mapping[str, Tensor]]
    horizons: Horizons


def fit_baselines(data: ClipSet, train: Windows | None, *, command: bool = False) -> dict[str, Predictor]:
    """Return the baselines that every table has.

    Args:
        data: Skeleton and rate.
        train: Training windows; without any whole one there is no ``ridge`` and no ``nearest``.
        command: Whether there will be a command.
    """
    own = data.names, data.fps
    found: dict[str, Predictor] = {
        "hold": Extrapolation(*own, keep=0.0),
        "velocity": Extrapolation(*own, keep=1.0),
        "damped": Extrapolation(*own, keep=DAMPED),
    }
    if train is not None and len(train.whole()):
        found["ridge"] = Ridge(*own, train, command=command)
        found["nearest"] = Nearest(*own, train, command=command)
    return found


@torch.no_grad()
def measure_row(
    predictor: Predictor,
    windows: Windows,
    body: Body,
    horizons: Horizons,
    *,
    command: bool = False,
    progress: Callable[[int], None] = lambda count: None,
) -> Row:
    """Measure one predictor.

    A free run is one call for all frames. Teacher forcing predicts the frame at a horizon from the true frames
    before it, one frame ahead.

    Args:
        predictor: What to measure.
        windows: Where to measure it.
        body: The skeleton.
        horizons: How far ahead.
        command: Give it the path of the truth.
        progress: Called with the number of windows done since its last call.

    Raises:
        MotionkitError: It returns another number of frames, or values that are not finite.
    """
    parts: list[Terms] = []
    scored = torch.zeros(2, len(horizons.frames), len(windows.offsets), LEVELS, dtype=torch.float64)
    for index in torch.arange(len(windows)).split(BATCH):
        known, truth = windows.known(index), windows.following(index)
        predicted = predict_checked(predictor, known, windows.future, truth.steps if command else None)
        valid, sure = windows.valid[index], windows.contacts_known[windows.clip[index]]
        offsets = windows.offsets[windows.clip[index]]
        terms = window_terms(
            predicted, truth, known, offsets=offsets, valid=valid, contacts_known=sure, body=body, horizons=horizons
        )
        terms["teacher_geo_deg"] = _teacher(predictor, windows, index, horizons, command=command)
        parts.append(terms)
        _count(scored, predicted.contacts, truth.contacts, valid * sure, windows.clip[index], horizons)
        progress(len(index))
    sums = {}
    for name in parts[0]:
        above, below = (torch.cat([part[name][side] for part in parts]) for side in (0, 1))
        sums[name] = _per_clip(above, windows), _per_clip(below, windows)
    return Row(sums, scored[1], scored[0])


def measure(rows: Mapping[str, Row], clips: int, horizons: Horizons, *, seed: int = 0) -> Measured:
    """Turn what was found into figures with intervals, and compare with the baselines.

    Args:
        rows: By name; ``hold`` is what skill is measured against.
        clips: Number of clips C.
        horizons: As in `measure_row`.
        seed: Seed of the bootstrap.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(clips, (RESAMPLES, clips), generator=generator)
    counts = torch.zeros(RESAMPLES, clips).scatter_add_(1, draws, torch.ones(RESAMPLES, clips))
    once = torch.ones(1, clips)
    values: dict[str, dict[str, Tensor]] = {}
    intervals: dict[str, dict[str, Tensor]] = {}
    hold = [rows["hold"].figures(sample)["geo_deg"] for sample in (once, counts)]
    for name, row in rows.items():
        both = [row.figures(sample) for sample in (once, counts)]
        for figures, still in zip(both, hold, strict=True):
            figures["skill"] = 1.0 - figures["geo_deg"] / still
        values[name] = {figure: value[0] for figure, value in both[0].items()}
        if clips >= FEWEST:
            ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
            intervals[name] = {figure: torch.nanquantile(value, ends, dim=0) for figure, value in both[1].items()}
    return Measured(values, intervals, horizons)


def predict_checked(predictor: Predictor, known: MotionState, frames: int, command: Tensor | None) -> MotionState:
    """Return what a predictor says, float64; refuse what is no motion of as many frames.

    Raises:
        MotionkitError: It returned another number of frames, or values that are not finite.
    """
    predicted = predictor.predict(known, frames, command=command)
    if predicted.rotations.shape[1] != frames or predicted.rotations.shape[2:] != known.rotations.shape[2:]:
        raise MotionkitError(
            f"the predictor returned rotations {list(predicted.rotations.shape)} when asked for {frames} frames.",
            code=1,
        )
    tensors = predicted.rotations, predicted.steps, predicted.heights, predicted.contacts
    if not all(bool(values.isfinite().all()) for values in tensors):
        raise MotionkitError("the predictor returned values that are not finite.", code=1)
    return predicted.map(Tensor.double)


def _teacher(
    predictor: Predictor, windows: Windows, index: Tensor, horizons: Horizons, *, command: bool
) -> tuple[Tensor, Tensor]:
    """Return the sums of GeoDeg when the frame at each horizon is predicted from the true frames before it."""
    above, below = [], []
    for frame in horizons.frames:
        known, truth = windows.known(index, shift=frame - 1), windows.following(index, shift=frame - 1)
        path = None
        if command:  # as long as any other; the window may end before, and the path then goes straight on
            path = torch.cat([truth.steps, truth.steps[:, -1:].expand(-1, frame - 1, -1)], dim=1)
        predicted = predict_checked(predictor, known, 1, path)
        turned = geodesic_degrees(predicted.rotations[:, 0, 1:], truth.rotations[:, 0, 1:]).mean(-1)
        inside = windows.valid[index] >= frame
        above.append(torch.where(inside, turned, 0.0))
        below.append(inside.double())
    return torch.stack(above, dim=1), torch.stack(below, dim=1)


def _count(scored: Tensor, predicted: Tensor, truth: Tensor, valid: Tensor, clip: Tensor, horizons: Horizons) -> None:
    """Add feet to ``[2, H, C, L]`` counts: by truth (no contact, contact), horizon, clip and step of the score."""
    frames = torch.arange(1, truth.shape[1] + 1)
    _, _, clips, levels = scored.shape
    places = ((truth > CONTACT).long() * clips + clip[:, None, None]) * levels + score_levels(predicted)
    for number, last in enumerate(horizons.frames):
        counts = (frames <= last) & (frames <= valid[:, None])  # [N, F]
        found = torch.bincount(places[counts].flatten(), minlength=2 * clips * levels)
        scored[:, number] += found.view(2, clips, levels)


def _per_clip(values: Tensor, windows: Windows) -> Tensor:
    clips = len(windows.offsets)
    return values.new_zeros(clips, values.shape[1]).index_add_(0, windows.clip, values)
