"""The Unitree G1 as MuJoCo has it: qpos, a place, a quaternion and 29 hinge angles, also as Kimodo's CSV.

A network's rotations of the G1 are free in three directions; a hinge has one. `hinge_angles` reduces them. The rotation
L of a joint from its parent follows from its angle q: ``L = M^T exp(q M a)``, with the hinge's axis a and its mount M,
the inverse of the link's rotation at rest in the robot file; M is the identity for most joints.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_quaternion, matrix_from_rotvec, matrix_to_quaternion, matrix_to_rotvec
from motionkit.runs import write_bytes_atomic
from motionkit_policy_kimodo.formats import COLUMNS
from motionkit_policy_kimodo.skeletons import body, table

TO_MUJOCO = ((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
"""Kimodo's z, x and y are MuJoCo's x, y and z."""


@cache
def hinges() -> tuple[list[int], Tensor, Tensor, Tensor]:
    """Return the joints of the hinges, their mounts ``[29, 3, 3]``, axes ``[29, 3]`` (M a) and limits ``[29, 2]``."""
    names, rows = body("g1").joint_names, table("g1")["hinges"]
    turns = [table("g1")["mounts"].get(row["joint"], [0.0, 0.0, 0.0]) for row in rows]
    mounts = matrix_from_rotvec(torch.tensor(turns, dtype=torch.float64))
    axes = torch.eye(3, dtype=torch.float64)[["xyz".index(row["axis"]) for row in rows]]
    limits = torch.tensor([[row["low"], row["high"]] for row in rows], dtype=torch.float64)
    return [names.index(row["joint"]) for row in rows], mounts, (mounts @ axes[..., None]).squeeze(-1), limits


def robot_axes() -> Tensor:
    """Return the axes ``[29, 3]`` of the robot's hinges, a: a link turns in its own frame, ``L = M^T exp(q a)``.

    MuJoCo, which moves the robot itself, turns it so. Kimodo turns it about M a there: another axis at four hinges, the
    roll of the hips and the pitch of the shoulders, whose mounts are tilted by 10 and 16 degrees.
    """
    _, mounts, axes, _ = hinges()
    return (mounts.mT @ axes[..., None]).squeeze(-1)


def hinge_angles(local: Tensor, *, exported: bool = False) -> Tensor:
    """Return the angles ``[..., 29]`` in radians that are nearest to free rotations, not clamped; differentiable.

    Args:
        local: ``[..., 34, 3, 3]``, each from its parent.
        exported: As Kimodo's CSV has them: by the angles about x, y and z in place of the rotation vector. Both are the
            same for a rotation about an axis of the body.
    """
    axes = hinges()[2].to(local)
    if not exported:
        return (_vectors(local) * axes).sum(-1)
    turned, pairs = _turned(local), ((2, 1, 2, 2), (0, 2, 0, 0), (1, 0, 1, 1))
    angles = [torch.atan2(turned[..., a, b], turned[..., c, d]) for a, b, c, d in pairs]
    return (torch.stack(angles, dim=-1) * axes).sum(-1)


def off_hinges(local: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far free rotations are off the axes of the robot's hinges and past their limits; differentiable.

    Args:
        local: ``[..., 34, 3, 3]``, each from its parent.

    Returns:
        ``[..., 29]`` radians each: the rotation across the axis, and what an angle is past a limit.
    """
    vectors, axes = _vectors(local), robot_axes().to(local)
    angles = (vectors * axes).sum(-1)
    low, high = hinges()[3].to(local).unbind(-1)
    return (vectors - angles[..., None] * axes).norm(dim=-1), (low - angles).relu() + (angles - high).relu()


def _turned(local: Tensor) -> Tensor:
    """Return the rotations ``[..., 29, 3, 3]`` of links from their rest in the robot file."""
    joints, mounts, _, _ = hinges()
    return mounts.to(local) @ local[..., joints, :, :]


def _vectors(local: Tensor) -> Tensor:
    """Return their rotation vectors ``[..., 29, 3]``."""
    return matrix_to_rotvec(_turned(local))


