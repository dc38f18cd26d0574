"""Probes of an encoder's heads on held-out frames, compared with constant predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from motionkit.geometry import matrix_from_6d, matrix_from_rotvec, matrix_to_6d, matrix_to_rotvec
from motionkit.rigs import GAITS, soft_period
from motionkit.tracking import FEWEST, TOO_FEW, decimals, moved, table_of, word_of
from motionkit_predictor.data.clips import ClipSet, StateClip
from motionkit_predictor.encoder.network import FEET, PERIOD, MotionEncoder, frame_features, turn_residual, with_history

Period = Literal["hilbert", "edges"]

SURE = 0.5
"""Confidence of the true phase from which a foot is measured."""

_AT_ONCE = 8192
_RESAMPLES = 2000

_ROWS = (
    ("phase, degrees", "period_deg", "constant", "one phase for all frames", False),
    ("gait, accuracy", "gait_accuracy", "prior", "the most frequent gait", True),
    ("gait, balanced accuracy", "gait_balanced", "prior", "the most frequent gait", True),
    ("pose ahead, degrees", "pose_deg", "hold", "the pose held", False),
    ("pose ahead, degrees", "pose_deg", "velocity", "constant angular velocity", False),
)


@dataclass(frozen=True)
class Frames:
    """Frames of clips, one clip after the other, float32."""

    features: Tensor  # [F, 2 + 9 J] of `motionkit_predictor.encoder.network.frame_features`
    rows: Tensor  # [F, K] int64 frames that each is read with, its own first; they do not leave its clip
    period: Tensor  # [F, 4] soft period of the contacts
    confidence: Tensor  # [F, 2] of the period, left and right foot; 0 where contacts are not known
    gait: Tensor  # [F, 4] idle, walk, run, jump; rows of zeros where it is not known
    turns: Tensor  # [F, J, 6] turns to the pose ahead in 6D minus the identity; zeros where the clip ends before
    has_pose: Tensor  # [F] bool
    take: Tensor  # [F] int64, the number of its take, from 0: clips of one recording are not independent

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> Frames:
        """Return the frames on a device."""
        return Frames(*(getattr(self, field.name).to(device) for field in fields(self)))

    def inputs(self, index: Tensor) -> Tensor:
        """Return what the encoder reads of frames `index`, ``[N, D]``."""
        return with_history(self.features, self.rows[index], self.turns.shape[-2])


def frames_of(
    clips: ClipSet,  # the set that they are of
    chosen: Sequence[StateClip],  # its clips, at least one
    *,
    history: int,  # poses that a frame is read with
    ahead: int,  # frames to the pose ahead
    period: Period,  # definition of the phase; see `motionkit.rigs.soft_period`
) -> Frames:
    """Gather clips."""
    parts: list[tuple[Tensor, ...]] = []
    begin = 0
    takes: dict[str, int] = {}
    for clip in chosen:
        number = takes.setdefault(clip.take or clip.key, len(takes))
        state, count = clip.state, clip.state.frames
        place = torch.arange(count)
        rows = (place[:, None] - torch.arange(history)).clamp_min(0) + begin
        phase, sure = state.contacts.new_zeros(count, PERIOD), state.contacts.new_zeros(count, 2)
        if clip.contacts_known:
            phase, sure = soft_period(state.contacts, method=period, fps=clips.fps)
        later = (place + ahead).clamp_max(count - 1)
        has_pose = place + ahead < count
        turns = turn_residual(state.rotations[later] @ state.rotations.mT) * has_pose[:, None, None]
        features = frame_features(state, clips.fps)
        parts.append(
            (features, rows, phase, sure, clips.gait_of(clip), turns, has_pose, torch.full_like(place, number))
        )
        begin += count
    joined = (torch.cat(column) for column in zip(*parts, strict=True))
    return Frames(*(values.float() if values.is_floating_point() else values for values in joined))


@dataclass(frozen=True)
class Answers:
    """Predictions for frames."""

    phase: Tensor  # [F, 2] radians, left and right
    gait: Tensor  # [F] int64
    turns: Tensor  # [F, J, 3, 3] to the pose ahead


@dataclass(frozen=True)
class Sums:
    """Errors and hits, summed over the frames of each of C takes, float64."""

    angles: Tensor  # [C, 2] radians between phases, over feet whose phase is sure, and the number of these
    right: Tensor  # [C, 4] frames of each gait that are predicted right
    seen: Tensor  # [C, 4] frames of each gait
    poses: Tensor  # [C, 2] radians between poses ahead, over joints, and the number of these

    def drawn(self, times: Tensor) -> Sums:
        """Return the sums ``[R, ...]`` over takes that were drawn so many times, ``[R, C]`` each."""
        return Sums(times @ self.angles, times @ self.right, times @ self.seen, times @ self.poses)

    def figures(self) -> dict[str, Tensor]:
        """Return each figure ``[...]`` of sums ``[..., K]``; NaN if there is nothing to measure."""
        hits = (self.right / self.seen).nanmean(-1)  # a gait that is not seen is 0 / 0
        return {
            "period_deg": torch.rad2deg(self.angles[..., 0]) / self.angles[..., 1],
            "gait_accuracy": self.right.sum(-1) / self.seen.sum(-1),
            "gait_balanced": hits,
            "pose_deg": torch.rad2deg(self.poses[..., 0]) / self.poses[..., 1],
        }


_LEAST_PHASE, _LEAST_POSE = 1.0, 0.1
"""Degrees that a constant prediction is taken to be off at least: of clips that stand still it is exact."""


@dataclass(frozen=True)
class Probe:
    """Errors of an encoder and its baselines on the same frames."""

    encoder: Sums  # the encoder
    still: Sums  # a constant prediction: one phase, one gait, the pose held
    going: Sums  # the same, with a pose that turns on at a constant angular velocity

    @property
    def takes(self) -> int:
        """Number of takes."""
        return len(self.encoder.seen)

    def figures(self) -> dict[str, float]:
        """Return metrics ``encoder/...``, without those that have nothing to measure.

        Names with ``_constant``, ``_prior``, ``_hold`` and ``_velocity`` are of the baselines. ``encoder/skill`` is the
        mean of 1 - error / baseline's error over period, gait (1 - balanced accuracy) and pose (the pose held).
        """
        encoder, still, going = (
            {name: float(value) for name, value in sums.drawn(sums.seen.new_ones(len(sums.seen))).figures().items()}
            for sums in (self.encoder, self.still, self.going)
        )
        figures: dict[str, float] = {}
        skills: list[float] = []
        if math.isfinite(period := encoder["period_deg"]):
            figures |= {"encoder/period_deg": period, "encoder/period_deg_constant": still["period_deg"]}
            skills.append(1 - period / max(still["period_deg"], _LEAST_PHASE))
        if math.isfinite(share := encoder["gait_balanced"]):
            prior = still["gait_balanced"]
            figures |= {"encoder/gait_accuracy": encoder["gait_accuracy"], "encoder/gait_balanced": share}
            figures |= {"encoder/gait_accuracy_prior": still["gait_accuracy"], "encoder/gait_balanced_prior": prior}
            if prior < 1:  # else the frames show one gait, and nothing is told apart
                skills.append(1 - (1 - share) / (1 - prior))
        if math.isfinite(pose := encoder["pose_deg"]):
            figures |= {"encoder/pose_deg": pose, "encoder/pose_deg_hold": still["pose_deg"]}
            figures["encoder/pose_deg_velocity"] = going["pose_deg"]
            skills.append(1 - pose / max(still["pose_deg"], _LEAST_POSE))
        return {**figures, "encoder/skill": sum(skills) / max(1, len(skills))}

    def intervals(self, *, seed: int = 0) -> dict[str, tuple[float, float]]:
        """Return 95 % bootstrap intervals over takes of the encoder's figure minus a baseline's, by the latter.

        Figures of fewer than two takes have none.
        """
        clips = self.takes
        if clips < 2:
            return {}
        measured = {name: int(values.isfinite().sum()) for name, values in self.encoder.figures().items()}
        draw = torch.randint(clips, (_RESAMPLES, clips), generator=torch.Generator().manual_seed(seed))
        times = torch.zeros(_RESAMPLES, clips, dtype=torch.float64).scatter_add_(
            1, draw, torch.ones(draw.shape).double()
        )
        encoder, still, going = (sums.drawn(times).figures() for sums in (self.encoder, self.still, self.going))
        intervals = {}
        for figure, name, others in (
            ("period_deg", "constant", still), ("gait_accuracy", "prior", still), ("gait_balanced", "prior", still),
            ("pose_deg", "hold", still), ("pose_deg", "velocity", going),
        ):  # fmt: skip
            if measured[figure] > 1:
                apart = encoder[figure] - others[figure]
                apart = apart[apart.isfinite()]  # not of draws in which no clip has it
                low, high = torch.quantile(apart, apart.new_tensor([0.025, 0.975])).tolist()
                intervals[f"encoder/{figure}_{name}"] = (low, high)
        return intervals


@dataclass(frozen=True)
class Baseline:
    """A constant prediction for all frames."""

    phase: Tensor  # [2] radians: the mean direction of the training frames
    gait: int  # the most frequent gait of the training frames

    @classmethod
    def of(cls, frames: Frames) -> Baseline:
        """Measure training frames."""
        mean = (frames.period * frames.confidence.repeat(1, 2)).sum(0)
        return cls(phase_of(mean), int(frames.gait.sum(0).argmax()))


def phase_of(period: Tensor) -> Tensor:
    """Return the phase ``[..., 2]`` in radians of a soft period ``[..., 4]``."""
    return torch.atan2(period[..., :2], period[..., 2:])


def measure(encoder: MotionEncoder, frames: Frames, baseline: Baseline) -> Probe:
    """Measure an encoder, in eval mode, on held-out frames."""
    six = frames.turns.shape[-2:]
    identity = matrix_to_6d(torch.eye(3).to(frames.turns))
    scale = encoder.turn_std.unflatten(0, six)

    def ask(index: Tensor) -> Answers:
        hidden = encoder(frames.inputs(index))
        return Answers(
            phase_of(encoder.period(hidden)), encoder.gait(hidden).argmax(-1),
            matrix_from_6d(encoder.turns(hidden) * scale + identity),
        )  # fmt: skip

    def hold(index: Tensor) -> Answers:
        turns = torch.eye(3).to(frames.turns).expand(len(index), six[0], 3, 3)
        return Answers(
            baseline.phase.to(turns).expand(len(index), 2), index.new_full((len(index),), baseline.gait), turns
        )

    def moving(index: Tensor) -> Answers:
        velocity = frames.features[index, FEET : FEET + 3 * six[0]].unflatten(-1, (six[0], 3))
        turns = matrix_from_rotvec(velocity * (encoder.sizes.ahead / encoder.fps))
        still = hold(index)
        return Answers(still.phase, still.gait, turns)

    return Probe(*(_measured(answers_of, frames) for answers_of in (ask, hold, moving)))


@torch.no_grad()
def _measured(ask: Callable[[Tensor], Answers], frames: Frames) -> Sums:
    """Sum errors and hits, take by take."""
    clips = int(frames.take.max()) + 1 if len(frames) else 0
    angles, poses = (torch.zeros(clips, 2, dtype=torch.float64) for _ in range(2))
    right, seen = (torch.zeros(clips, len(GAITS), dtype=torch.float64) for _ in range(2))
    identity = matrix_to_6d(torch.eye(3).to(frames.turns))
    for index in torch.arange(len(frames), device=frames.rows.device).split(_AT_ONCE):
        answers, clip = ask(index), frames.take[index]
        sure = frames.confidence[index] >= SURE
        apart = answers.phase - phase_of(frames.period[index])
        apart = torch.atan2(apart.sin(), apart.cos()).abs() * sure
        _add(angles, clip, torch.stack([apart.sum(-1), sure.sum(-1)], dim=-1))
        known = frames.gait[index].sum(-1) > 0
        true = one_hot(frames.gait[index].argmax(-1), len(GAITS)) * known[:, None]
        _add(seen, clip, true)
        _add(right, clip, true * (answers.gait == frames.gait[index].argmax(-1))[:, None])
        goes_on = frames.has_pose[index]
        turns = matrix_from_6d(frames.turns[index][goes_on] + identity)
        between = matrix_to_rotvec(answers.turns[goes_on] @ turns.mT).norm(dim=-1)
        joints = torch.full_like(between[:, 0], between.shape[1])
        _add(poses, clip[goes_on], torch.stack([between.sum(-1), joints], dim=-1))
    return Sums(angles, right, seen, poses)


def _add(sums: Tensor, clip: Tensor, rows: Tensor) -> None:
    """Add rows ``[N, K]`` to the sums ``[C, K]`` of their clips."""
    sums.index_add_(0, clip.cpu(), rows.cpu().double())


Intervals = Mapping[str, tuple[float, float]]
"""By a baseline's metric, the 95 % interval of the encoder's figure minus the baseline's; see `Probe.intervals`."""


