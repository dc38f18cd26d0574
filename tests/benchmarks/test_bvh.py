"""Reading BVH: from the file to every joint's place in the world, in frames per second of CPU time on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.formats.bvh import read_bvh, write_bvh

from .ratios import Ratios

PARENTS = (
    -1,
    0,
    1,
    2,
    3,
    4,
    0,
    6,
    7,
    8,
    9,
    0,
    11,
    12,
    13,
    14,
    15,
    13,
    17,
    18,
    19,
    20,
    21,
    19,
    13,
    24,
    25,
    26,
    27,
    28,
    26,
)
NAMES = (
    "Hips LHipJoint LeftUpLeg LeftLeg LeftFoot LeftToeBase RHipJoint RightUpLeg RightLeg RightFoot RightToeBase "
    "LowerBack Spine Spine1 Neck Neck1 Head LeftShoulder LeftArm LeftForeArm LeftHand LeftFingerBase LeftHandIndex1 "
    "LThumb RightShoulder RightArm RightForeArm RightHand RightFingerBase RightHandIndex1 RThumb"
)
FRAMES, GOAL = 2000, 0.7


def synthesise(path: Path) -> Path:
    """Write 31 joints, 96 channels and 5 end sites, numbers with six decimals, as CMU's files have them."""
    rng = np.random.default_rng(0)
    names = NAMES.split(" ")
    bones = rng.uniform(5, 25, (31, 3)) * np.where([name.endswith(("Leg", "Foot")) for name in names], -1, 1)[:, None]
    lines = ["HIERARCHY"]

    def joint(index: int) -> None:
        places = "6 Xposition Yposition Zposition" if index == 0 else "3"
        lines.extend([f"{'JOINT' if index else 'ROOT'} {names[index]}", "{"])
        lines.append("OFFSET " + " ".join(f"{value:.6f}" for value in bones[index]))
        lines.append(f"CHANNELS {places} Zrotation Yrotation Xrotation")
        children = [child for child, parent in enumerate(PARENTS) if parent == index]
        for child in children:
            joint(child)
        if not children:
            lines.extend(["End Site", "{", "OFFSET 0.0 1.0 0.0", "}"])
        lines.append("}")

    joint(0)
    lines += ["MOTION", f"Frames: {FRAMES}", "Frame Time: 0.0083333"]
    time_ = np.arange(FRAMES)[:, None] / 120
    values = 60 * np.sin(rng.uniform(0, 6, 96) + time_ * rng.uniform(0.5, 4, 96))
    lines += [" ".join(f"{value:.6f}" for value in row) for row in values]
    path.write_text("\n".join(lines) + "\n")
    return path


def fastest(rows: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Return the least CPU time of each row; rows take turns, so that a slow spell of the machine hits all."""
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(times):
        for row, work in rows.items():
            started = time.process_time()
            work()
            best[row] = min(best[row], time.process_time() - started)
    return best


@pytest.mark.benchmark
def test_reading(tmp_path: Path, ratios: Ratios, capsys: pytest.CaptureFixture[str]) -> None:
    pybvh = pytest.importorskip("pybvh", reason="pip install motionkit[bench]")
    torch.set_num_threads(1)
    path = synthesise(tmp_path / "a.bvh")

    def ours() -> torch.Tensor:
        (clip,) = read_bvh(path)
        return clip.motion.positions()

    def theirs() -> np.ndarray:
        return pybvh.read_bvh_file(path, world_up="+y").node_positions()

    (clip,) = read_bvh(path)
    metres = {"inches": 0.0254, "centimetres": 0.01}[clip.notes["unit"]]
    np.testing.assert_allclose(ours().numpy(), metres * theirs(), atol=1e-5)
    group = f"BVH to joint positions, {FRAMES} frames of 31 joints, one thread"
    best = fastest({"pybvh": theirs, "motionkit": ours}, 15)
    for row, seconds in best.items():
        ratios.add(group, row, seconds)
    with capsys.disabled():
        print("".join(f"\n{row}: {FRAMES / seconds:,.0f} frames/s" for row, seconds in best.items()))  # noqa: T201
    assert ratios.of(group, "motionkit") >= GOAL
    write = fastest({"write": lambda: write_bvh(tmp_path / "b.bvh", clip.motion)}, 3)["write"]
    with capsys.disabled():
        print(f"written: {FRAMES / write:,.0f} frames/s")  # noqa: T201
