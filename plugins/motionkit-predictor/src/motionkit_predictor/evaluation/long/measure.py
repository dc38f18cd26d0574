"""Long runs of a predictor: freely, along the clips' own paths, and along drawn ones.

`measure_long` makes the runs of a model and of the baselines; `looks` measures how the bodies move some time after the
start; `DRAWN` are the drawn paths, which no clip has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.geometry import matrix_to_6d
from motionkit.metrics import SHORTEST, leading_joint, lower_slide, movement, movement_share, npss_terms
from motionkit.motion.corpus.ids import Split
from motionkit_predictor.data.clips import ClipSet, StateClip, Windows, cut_windows
from motionkit_predictor.evaluation.baselines import Extrapolation, Matching
from motionkit_predictor.evaluation.measure import Body, predict_checked
from motionkit_predictor.policy import MplPredictor, Predictor
from motionkit_predictor.states import MotionState, extended, follow, path_errors, state_positions

MODEL, HOLD, DRAGGED, MATCHING = "model", "hold", "dragged", "matching"
FREE, OWN, ALONG = "free", "own", "drawn"
"""Kinds of runs: freely, along the path of the clip itself, and along the paths of `DRAWN`."""

END = "end"
"""Key of figures at the end of a clip's own path."""

SPAN = 2.0
"""A motion is measured over so many seconds before a time: two periods of the slowest movement, half a hertz."""

LISTED = 3
"""Fewest clips of a label that has a row of its own in the table; a verdict needs more, `motionkit.tracking.FEWEST`."""

OWN_SECONDS = 7.0
"""Seconds of a clip's own path that are asked for at most."""

_LEAST = 1.0  # seconds of its own path that a clip must have
_AHEAD = 0.3  # least speed ahead, in m/s, of the beginning of a clip from which a drawn path starts
_AT_ONCE = 32  # runs per batch: the network's memory of 30 seconds of them takes 300 MB

_PACE = 1.2  # m/s of a person who walks

Figures = dict[str, Tensor]
"""``[N]`` by figure and key, ``movement/10``; NaN if a run has no such figure."""


@dataclass(frozen=True)
class LongSettings:
    """When long runs are measured, and on how much."""

    split: Split = "val"  # split whose clips they begin from
    seconds: tuple[float, ...] = (2.0, 5.0, 10.0, 30.0)  # when
    clips: int = 48  # clips that free runs and own paths begin from at most, spread over the split; 0: all of them
    starts: int = 4  # clips that each drawn path begins from at most

    def ends(self, fps: float) -> dict[str, int]:
        """Return the frame of each time, the nearest first, by its key in documents."""
        return {f"{time:g}": max(1, round(time * fps)) for time in sorted(self.seconds)}


@dataclass(frozen=True)
class Runs:
    """Runs of one kind."""

    windows: Windows  # known frames, and the truth as far as it goes
    index: Tensor  # [N] int64 window of each run
    labels: tuple[str, ...]  # label of each
    names: tuple[str, ...]  # a path of `DRAWN`, else the kind
    path: Tensor | None  # [N, F, 3] that the root is asked to take; None for free runs
    ends: Mapping[str, Tensor]  # [N] int64 frames to measure at, by key
    target: Tensor  # [N, F', 3] what the root is compared with: the path, or the truth
    reach: Tensor  # [N] int64 frames of it

    @property
    def frames(self) -> int:
        """Frames F of a run."""
        return max(int(end.max()) for end in self.ends.values())


@dataclass(frozen=True)
class LongRuns:
    """Figures of all runs."""

    runs: Mapping[str, Runs]  # the runs of each kind, `FREE`, `OWN` and `ALONG`; a kind without any is left out
    rows: Mapping[str, Mapping[str, Figures]]  # figures by kind and predictor
    real: Mapping[str, RealLabel]  # figures of reference clips, by label
    settings: LongSettings  # how it was measured
    fps: float  # frames per second
    memory: Mapping[str, int]  # bytes in float32 of the model's weights and of the data that motion matching keeps


