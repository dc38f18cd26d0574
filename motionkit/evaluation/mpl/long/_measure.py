"""Long runs of a predictor: freely, along the clips' own paths, and along drawn ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.datasets.base import Split
from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._windows import Windows, cut_windows
from motionkit.evaluation.mpl._extrapolate import Extrapolation
from motionkit.evaluation.mpl._figures import Body
from motionkit.evaluation.mpl._measure import predict_checked
from motionkit.evaluation.mpl.long._figures import RealLabel, looks_at, real_labels, shares
from motionkit.evaluation.mpl.long._matching import Matching
from motionkit.evaluation.mpl.long._paths import DRAWN
from motionkit.geometry._rotations import matrix_to_6d
from motionkit.metrics import npss_terms
from motionkit.motion.prediction._path import path_errors
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.base import Predictor

MODEL, HOLD, DRAGGED, MATCHING = "model", "hold", "dragged", "matching"
FREE, OWN, ALONG = "free", "own", "drawn"
"""Kinds of runs: freely, along the path of the clip itself, and along the paths of `DRAWN`."""

END = "end"
"""Key of figures at the end of a clip's own path."""

OWN_SECONDS = 7.0
"""Seconds of a clip's own path that are asked for at most."""

_LEAST = 1.0
"""Seconds of its own path that a clip must have."""

_AHEAD = 0.3
"""m/s ahead from which a clip begins with going somewhere, so that a drawn path can go on from there."""

_AT_ONCE = 32
"""Runs that are made at a time: what a network remembers of 30 seconds of them is 300 MB."""

Figures = dict[str, Tensor]
"""``[N]`` by figure and key, ``movement/10``; NaN where a run has no such figure."""


@dataclass(frozen=True)
class LongSettings:
    """When long runs are measured, and on how much.

    Attributes:
        split: Split whose clips they begin from.
        seconds: When.
        clips: Clips that free runs and own paths begin from at most, spread over the split; 0: all of them.
        starts: Clips that each drawn path begins from at most.
    """

    split: Split = "val"
    seconds: tuple[float, ...] = (2.0, 5.0, 10.0, 30.0)
    clips: int = 48
    starts: int = 4

    def ends(self, fps: float) -> dict[str, int]:
        """Return the frame of each time, the nearest first, by its key in documents."""
        return {f"{one:g}": max(1, round(one * fps)) for one in sorted(self.seconds)}


@dataclass(frozen=True)
class Runs:
    """Runs of one kind.

    Attributes:
        windows: Known frames, and the truth as far as it goes.
        index: ``[N]`` int64 window of each run.
        labels: Label of each.
        names: What each is asked to do: a path of `DRAWN`, else the kind.
        path: ``[N, F, 3]`` that the root is asked to take; None where it is free.
        ends: ``[N]`` int64 frames to measure at, by key.
        asked: ``[N, F', 3]`` what the root is compared with: the path, or the truth.
        reach: ``[N]`` int64 frames of it.
    """

    windows: Windows
    index: Tensor
    labels: tuple[str, ...]
    names: tuple[str, ...]
    path: Tensor | None
    ends: Mapping[str, Tensor]
    asked: Tensor
    reach: Tensor

    @property
    def frames(self) -> int:
        """Frames F of a run."""
        return max(int(end.max()) for end in self.ends.values())


@dataclass(frozen=True)
class LongRuns:
    """What was found.

    Attributes:
        runs: The runs of each kind, `FREE`, `OWN` and `ALONG`; a kind without any is left out.
        rows: Figures by kind and predictor.
        real: What real clips are like, by label.
        settings: How it was measured.
        fps: Frames per second.
    """

    runs: Mapping[str, Runs]
    rows: Mapping[str, Mapping[str, Figures]]
    real: Mapping[str, RealLabel]
    settings: LongSettings
    fps: float


