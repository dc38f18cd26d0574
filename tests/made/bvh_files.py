"""Hand-made BVH files: a small one with every oddity, and persons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import roma
import torch

from motionkit.motion import HUMANML

NAMES = [
    "Hips", "LeftUpLeg", "RightUpLeg", "Spine", "LeftLeg", "RightLeg", "Spine1", "LeftFoot", "RightFoot", "Spine2",
    "LeftToeBase", "RightToeBase", "Neck", "LeftShoulder", "RightShoulder", "Head", "LeftArm", "RightArm",
    "LeftForeArm", "RightForeArm", "LeftHand", "RightHand",
]  # fmt: skip


def write_bvh(
    path: Path, frames: int = 150, *, fps: float = 60.0, speed: float = 1.0, spoil: str = "", rest: bool = False
) -> Path:
    """Write a person who walks, in centimetres."""
    lines = ["HIERARCHY"]
    order: list[int] = []

    def joint(index: int, depth: int) -> None:
        pad = "  " * depth
        order.append(index)
        x, y, z = (100 * value for value in HUMANML.target_offsets[index])
        lines.append(f"{pad}{'JOINT' if depth else 'ROOT'} {NAMES[index]}")
        lines.append(f"{pad}{{")
        lines.append(f"{pad}OFFSET {x:.4f} {y:.4f} {z:.4f}")
        place = "Xposition Yposition Zposition " if depth == 0 else ""
        lines.append(f"{pad}CHANNELS {3 if depth else 6} {place}Zrotation Xrotation Yrotation")
        for child, parent in enumerate(HUMANML.parents):
            if parent == index:
                joint(child, depth + 1)
        lines.append(f"{pad}}}")

    joint(0, 0)
    lines += ["MOTION", f"Frames: {frames}", f"Frame Time: {1 / fps:.7f}"]
    for frame in range(frames):
        time = frame / fps
        row = [0.0, 95.0, 100.0 * speed * time]
        for index in order:
            swing = {4: 20, 5: -20, 1: -25, 2: 25, 16: 30, 17: -30}.get(index, 3) * math.sin(6 * time)
            row += [2 * math.sin(3 * time + index), swing, 0.0]
        lines.append(" ".join(f"{value:.5f}" for value in row))
    if rest:
        arms = {16: 90.0, 17: -90.0}
        place = [value for index in order for value in (arms.get(index, 0.0), 0.0, 0.0)]
        lines[-frames] = " ".join(map(str, [0.0, 95.0, 0.0, *place]))
    if spoil:
        lines[-3] = lines[-3].replace(lines[-3].split()[0], spoil, 1)
    path.write_text("\n".join(lines) + "\n")
    return path


ODD = """HIERARCHY
ROOT My Hips
{
  OFFSET 1.0 2.0 3.0
  CHANNELS 6 Zrotation Xposition Yrotation Yposition Xrotation Zposition
  JOINT Spine
  {
    OFFSET 0.0 10.0 1.0
    CHANNELS 3 Yrotation Xrotation Zrotation
    JOINT Hinge
    {
      OFFSET 2.0 5.0 -1.0
      CHANNELS 1 Xrotation
      JOINT Slider
      {
        OFFSET 0.5 0.5 0.5
        CHANNELS 6 Xposition Yposition Zposition Xrotation Zrotation Yrotation
        End Site
        {
          OFFSET 0 3 4
        }
      }
    }
    JOINT Fixed
    {
      OFFSET -1 -2 0
      End Site
      {
        OFFSET 0 -1 0
      }
    }
  }
}
MOTION
Frames: 3
Frame Time: 0.0083333
"""

ROWS = [
    [10, 1, 20, 2, 30, 3, 5, 15, 25, 45, 0.1, 0.2, 0.3, 11, 22, 33],
    [-170, 1.5, 95, 2.5, -60, 3.5, 100, -45, 5, -80, 0.4, 0.5, 0.6, 77, -22, 130],
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
]


def write_odd(path: Path, head: str = ODD, rows: list[list[float]] = ROWS) -> Path:
    """Write `rows` of 16 channels below a hierarchy that has every oddity BVH allows."""
    path.write_text(head + "\n".join(" ".join(map(str, row)) for row in rows) + "\n")
    return path


def person(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local rotations ``[T, 22, 3, 3]`` and root places ``[T, 3]`` in metres, Y up, of someone who moves everything."""
    phase = np.arange(22)[None, :, None] * np.array([1.0, 2.3, 0.7])
    vectors = 0.5 * np.sin(phase + 2.0 * times[:, None, None] * (1 + 0.02 * phase))
    vectors[:, 0] += np.stack([0 * times, 0.6 * times, 0 * times], axis=1)
    place = np.stack([0.3 * np.sin(times), 0.95 + 0.03 * np.cos(3 * times), 0.8 * times], axis=1)
    return roma.rotvec_to_rotmat(torch.from_numpy(vectors)).numpy(), place