@torch.no_grad()
def measure_long(
    clips: ClipSet,
    predictor: Predictor | None,
    settings: LongSettings,
    *,
    past: int,
    progress: Callable[[], None] = lambda: None,
) -> LongRuns:
    """Measure runs of many seconds, of the model and of the baselines.

    Args:
        clips: Clips of all splits: runs begin with the first frames of the split's clips, motion matching plays the
            training clips, and all clips of a label give its real figures.
        predictor: The model; None measures the baselines alone.
        settings: When, and on how much.
        past: Known frames.
        progress: Called after each batch of runs.
    """
    body = Body.of(clips.names, clips.parents, clips.fps)
    stride = 1 + max(clip.state.frames for clip in clips.clips)  # one window for each clip, its first
    windows = cut_windows(clips.split(settings.split), past=past, future=round(OWN_SECONDS * clips.fps), stride=stride)
    runs = all_runs(windows, {clip.key: clip.label for clip in clips.clips}, clips.fps, settings)
    real = real_labels(clips, [label for group in runs.values() for label in group.labels], body)
    rows: dict[str, dict[str, Figures]] = {kind: {} for kind in runs}
    predictors = long_rows(clips, predictor)
    for kind, group in runs.items():
        for name, row in predictors.items():
            if group.path is not None or not row.dragged:
                rows[kind][name] = run_figures(row, group, body, real, progress)
    return LongRuns(runs, rows, real, settings, clips.fps, _memory(predictors))


@dataclass(frozen=True)
class LongRow:
    """A predictor and how its runs are made."""

    predictor: Predictor
    conditioned: bool = True  # on the path
    dragged: bool = False  # whether the root is put on the path, whatever was predicted


def long_rows(clips: ClipSet, predictor: Predictor | None) -> dict[str, LongRow]:
    """Return the model and its baselines.

    `HOLD` keeps the last pose where it is. `DRAGGED` has the poses of the model's free run (without a model those of
    `HOLD`), and its root goes along the path. `MATCHING` needs training clips.
    """
    hold = Extrapolation(clips.names, clips.fps, keep=0.0)
    rows = {} if predictor is None else {MODEL: LongRow(predictor)}
    rows[HOLD] = LongRow(hold, conditioned=False)
    rows[DRAGGED] = LongRow(predictor or hold, conditioned=False, dragged=True)
    train = [clip for clip in clips.clips if clip.split == "train"]
    if Matching.enough(train, clips.fps):
        rows[MATCHING] = LongRow(Matching(clips.names, clips.fps, train))
    return rows


def _memory(rows: Mapping[str, LongRow]) -> dict[str, int]:
    sizes = {}
    for name, row in rows.items():
        predictor = row.predictor
        if isinstance(predictor, Matching):
            sizes[name] = 4 * predictor.numbers
        elif name == MODEL and isinstance(predictor, MplPredictor):
            sizes[name] = 4 * sum(tensor.numel() for tensor in predictor.tensors().values())
    return sizes


