"""Hand-made BVH files: a small one with every oddity, and persons."""

from __future__ import annotations

import math
from pathlib import Path

from motionkit.motion import HUMANML

NAMES = [
    "Hips",
    "LeftUpLeg",
    "RightUpLeg",
    "Spine",
    "LeftLeg",
    "RightLeg",
    "Spine1",
    "LeftFoot",
    "RightFoot",
    "Spine2",
    "LeftToeBase",
    "RightToeBase",
    "Neck",
    "LeftShoulder",
    "RightShoulder",
    "Head",
    "LeftArm",
    "RightArm",
    "LeftForeArm",
    "RightForeArm",
    "LeftHand",
    "RightHand",
]


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