def probe_table(figures: Mapping[str, float], intervals: Intervals, takes: int, title: str) -> dict[str, Any]:
    """Return the figures of `Probe.figures` as a trainer's ``table``: a row per baseline; measured on so many takes."""
    rows = []
    for label, name, other, words, up in _compared(figures):
        ends, digits = intervals.get(other), decimals(figures[name], figures[other])
        shown = "" if ends is None else " to ".join(f"{round(end, digits) + 0.0:+.{digits}f}" for end in ends)
        verdict = _verdict(figures[name] - figures[other], ends, takes, digits, up=up)
        rows.append([label, f"{figures[name]:.{digits}f}", f"{figures[other]:.{digits}f}", words, shown, verdict])
    columns = ["held out", "encoder", "baseline", "what it says", "difference, 95 % interval", "the encoder is"]
    return table_of(title, columns, rows, (1, 2))


def probe_verdict(figures: Mapping[str, float], intervals: Intervals, takes: int) -> str:
    """Return one sentence: which baselines the encoder beats beyond the interval over takes."""
    rows = list(_compared(figures))
    if not rows:
        return "nothing could be measured: no validation clip has contacts, gaits or a pose ahead."
    if takes < FEWEST:
        held_out = "1 held-out take is" if takes == 1 else f"{takes} held-out takes are"
        return f"{held_out} too few to say whether the encoder beats its baselines."
    lost = [
        f"{words} ({label})"
        for label, name, other, words, up in rows
        if _verdict(
            figures[name] - figures[other], intervals.get(other), takes, decimals(figures[name], figures[other]), up=up
        )
        != "better"
    ]
    if not lost:
        return f"the encoder beats all {len(rows)} baselines on held-out clips."
    return f"the encoder does not beat {len(lost)} of {len(rows)} baselines on held-out clips: {', '.join(lost)}."


def _compared(figures: Mapping[str, float]) -> list[tuple[str, str, str, str, bool]]:
    """Return label, the encoder's metric, the baseline's, what the baseline says and whether more is better."""
    return [
        (label, f"encoder/{name}", f"encoder/{name}_{other}", words, up)
        for label, name, other, words, up in _ROWS
        if f"encoder/{name}" in figures
    ]


def _verdict(delta: float, ends: tuple[float, float] | None, takes: int, digits: int, *, up: bool) -> str:
    """Return the verdict on the encoder's figure minus the baseline's; a figure of one take alone has no interval."""
    if ends is None:
        return TOO_FEW
    return word_of(moved(delta, ends, takes, digits=digits), "up" if up else "down", n=takes)