def all_runs(
    windows: Windows,  # one for each clip
    labels: Mapping[str, str],  # label of each clip, by its key
    fps: float,  # frames per second
    settings: LongSettings,  # when, and on how much
) -> dict[str, Runs]:
    """Return the runs to make; there are no own paths if no clip goes on for a second."""
    all_windows = torch.arange(len(windows))
    ends = settings.ends(fps)

    def runs(index: Tensor, names: Sequence[str], path: Tensor | None, when: Mapping[str, Tensor]) -> Runs:
        run_labels = tuple(labels[windows.keys[place]] for place in windows.clip[index].tolist())
        compared = windows.following(index).steps if path is None else path
        reach = windows.valid[index] if END in when or path is None else torch.full((len(index),), path.shape[1])
        return Runs(windows, index, run_labels, tuple(names), path, when, compared, reach)

    def at(index: Tensor) -> dict[str, Tensor]:
        return {key: torch.full((len(index),), end) for key, end in ends.items()}

    free = spread(all_windows, settings.clips)
    by_kind = {FREE: runs(free, [FREE] * len(free), None, at(free))}
    own_path = free[windows.valid[free] >= _LEAST * fps]
    if len(own_path):
        by_kind[OWN] = runs(
            own_path, [OWN] * len(own_path), windows.following(own_path).steps, {END: windows.valid[own_path]}
        )
    ahead = windows.known(all_windows).steps[..., 1].mean(1) * fps
    going = all_windows[ahead >= _AHEAD]
    starts = spread(going if len(going) else all_windows, settings.starts)
    index = starts.repeat(len(DRAWN))
    paths = torch.stack([path.steps(max(ends.values()), fps) for path in DRAWN.values()])
    names = [name for name in DRAWN for _ in starts]
    by_kind[ALONG] = runs(index, names, paths.repeat_interleave(len(starts), dim=0), at(index))
    return by_kind


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
    row: LongRow, runs: Runs, body: Body, real: Mapping[str, RealLabel], progress: Callable[[], None] = lambda: None
) -> Figures:
    """Make runs and measure them.

    Returns:
        ``[N]`` each: ``movement``, ``slide``, ``speed`` and ``height`` over the seconds before a time; ``path_mean``,
        ``path_end`` (metres) and ``heading`` (degrees, mean) up to it if the path reaches it; ``npss_above`` and
        ``npss_below`` up to it if the truth does, whose sums' quotient is NPSS.
    """
    parts: list[Figures] = []
    for place in torch.arange(len(runs.index)).split(_AT_ONCE):
        index = runs.index[place]
        path = None if runs.path is None else extended(runs.path[place], runs.frames)[:, : runs.frames]
        if row.conditioned:
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
    path = runs.target[place]
    far = min(made.frames, path.shape[1])
    distance, heading = path_errors(made.steps[:, :far], path[:, :far].double())
    valid = runs.windows.valid[index]
    truth = matrix_to_6d(runs.windows.following(index).rotations[:, :, 1:]).flatten(2)
    six = matrix_to_6d(made.rotations[:, : truth.shape[1], 1:]).flatten(2)
    figures: Figures = {}
    for key, ends in runs.ends.items():
        end = ends[place]
        seen = looks_at(made, end, offsets, body)
        figures[f"movement/{key}"] = shares(seen, labels, real)
        figures |= {f"{name}/{key}": getattr(seen, name) for name in ("slide", "speed", "height")}
        rows = torch.arange(len(end))
        counts = torch.arange(far) < end[:, None]
        inside = end <= reach
        last = (end - 1).clamp_max(far - 1)
        for name, values in (
            ("path_mean", (distance * counts).sum(1) / end),
            ("path_end", distance[rows, last]),
            ("heading", (heading * counts).sum(1) / end),
        ):
            figures[f"{name}/{key}"] = torch.where(inside, values, torch.nan)
        above, below = torch.zeros(len(end)).double(), torch.zeros(len(end)).double()
        if runs.path is None or END in runs.ends:  # what follows a drawn path has no truth
            for row in (end <= valid).nonzero()[:, 0].tolist():
                span = slice(0, int(end[row]))
                up, down = npss_terms(six[row : row + 1, span], truth[row : row + 1, span])
                above[row], below[row] = float(up), float(down)
        figures[f"npss_above/{key}"], figures[f"npss_below/{key}"] = above, below
    return figures


@dataclass(frozen=True)
class Looks:
    """Figures of N motions over some seconds."""

    movement: Tensor  # [N, J] metres, see `motionkit.metrics.movement`; NaN below its shortest length
    slide: Tensor  # [N] m/s of the lower foot, see `motionkit.metrics.lower_slide`; NaN for a body without known feet
    speed: Tensor  # [N] m/s of the root along the ground, mean over frames
    height: Tensor  # [N] metres of the root above the floor, mean over frames


def looks(
    state: MotionState,  # [N, T, ...] float64
    offsets: Tensor,  # [N, J, 3] metres
    body: Body,
) -> Looks:
    """Measure motions over all of their frames."""
    count, frames = state.heights.shape
    joints = state_positions(state, offsets, body.parents)
    headings = follow(state.steps)[1]
    moved = movement(joints, headings, torch.full((count,), frames), body.fps)
    slide = joints.new_full((count,), torch.nan)
    if body.feet is not None and frames > 1:
        slide = lower_slide(joints[:, :, list(body.feet)], body.fps)
    speed = body.fps * state.steps[..., :2].norm(dim=-1).mean(1)
    return Looks(moved, slide, speed, state.heights.mean(1))


def looks_at(state: MotionState, ends: Tensor, offsets: Tensor, body: Body) -> Looks:
    """Measure motions over the last `SPAN` before frames `ends`, ``[N]`` int64 at least 1."""
    span = max(1, round(SPAN * body.fps))
    parts: list[Looks] = []
    places: list[Tensor] = []
    for end in ends.unique().tolist():
        rows = (ends == end).nonzero()[:, 0]
        part = state.map(lambda values, rows=rows: values[rows]).part(max(0, end - span), end)
        parts.append(looks(part, offsets[rows], body))
        places.append(rows)
    order = torch.cat(places).argsort()
    return Looks(*(torch.cat([getattr(part, name) for part in parts])[order] for name in Looks.__annotations__))


@dataclass(frozen=True)
class RealLabel:
    """Figures of the reference clips of a label, mean over the clips."""

    clips: int  # how many there are
    joint: int  # the joint that moves most
    movement: float  # metres that it moves; NaN if no clip is long enough
    slide: float  # as in `Looks`
    speed: float  # as in `Looks`
    height: float  # as in `Looks`


