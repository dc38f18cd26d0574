"""Measuring predictors and baselines on the same windows.

`Horizons` are the frames to measure at. `window_terms` returns each figure of a window as two sums: the figure of any
set of clips is a quotient of two sums. `measure` adds bootstrap intervals, and `worst_document` lists the clips that a
predictor is worst at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_to_6d
from motionkit.metrics import (
    CONTACT,
    LEVELS,
    auroc,
    f1_terms,
    geodesic_degrees,
    joint_jerk,
    npss_terms,
    score_levels,
    slide_terms,
    yaw_degrees,
)
from motionkit.rigs import find_feet
from motionkit.rigs.roles import find_roles
from motionkit_predictor.data.clips import ClipSet, Windows
from motionkit_predictor.evaluation.baselines import DAMPED, Extrapolation, Nearest, Ridge
from motionkit_predictor.policy import Predictor
from motionkit_predictor.states import MotionState, follow, state_positions

MODEL, HOLD = "model", "hold"
BATCH = 256
RESAMPLES = 1000
LISTED = 10
"""Clips in the list of the worst."""

LIMBS = tuple(f"{side} {joint}" for side in ("left", "right") for joint in
              ("hip", "knee", "ankle", "shoulder", "elbow", "wrist"))  # fmt: skip

TRUTH_SKATE = "truth_skate"
"""Foot skate of the truth itself, which that of a prediction is compared with; the same for every predictor."""

_SEAM = 3  # known frames before the prediction that jerk needs to reach its first frame

_LEAST_STILL = 0.5
"""Degrees that the last pose held is taken to be off at least: after a whole cycle of a periodic clip it is exact."""

_DRAWS = 100  # samples of the bootstrap per batch

_WORST = 3  # worst clips that are kept to be looked at

Terms = dict[str, tuple[Tensor, Tensor]]
"""``[N, H]`` above and below the fraction bar, by figure."""

Figures = dict[str, Tensor]
"""``[B, H]`` of each figure, in each of B samples of the clips; NaN if it has no meaning."""


@dataclass(frozen=True)
class Horizons:
    """How far ahead is measured."""

    keys: tuple[str, ...]  # milliseconds as they were asked for, such as ``"100"``
    frames: tuple[int, ...]  # the frame of each, counted from 1

    @property
    def last(self) -> int:
        """The furthest frame."""
        return max(self.frames)

    @classmethod
    def at(cls, milliseconds: Sequence[float], fps: float) -> Horizons:
        """Turn milliseconds into frames.

        Example:
            >>> Horizons.at([100, 400], fps=30.0).frames
            (3, 12)
        """
        if not milliseconds:
            raise MotionkitError("no horizon was given.", fix="--horizons 100,200,400,1000")
        frames = []
        for time in milliseconds:
            exact = time * fps / 1000.0
            frames.append(round(exact))
            if abs(exact - frames[-1]) > 1e-3 or frames[-1] < 1:
                near = sorted({max(1, int(exact)), int(exact) + 1})
                raise MotionkitError(
                    f"a horizon of {time:g} ms is not a frame at {fps:g} frames per second.",
                    why=f"the nearest frames are at {' and '.join(f'{1000 * n / fps:.6g}' for n in near)} ms.",
                    fix="--horizons with times of frames, or another --fps.",
                )
        return cls(tuple(f"{time:g}" for time in milliseconds), tuple(frames))


@dataclass(frozen=True)
class Body:
    """What figures need to know of a skeleton."""

    parents: tuple[int, ...]  # parent of each joint
    fps: float  # frames per second
    limbs: Mapping[str, int]  # joints of `LIMBS` that are found by their names
    # The joint of the left foot that stands longest, and of the right one; None if they are not found
    feet: tuple[int, int] | None

    @classmethod
    def of(cls, names: Sequence[str], parents: Sequence[int], fps: float) -> Body:
        """Find limbs and feet by the names of joints."""
        roles = find_roles(names, parents)
        feet = find_feet(names, parents)
        limbs = {limb: roles[limb] for limb in LIMBS if limb in roles}
        return cls(tuple(parents), fps, limbs, None if feet is None else (feet[0][-1], feet[1][-1]))


def window_terms(
    predicted: MotionState,  # [N, F, ...]
    truth: MotionState,
    known: MotionState,  # [N, P, ...] what came before
    *,
    offsets: Tensor,  # [N, J, 3]
    valid: Tensor,  # [N] frames of the truth that are real; a horizon beyond them has zeros in both sums
    contacts_known: Tensor,  # [N] bool
    body: Body,
    horizons: Horizons,  # frames to measure at
) -> Terms:
    """Return the sums of every figure for windows; docs/evaluation.md and `motionkit.tracking` define them."""
    index = [frame - 1 for frame in horizons.frames]
    inside = (valid[:, None] >= torch.tensor(horizons.frames)).double()  # [N, H]
    turned = geodesic_degrees(predicted.rotations, truth.rotations)  # [N, F, J]
    fed_back = torch.cat([torch.zeros_like(turned[:, :1, 0]), turned.mean(-1)], dim=1).cumsum(1)  # [N, F + 1]
    earlier = torch.tensor([max(1, frame - 1) for frame in horizons.frames])
    moved = body.fps * (predicted.steps - truth.steps)[..., :2].abs().mean(-1)
    there, where = (_poses(state, offsets, index, body) for state in (predicted, truth))
    terms: Terms = {
        "geo_deg": (turned[:, index, 1:].mean(-1), inside),
        "yaw_abs_deg": (yaw_degrees(follow(predicted.steps)[1], follow(truth.steps)[1])[:, index], inside),
        "root_vel_mae": (moved[:, index], inside),
        "input_rot_geo_deg": (fed_back[:, index] / earlier, inside),
        "mpjpe_mm": (1000.0 * (there - where).norm(dim=-1).mean(-1), inside),
    }
    for limb, joint in body.limbs.items():
        terms[f"key_bone/{limb.replace(' ', '_')}/geo_deg"] = turned[:, index, joint], inside
    terms |= _up_to(predicted, truth, known, offsets, contacts_known, body, horizons)
    # A product with 0 leaves NaN where it is: what lies beyond the end of a clip is cut off, not multiplied.
    return {
        name: (torch.where(inside > 0, above, 0.0), torch.where(inside > 0, below, 0.0))
        for name, (above, below) in terms.items()
    }


def _poses(state: MotionState, offsets: Tensor, index: list[int], body: Body) -> Tensor:
    """Return joints ``[N, H, J, 3]`` with the root at the origin and unturned, at the horizons."""
    chosen = MotionState(
        state.rotations[:, index], state.steps[:, index], state.heights[:, index], state.contacts[:, index]
    )
    return state_positions(chosen, offsets, body.parents, pose_only=True)


def _up_to(
    predicted: MotionState,
    truth: MotionState,
    known: MotionState,
    offsets: Tensor,
    contacts_known: Tensor,
    body: Body,
    horizons: Horizons,
) -> Terms:
    """Return the figures of all frames up to a horizon."""
    seam = known.part(known.frames - min(_SEAM, known.frames))
    joints, real = (state_positions(seam.then(state), offsets, body.parents) for state in (predicted, truth))
    jerk, real_jerk = (joint_jerk(places, body.fps) for places in (joints, real))
    six, real_six = (matrix_to_6d(state.rotations[:, :, 1:]).flatten(2) for state in (predicted, truth))
    skipped = truth.frames - jerk.shape[1]  # with two known frames the first has no jerk
    names = ("npss", "jerk_ratio", "contact_f1", "skate", TRUTH_SKATE)
    rows: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in names}
    for frame in horizons.frames:
        rows["npss"].append(npss_terms(six[:, :frame], real_six[:, :frame]))
        span = slice(0, max(0, frame - skipped))
        rows["jerk_ratio"].append((jerk[:, span].sum(1), real_jerk[:, span].sum(1)))
        rows["contact_f1"].append(f1_terms(predicted.contacts[:, :frame], truth.contacts[:, :frame]))
        if body.feet is not None:
            for name, places in (("skate", joints), (TRUTH_SKATE, real)):
                feet = places[:, seam.frames - 1 : seam.frames + frame, list(body.feet)]
                rows[name].append(slide_terms(feet, truth.contacts[:, :frame], body.fps))
    terms: Terms = {
        name: (
            torch.stack([numerator for numerator, _ in pairs], dim=1),
            torch.stack([denominator for _, denominator in pairs], dim=1),
        )
        for name, pairs in rows.items()
        if pairs
    }
    for name in ("contact_f1", "skate", TRUTH_SKATE):
        if name in terms:
            above, below = terms[name]
            terms[name] = above * contacts_known[:, None], below * contacts_known[:, None]
    return terms


@dataclass(frozen=True)
class Row:
    """Figures of one predictor, per clip."""

    sums: Mapping[str, tuple[Tensor, Tensor]]  # [C, H] above and below the fraction bar, by figure (`window_terms`)
    contact: Tensor  # [H, C, L] feet that stand, by the step of the predicted score, up to each horizon
    none: Tensor  # [H, C, L] feet that do not

    def figures(self, counts: Tensor) -> Figures:
        """Return every figure, each clip counted `counts` (``[B, C]``) times."""
        counts = counts.double()
        figures: Figures = {}
        for name, (above, below) in self.sums.items():
            under = counts @ below
            figures[name] = (counts @ above) / torch.where(under > 0, under, torch.nan)
        few = [auroc(part @ self.contact, part @ self.none) for part in counts.split(_DRAWS)]  # [H, B] each
        figures["contact_auroc"] = torch.cat(few, dim=1).T
        teacher = figures["teacher_geo_deg"]
        figures["free_teacher_ratio"] = figures["geo_deg"] / torch.where(teacher > 0, teacher, torch.nan)
        return figures


@dataclass(frozen=True)
class Measured:
    """Figures of a model and of the baselines."""

    values: Mapping[str, Mapping[str, Tensor]]  # by row and figure, [H]
    # The same, [2, H]: 95 % by bootstrap over takes, all rows with the same draws; empty for a single take
    intervals: Mapping[str, Mapping[str, Tensor]]
    horizons: Horizons  # where
    takes: int = 0  # takes that the clips are of
    # By row, [2, H]: the interval of the GeoDeg of the row ``model`` minus that of this one; empty without a model
    apart: Mapping[str, Tensor] = field(default_factory=dict)


def fit_baselines(
    data: ClipSet,  # skeleton and rate
    train: Windows | None,  # training windows; without any whole one there is no ``ridge`` and no ``nearest``
    *,
    command: bool = False,  # whether there will be a command
) -> dict[str, Predictor]:
    """Return the baselines that every table has."""
    skeleton = data.names, data.fps
    baselines: dict[str, Predictor] = {
        "hold": Extrapolation(*skeleton, keep=0.0),
        "velocity": Extrapolation(*skeleton, keep=1.0),
        "damped": Extrapolation(*skeleton, keep=DAMPED),
    }
    if train is not None and len(train.whole()):
        baselines["ridge"] = Ridge(*skeleton, train, command=command)
        baselines["nearest"] = Nearest(*skeleton, train, command=command)
    return baselines


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
        predictor: A model, or a baseline.
        windows: Windows of clips.
        body: Their skeleton.
        horizons: Frames to measure at.
        command: Give it the path of the truth.
        progress: Called with the number of windows done since its last call.
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


def measure(
    rows: Mapping[str, Row],  # by name; ``hold`` is what skill is measured against
    takes: Tensor,  # [C] int64 number of each clip's take, from 0
    horizons: Horizons,  # as in `measure_row`
    *,
    seed: int = 0,
) -> Measured:
    """Return figures with bootstrap intervals over takes, and the skill over ``hold``."""
    generator = torch.Generator().manual_seed(seed)
    many = int(takes.max()) + 1
    draws = torch.randint(many, (RESAMPLES, many), generator=generator)
    counts = torch.zeros(RESAMPLES, many).scatter_add_(1, draws, torch.ones(RESAMPLES, many))[:, takes]
    once = torch.ones(1, len(takes))
    values: dict[str, dict[str, Tensor]] = {}
    intervals: dict[str, dict[str, Tensor]] = {}
    drawn: dict[str, Tensor] = {}
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    hold = [rows["hold"].figures(sample)["geo_deg"] for sample in (once, counts)]
    for name, row in rows.items():
        both = [row.figures(sample) for sample in (once, counts)]
        for figures, still in zip(both, hold, strict=True):
            figures["skill"] = 1.0 - figures["geo_deg"] / still.clamp_min(_LEAST_STILL)
        values[name] = {figure: value[0] for figure, value in both[0].items()}
        if many > 1:
            drawn[name] = both[1]["geo_deg"]
            intervals[name] = {figure: torch.nanquantile(value, ends, dim=0) for figure, value in both[1].items()}
    model = drawn.pop(MODEL, None)
    apart = {} if model is None else {name: torch.nanquantile(model - row, ends, dim=0) for name, row in drawn.items()}
    return Measured(values, intervals, horizons, many, apart)


def predict_checked(predictor: Predictor, known: MotionState, frames: int, command: Tensor | None) -> MotionState:
    """Return a prediction, float64; refuse one of another shape or with values that are not finite."""
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
        if command:  # as long as the path of any other call; beyond the window it repeats the last step
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
        counted = torch.bincount(places[counts].flatten(), minlength=2 * clips * levels)
        scored[:, number] += counted.view(2, clips, levels)


def _per_clip(values: Tensor, windows: Windows) -> Tensor:
    clips = len(windows.offsets)
    return values.new_zeros(clips, values.shape[1]).index_add_(0, windows.clip, values)


def clip_errors(row: Row) -> Tensor:
    """Return GeoDeg of each clip, ``[C, H]`` degrees, mean over its windows; NaN if it ends before the horizon."""
    above, below = row.sums["geo_deg"]
    return above / torch.where(below > 0, below, torch.nan)


def by_error(
    errors: Tensor,  # [C, H] as `clip_errors` returns it; clips that end before that horizon are left out
    horizons: Horizons,
) -> list[int]:
    """Return the clips from the worst to the best at the furthest horizon that any of them reaches."""
    for place in sorted(range(len(horizons.frames)), key=horizons.frames.__getitem__, reverse=True):
        values = errors[:, place].tolist()
        reached = [clip for clip, value in enumerate(values) if math.isfinite(value)]
        if reached:
            return sorted(reached, key=lambda clip: -values[clip])
    return []


def chosen(order: Sequence[int]) -> list[int]:
    """Return places in an order from the worst to the best: the worst three, the middle one and the best.

    Example:
        >>> chosen(range(100)), chosen(range(3)), chosen([])
        ([0, 1, 2, 50, 99], [0, 1, 2], [])
    """
    last = len(order) - 1
    return sorted({*range(min(_WORST, len(order))), *((len(order) // 2, last) if order else ())})


def worst_document(
    rows: Mapping[str, Row], name: str, beside: str, windows: Windows, horizons: Horizons
) -> dict[str, Any]:
    """Return the worst clips of a predictor.

    Args:
        rows: By predictor.
        name: The predictor.
        beside: A baseline whose GeoDeg on the same clips is given as well.
        windows: Where it was measured.
        horizons: As in `measure_row`.

    Returns:
        ``of`` and ``beside``, the two names, and ``clips``, at most `LISTED`: ``clip``, ``windows``, ``geo_deg`` and
        ``beside`` by milliseconds.
    """
    errors, other = clip_errors(rows[name]), clip_errors(rows[beside])
    clips = [
        {
            "clip": windows.keys[clip],
            "windows": int((windows.clip == clip).sum()),
            "geo_deg": by_key(errors[clip], horizons),
            "beside": by_key(other[clip], horizons),
        }
        for clip in by_error(errors, horizons)[:LISTED]
    ]
    return {"of": name, "beside": beside, "clips": clips}


def by_key(values: Tensor, horizons: Horizons) -> dict[str, float | None]:
    """Return ``[H]`` values by milliseconds; None for one that is not finite."""
    return {key: finite(value) for key, value in zip(horizons.keys, values.tolist(), strict=True)}


def finite(value: float) -> float | None:
    """Return a value for a document: None if it is not finite."""
    return value if math.isfinite(value) else None