@torch.no_grad()
def measure_long(
    clips: ClipSet,
    predictor: Predictor | None,
    settings: LongSettings,
    *,
    past: int,
    progress: Callable[[], None] = lambda: None,
) -> LongRuns:
    """Measure runs of many seconds, the model's beside those of the baselines.

    Args:
        clips: Clips of all splits: runs begin with the first frames of those of the split, motion matching plays those
            to train on, and all of a label are what real motions of it are like.
        predictor: The model; None measures the baselines alone.
        settings: When, and on how much.
        past: Known frames.
        progress: Called after each batch of runs.

    Raises:
        MotionkitError: The split has no clip of two frames, or a predictor returns what cannot be measured.
    """
    body = Body.of(clips.names, clips.parents, clips.fps)
    every = 1 + max(clip.state.frames for clip in clips.clips)  # one window for each clip, its first
    windows = cut_windows(clips.split(settings.split), past=past, future=round(OWN_SECONDS * clips.fps), stride=every)
    runs = all_runs(windows, {clip.key: clip.label for clip in clips.clips}, clips.fps, settings)
    real = real_labels(clips, [label for one in runs.values() for label in one.labels], body)
    rows: dict[str, dict[str, Figures]] = {kind: {} for kind in runs}
    beside = long_rows(clips, predictor)
    for kind, one in runs.items():
        for name, row in beside.items():
            if one.path is not None or not row.dragged:
                rows[kind][name] = run_figures(row, one, body, real, progress)
    return LongRuns(runs, rows, real, settings, clips.fps)


@dataclass(frozen=True)
class LongRow:
    """What makes runs.

    Attributes:
        predictor: What predicts.
        told: Whether it is told the path.
        dragged: Whether the root is put where the path has it, whatever was predicted.
    """

    predictor: Predictor
    told: bool = True
    dragged: bool = False


def long_rows(clips: ClipSet, predictor: Predictor | None) -> dict[str, LongRow]:
    """Return the model and what stands beside it.

    `HOLD` keeps the last pose where it is. `DRAGGED` has the poses of the model's free run (without a model those of
    `HOLD`), and its root goes along the path. `MATCHING` needs training clips.
    """
    hold = Extrapolation(clips.names, clips.fps, keep=0.0)
    found = {} if predictor is None else {MODEL: LongRow(predictor)}
    found[HOLD] = LongRow(hold, told=False)
    found[DRAGGED] = LongRow(predictor or hold, told=False, dragged=True)
    train = [clip for clip in clips.clips if clip.split == "train"]
    if Matching.enough(train, clips.fps):
        found[MATCHING] = LongRow(Matching(clips.names, clips.fps, train))
    return found


def all_runs(windows: Windows, labels: Mapping[str, str], fps: float, settings: LongSettings) -> dict[str, Runs]:
    """Return the runs to make; where no clip goes on for a second there are no own paths.

    Args:
        windows: One for each clip.
        labels: Label of each clip, by its key.
        fps: Frames per second.
        settings: When, and on how much.
    """
    whole = torch.arange(len(windows))
    ends = settings.ends(fps)

    def runs(index: Tensor, names: Sequence[str], path: Tensor | None, when: Mapping[str, Tensor]) -> Runs:
        told = tuple(labels[windows.keys[place]] for place in windows.clip[index].tolist())
        asked = windows.following(index).steps if path is None else path
        reach = windows.valid[index] if END in when or path is None else torch.full((len(index),), path.shape[1])
        return Runs(windows, index, told, tuple(names), path, when, asked, reach)

    def at(index: Tensor) -> dict[str, Tensor]:
        return {key: torch.full((len(index),), end) for key, end in ends.items()}

    free = spread(whole, settings.clips)
    found = {FREE: runs(free, [FREE] * len(free), None, at(free))}
    own = free[windows.valid[free] >= _LEAST * fps]
    if len(own):
        found[OWN] = runs(own, [OWN] * len(own), windows.following(own).steps, {END: windows.valid[own]})
    ahead = windows.known(whole).steps[..., 1].mean(1) * fps
    going = whole[ahead >= _AHEAD]
    starts = spread(going if len(going) else whole, settings.starts)
    index = starts.repeat(len(DRAWN))
    paths = torch.stack([path.steps(max(ends.values()), fps) for path in DRAWN.values()])
    names = [name for name in DRAWN for _ in starts]
    found[ALONG] = runs(index, names, paths.repeat_interleave(len(starts), dim=0), at(index))
    return found