def real_labels(clips: ClipSet, labels: Sequence[str], body: Body) -> dict[str, RealLabel]:
    """Measure the reference clips of labels, of all splits: each in stretches of `SPAN`, a shorter one as a whole."""
    real = {}
    for label in dict.fromkeys(labels):
        measured = [look for clip in clips.clips if clip.label == label if (look := _looks_of(clip, body)) is not None]
        joint, moved = (
            leading_joint(torch.stack([look.movement for look in measured])) if measured else (0, float("nan"))
        )
        means = [_mean([getattr(look, name) for look in measured]) for name in ("slide", "speed", "height")]
        real[label] = RealLabel(len(measured), joint, moved, *means)
    return real


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).nanmean()) if values else float("nan")


def _looks_of(clip: StateClip, body: Body) -> Looks | None:
    """Measure one clip, mean over its stretches; None if it is too short to move."""
    frames, span = clip.state.frames, round(SPAN * body.fps)
    if frames < SHORTEST * body.fps:
        return None
    length = min(frames, span)
    starts = torch.arange(0, frames - length + 1, max(1, length // 2))
    rows = starts[:, None] + torch.arange(length)
    parts = clip.state.map(lambda values: values[rows].double())
    measured = looks(parts, clip.offsets.expand(len(starts), -1, -1), body)
    return Looks(measured.movement.mean(0), measured.slide.mean(), measured.speed.mean(), measured.height.mean())


def shares(measured: Looks, labels: Sequence[str], real: Mapping[str, RealLabel]) -> Tensor:
    """Return the `movement` of motions as a share of that of reference clips of their labels, ``[N]``; NaN as there."""
    joint = torch.tensor([real[label].joint for label in labels])
    size = measured.movement.new_tensor([real[label].movement for label in labels])
    return movement_share(measured.movement, joint, size)


@dataclass(frozen=True)
class DrawnPath:
    """A path from the origin, facing +Z, that faces where it goes."""

    title: str  # what it is called in tables
    speed: Callable[[float], float]  # metres per second at a time in seconds
    turn: Callable[[float], float] = lambda time: 0.0  # radians per second to the left at a time

    def steps(self, frames: int, fps: float) -> Tensor:
        """Return the steps to `frames` frames, ``[F, 3]`` float64 as in `motionkit_predictor.states.MotionState`.

        Each is the chord of an arc: a constant turn stays on its circle.
        """
        rows = []
        for frame in range(frames):
            middle = (frame + 0.5) / fps
            way, turn = self.speed(middle) / fps, self.turn(middle) / fps
            chord = way * math.sin(turn / 2) / (turn / 2) if turn else way
            rows.append((chord * math.sin(turn / 2), chord * math.cos(turn / 2), turn))
        return torch.tensor(rows, dtype=torch.float64)


def _straight(speed: float) -> DrawnPath:
    return DrawnPath(f"straight, {speed:g} m/s", lambda time: speed)


def _circle(radius: float) -> DrawnPath:
    return DrawnPath(f"circle of {radius:g} m, {_PACE:g} m/s", lambda time: _PACE, lambda time: _PACE / radius)


def _slalom(time: float) -> float:
    """Return the turn of a path whose heading swings 45 degrees to each side, once in 8 metres."""
    pace = 2 * math.pi * _PACE / 8.0
    return math.radians(45.0) * pace * math.cos(pace * time)


def _stopping(time: float) -> float:
    """Return the speed of a person who walks 3 s, slows down in half a second, stands 2 s and speeds up likewise."""
    time %= 6.0
    return _PACE * max(min(1.0, (3.5 - time) / 0.5), (time - 5.5) / 0.5, 0.0)


def _on_the_spot(time: float) -> float:
    """Return the turn of a person who turns by 180 degrees in 3 s and then stands 2 s."""
    return math.pi / 3 if time % 5.0 < 3.0 else 0.0


DRAWN: Mapping[str, DrawnPath] = {
    "straight-slow": _straight(0.6),
    "straight": _straight(_PACE),
    "straight-fast": _straight(2.0),
    "circle-2m": _circle(2.0),
    "circle-6m": _circle(6.0),
    "slalom": DrawnPath(f"slalom, {_PACE:g} m/s", lambda time: _PACE, _slalom),
    "stop-and-start": DrawnPath("stop and start", _stopping),
    "turn-on-the-spot": DrawnPath("turn on the spot", lambda time: 0.0, _on_the_spot),
}
"""The paths by their names in documents."""