def from_angles(angles: Tensor, root: Tensor, *, robot: bool = False) -> Tensor:
    """Return rotations from the parents ``[..., 34, 3, 3]``, by Kimodo's axes or by those of the robot itself.

    Args:
        angles: ``[..., 29]`` radians.
        root: ``[..., 3, 3]``, the rotation of the root.
        robot: By `robot_axes`.
    """
    joints, mounts, axes, _ = hinges()
    axes = robot_axes() if robot else axes
    made = torch.eye(3).to(angles).repeat(*angles.shape[:-1], len(body("g1")), 1, 1)
    made[..., joints, :, :] = mounts.mT.to(angles) @ matrix_from_rotvec(angles[..., None] * axes.to(angles))
    made[..., 0, :, :] = root
    return made


def projected(local: Tensor, *, clamp: bool = False) -> Tensor:
    """Return rotations ``[..., 34, 3, 3]`` that the robot can take, nearest to free ones; `clamp` keeps the limits."""
    angles = hinge_angles(local)
    if clamp:
        low, high = hinges()[3].to(angles).unbind(-1)
        angles = angles.clamp(low, high)
    return from_angles(angles, local[..., 0, :, :])


def on_robot(local: Tensor) -> Tensor:
    """Return rotations ``[..., 34, 3, 3]`` of the robot itself, nearest to free ones, not clamped; differentiable."""
    return from_angles((_vectors(local) * robot_axes().to(local)).sum(-1), local[..., 0, :, :], robot=True)


def to_qpos(local: Tensor, root: Tensor, *, exported: bool = True) -> Tensor:
    """Return qpos ``[..., 36]`` of rotations from the parents ``[..., 34, 3, 3]`` and root places ``[..., 3]``."""
    axes = torch.tensor(TO_MUJOCO).to(local)
    quaternion = matrix_to_quaternion(axes @ local[..., 0, :, :] @ axes.mT)
    quaternion = torch.where(quaternion[..., :1] < 0, -quaternion, quaternion)
    return torch.cat([root @ axes.mT, quaternion, hinge_angles(local, exported=exported)], dim=-1)


def from_qpos(qpos: Tensor) -> tuple[Tensor, Tensor]:
    """Return rotations from the parents ``[..., 34, 3, 3]`` and root places ``[..., 3]`` of qpos ``[..., 36]``."""
    axes = torch.tensor(TO_MUJOCO).to(qpos)
    root = axes.mT @ matrix_from_quaternion(qpos[..., 3:7]) @ axes
    return from_angles(qpos[..., 7:], root), qpos[..., :3] @ axes


def write_qpos(path: Path, qpos: Tensor) -> None:
    """Write qpos ``[T, 36]`` as Kimodo's CSV: no header, 30 rows a second."""
    lines = (",".join(f"{value:.9g}" for value in row) + "\n" for row in qpos.tolist())
    write_bytes_atomic(path, "".join(lines).encode())


def read_qpos(path: Path) -> Tensor:
    """Read Kimodo's CSV of the G1, ``[T, 36]`` float64."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        try:
            row = [float(value) for value in line.split(",")]
        except ValueError:
            row = []
        if len(row) != COLUMNS or not all(map(math.isfinite, row)):
            raise MotionkitError(
                f"{path}: line {number} has {len(line.split(','))} columns, or one that is no number.",
                why=f"MuJoCo's qpos of the G1 has {COLUMNS}: place, quaternion (w first), 29 angles; no header.",
                fix="write it with Kimodo, or with motionkit.",
            )
        rows.append(row)
    if not rows:
        raise MotionkitError(f"{path} is empty.", fix="write it again.")
    qpos = torch.tensor(rows, dtype=torch.float64)
    if not bool((qpos[:, 3:7].norm(dim=-1) > 0.1).all()):
        raise MotionkitError(f"{path} has a quaternion of length 0.", fix="columns 4 to 7 are a quaternion, w first.")
    return qpos
