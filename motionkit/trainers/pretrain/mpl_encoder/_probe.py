"""What an encoder says of held-out frames, measured beside what saying the same of every frame would reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.encoders.mpl import FEET, MotionEncoder
from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit.rigs import GAITS
from motionkit.trainers.pretrain.mpl_encoder._frames import Frames

SURE = 0.5
"""Confidence of the true phase from which a foot is measured."""

_AT_ONCE = 8192


@dataclass(frozen=True)
class Answers:
    """What is said of frames.

    Attributes:
        phase: ``[F, 2]`` radians, left and right.
        gait: ``[F]`` int64.
        turns: ``[F, J, 3, 3]`` to the pose ahead.
    """

    phase: Tensor
    gait: Tensor
    turns: Tensor


@dataclass(frozen=True)
class Baseline:
    """What is said of every frame alike.

    Attributes:
        phase: ``[2]`` radians: the mean direction of the training frames.
        gait: The most frequent gait of the training frames.
    """

    phase: Tensor
    gait: int

    @classmethod
    def of(cls, frames: Frames) -> Baseline:
        """Measure training frames."""
        mean = (frames.period * frames.confidence.repeat(1, 2)).sum(0)
        return cls(phase_of(mean), int(frames.gait.sum(0).argmax()))


def phase_of(period: Tensor) -> Tensor:
    """Return the phase ``[..., 2]`` in radians of a soft period ``[..., 4]``."""
    return torch.atan2(period[..., :2], period[..., 2:])


def probe(encoder: MotionEncoder, frames: Frames, baseline: Baseline) -> dict[str, float]:
    """Measure an encoder on held-out frames.

    Args:
        encoder: In eval mode.
        frames: Frames, on its device.
        baseline: Of the training frames.

    Returns:
        Metrics ``encoder/...``; those without anything to measure are left out. Names with ``_constant``, ``_prior``,
        ``_hold`` and ``_velocity`` are of the baselines. ``encoder/skill`` is the mean of 1 - error / baseline's error
        over period, gait (1 - balanced accuracy) and pose (the pose held).
    """
    six = frames.turns.shape[-2:]
    identity = matrix_to_6d(torch.eye(3).to(frames.turns))
    scale = encoder.turn_std.unflatten(0, six)

    def ask(index: Tensor) -> Answers:
        hidden = encoder(frames.inputs(index))
        return Answers(
            phase_of(encoder.period(hidden)), encoder.gait(hidden).argmax(-1),
            matrix_from_6d(encoder.turns(hidden) * scale + identity),
        )  # fmt: skip

    def held(index: Tensor) -> Answers:
        turns = torch.eye(3).to(frames.turns).expand(len(index), six[0], 3, 3)
        return Answers(
            baseline.phase.to(turns).expand(len(index), 2), index.new_full((len(index),), baseline.gait), turns
        )

    def moving(index: Tensor) -> Answers:
        import roma

        velocity = frames.features[index, FEET : FEET + 3 * six[0]].unflatten(-1, (six[0], 3))
        turns: Tensor = roma.rotvec_to_rotmat(velocity * (encoder.sizes.ahead / encoder.fps))
        still = held(index)
        return Answers(still.phase, still.gait, turns)

    own, still, going = (_measured(each, frames) for each in (ask, held, moving))
    found: dict[str, float] = {}
    skills: list[float] = []
    if (period := own["period_deg"]) is not None and (constant := still["period_deg"]) is not None:
        found |= {"encoder/period_deg": period, "encoder/period_deg_constant": constant}
        skills.append(1 - period / max(constant, 1e-9))
    if (share := own["gait_balanced"]) is not None and (prior := still["gait_balanced"]) is not None:
        found |= {"encoder/gait_accuracy": own["gait_accuracy"] or 0.0, "encoder/gait_balanced": share}
        found |= {"encoder/gait_accuracy_prior": still["gait_accuracy"] or 0.0, "encoder/gait_balanced_prior": prior}
        if prior < 1:  # else the frames show one gait, and nothing is told apart
            skills.append(1 - (1 - share) / (1 - prior))
    if (pose := own["pose_deg"]) is not None and (hold := still["pose_deg"]) is not None:
        found |= {"encoder/pose_deg": pose, "encoder/pose_deg_hold": hold}
        found["encoder/pose_deg_velocity"] = going["pose_deg"] or 0.0
        skills.append(1 - pose / max(hold, 1e-9))
    return {**found, "encoder/skill": sum(skills) / max(1, len(skills))}


@torch.no_grad()
def _measured(ask: Callable[[Tensor], Answers], frames: Frames) -> dict[str, float | None]:
    """Return the figures of answers; None where no frame can be measured."""
    angles = torch.zeros(2, dtype=torch.float64)
    poses = torch.zeros(2, dtype=torch.float64)
    right, seen = (torch.zeros(len(GAITS), dtype=torch.float64) for _ in range(2))
    identity = matrix_to_6d(torch.eye(3).to(frames.turns))
    for index in torch.arange(len(frames), device=frames.rows.device).split(_AT_ONCE):
        answers = ask(index)
        sure = frames.confidence[index] >= SURE
        apart = answers.phase - phase_of(frames.period[index])
        apart = torch.atan2(apart.sin(), apart.cos()).abs()[sure]
        angles += torch.stack([apart.sum(), sure.sum()]).cpu().double()
        known = frames.gait[index].sum(-1) > 0
        true = frames.gait[index][known].argmax(-1)
        hit = answers.gait[known] == true
        seen += torch.bincount(true, minlength=len(GAITS)).cpu().double()
        right += torch.bincount(true[hit], minlength=len(GAITS)).cpu().double()
        goes_on = frames.has_pose[index]
        turns = matrix_from_6d(frames.turns[index][goes_on] + identity)
        between = _angle(answers.turns[goes_on] @ turns.mT)
        poses += torch.tensor([float(between.sum()), between.numel()], dtype=torch.float64)
    present = seen > 0
    return {
        "period_deg": _share(math.degrees(angles[0]), angles[1]),
        "gait_accuracy": _share(right.sum(), seen.sum()),
        "gait_balanced": float((right[present] / seen[present]).mean()) if bool(present.any()) else None,
        "pose_deg": _share(math.degrees(poses[0]), poses[1]),
    }


def _angle(rotations: Tensor) -> Tensor:
    """Return the angles of rotations ``[..., 3, 3]``, in radians."""
    import roma

    angle: Tensor = roma.rotmat_to_rotvec(rotations).norm(dim=-1)
    return angle


def _share(total: float | Tensor, count: Tensor) -> float | None:
    return float(total) / float(count) if float(count) else None