def spread(index: Tensor, most: int) -> Tensor:
    """Return at most so many of an index, evenly spread over it; 0: all.

    Example:
        >>> spread(torch.arange(10), 3).tolist()
        [0, 4, 9]
    """
    if not 0 < most < len(index):
        return index
    return index[torch.linspace(0, len(index) - 1, most, dtype=torch.float64).long()]


def run_figures(
    row: LongRow,
    runs: Runs,
    body: Body,
    real: Mapping[str, RealLabel],
    progress: Callable[[], None] = lambda: None,
) -> Figures:
    """Make runs and measure them.

    Returns:
        ``[N]`` each: ``movement``, ``slide``, ``speed`` and ``height`` over the seconds before a time; ``path_mean``,
        ``path_end`` (metres) and ``heading`` (degrees, mean) up to it where the path reaches it; ``npss_above`` and
        ``npss_below`` up to it where the truth does, whose sums' quotient is NPSS.
    """
    parts: list[Figures] = []
    for place in torch.arange(len(runs.index)).split(_AT_ONCE):
        index = runs.index[place]
        path = None if runs.path is None else _as_long(runs.path[place], runs.frames)
        if row.told:
            made = predict_checked(row.predictor, runs.windows.known(index), runs.frames, path)
        else:  # the same for all paths from one start
            starts, whose = index.unique(return_inverse=True)
            made = predict_checked(row.predictor, runs.windows.known(starts), runs.frames, None)
            made = made.map(lambda values, whose=whose: values[whose])
        if row.dragged and path is not None:
            made = replace(made, steps=path.double())
        parts.append(_figures(made, runs, place, body, real))
        progress()
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _figures(made: MotionState, runs: Runs, place: Tensor, body: Body, real: Mapping[str, RealLabel]) -> Figures:
    index, reach = runs.index[place], runs.reach[place]
    offsets = runs.windows.offsets[runs.windows.clip[index]]
    labels = [runs.labels[number] for number in place.tolist()]
    asked = runs.asked[place]
    far = min(made.frames, asked.shape[1])
    distance, heading = path_errors(made.steps[:, :far], asked[:, :far].double())
    valid = runs.windows.valid[index]
    truth = matrix_to_6d(runs.windows.following(index).rotations[:, :, 1:]).flatten(2)
    six = matrix_to_6d(made.rotations[:, : truth.shape[1], 1:]).flatten(2)
    found: Figures = {}
    for key, ends in runs.ends.items():
        end = ends[place]
        seen = looks_at(made, end, offsets, body)
        found[f"movement/{key}"] = shares(seen, labels, real)
        found |= {f"{name}/{key}": getattr(seen, name) for name in ("slide", "speed", "height")}
        rows = torch.arange(len(end))
        counts = torch.arange(far) < end[:, None]
        inside = end <= reach
        last = (end - 1).clamp_max(far - 1)
        for name, values in (
            ("path_mean", (distance * counts).sum(1) / end),
            ("path_end", distance[rows, last]),
            ("heading", (heading * counts).sum(1) / end),
        ):
            found[f"{name}/{key}"] = torch.where(inside, values, torch.nan)
        above, below = torch.zeros(len(end)).double(), torch.zeros(len(end)).double()
        if runs.path is None or END in runs.ends:  # what follows a drawn path has no truth
            for row in (end <= valid).nonzero()[:, 0].tolist():
                span = slice(0, int(end[row]))
                up, down = npss_terms(six[row : row + 1, span], truth[row : row + 1, span])
                above[row], below[row] = float(up), float(down)
        found[f"npss_above/{key}"], found[f"npss_below/{key}"] = above, below
    return found


def _as_long(path: Tensor, frames: int) -> Tensor:
    """Return a path of so many frames; one that is shorter goes on as its last step."""
    missing = max(0, frames - path.shape[1])
    return torch.cat([path, path[:, -1:].expand(-1, missing, -1)], dim=1)[:, :frames]