def person_joints(times: np.ndarray) -> np.ndarray:
    """Joints ``[T, 22, 3]`` of `person`, one joint after another."""
    rotations, place = person(times)
    world, joints = np.zeros_like(rotations), np.zeros((len(times), 22, 3))
    for joint, parent in enumerate(HUMANML.parents):
        if parent < 0:
            world[:, joint], joints[:, joint] = rotations[:, joint], place
        else:
            world[:, joint] = world[:, parent] @ rotations[:, joint]
            joints[:, joint] = joints[:, parent] + world[:, parent] @ PERSON_BONES[joint]
    return joints


PERSON_BONES = np.array(HUMANML.target_offsets) + 0.01 * np.sin(np.arange(66)).reshape(22, 3)


@dataclass(frozen=True)
class Dialect:
    """How a program writes BVH.

    Attributes:
        orders: Rotation orders, taken in turn by the joints.
        metres: Metres per unit.
        fps: Frames per second.
        up: Vertical axis.
        names: Names of the 22 joints.
        fingers: Number of joints that hang on the hands besides.
        moving: All joints have position channels.
        rest: The first frame is a T-pose at the origin.
        turns_first: Rotation channels come before position channels.
    """

    orders: tuple[str, ...] = ("ZYX",)
    metres: float = 0.01
    fps: float = 60.0
    up: str = "y"
    names: tuple[str, ...] = tuple(NAMES)
    fingers: int = 0
    moving: bool = False
    rest: bool = False
    turns_first: bool = False


def write_dialect(path: Path, dialect: Dialect, seconds: float = 1.0) -> Path:
    """Write `person` the way a program would."""
    times = np.arange(round(seconds * dialect.fps) + 1) / dialect.fps
    rotations, place = person(times)
    bones = PERSON_BONES.copy()
    if dialect.up == "z":
        turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
        rotations, place, bones = turn @ rotations @ turn.T, place @ turn.T, bones @ turn.T
    names, parents = list(dialect.names), list(HUMANML.parents)
    for finger in range(dialect.fingers):
        names.append(f"{('Left', 'Right')[finger % 2]}Finger{finger // 2}")
        parents.append(20 + finger % 2)
    bones = np.concatenate([bones, np.full((dialect.fingers, 3), 0.03)]) / dialect.metres
    lines, columns = ["HIERARCHY"], []

    def joint(index: int, depth: int) -> None:
        pad = "\t" * depth
        order = dialect.orders[index % len(dialect.orders)]
        turns = [f"{axis}rotation" for axis in order]
        moves = [f"{axis}position" for axis in "XYZ"] if depth == 0 or dialect.moving else []
        channels = turns + moves if dialect.turns_first else moves + turns
        offset = bones[index] if depth else np.zeros(3)
        lines.extend([f"{pad}{'JOINT' if depth else 'ROOT'} {names[index]}", f"{pad}{{"])
        lines.append(f"{pad}\tOFFSET " + " ".join(f"{value:.8f}" for value in offset))
        lines.append(f"{pad}\tCHANNELS {len(channels)} {' '.join(channels)}")
        turned = np.tile(np.eye(3), (len(times), 1, 1)) if index >= 22 else rotations[:, index]
        angles = roma.rotmat_to_euler(order, torch.from_numpy(turned), degrees=True).numpy()
        where = place / dialect.metres if depth == 0 else np.tile(bones[index], (len(times), 1))
        if dialect.rest:
            angles[0], where[0] = 0.0, where[0] * (depth > 0)
        if moves:
            columns.extend([angles, where] if dialect.turns_first else [where, angles])
        else:
            columns.append(angles)
        children = [child for child, parent in enumerate(parents) if parent == index]
        for child in children:
            joint(child, depth + 1)
        if not children:
            lines.extend(
                [f"{pad}\tEnd Site", f"{pad}\t{{", f"{pad}\t\tOFFSET 0 {0.05 / dialect.metres} 0", f"{pad}\t}}"]
            )
        lines.append(f"{pad}}}")

    joint(0, 0)
    lines += ["MOTION", f"Frames: {len(times)}", f"Frame Time: {1 / dialect.fps:.6f}"]
    lines += [" ".join(f"{value:.8f}" for value in row) for row in np.concatenate(columns, axis=1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
