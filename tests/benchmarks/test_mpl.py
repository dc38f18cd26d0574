"""The predictor's data: exported JSON to npz, and contacts, against the same work frame by frame."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.formats.mpl import write_mpl_npz
from motionkit.formats.mpl.fields import UNREAL
from motionkit.formats.mpl.npz import read_mpl_npz
from motionkit.formats.mpl.read_json import read_mpl_json
from motionkit.starter import OFFSETS, PARENTS, generate

from .ratios import Ratios

FRAMES, GOAL = 600, 2.0


def synthesise(path: Path) -> Path:
    """Write a walk of the starter as the exporter does: X and Z columns, Unreal's axes, 60 frames per second."""
    clip = generate("walk", frames=FRAMES, fps=60.0, seed=1)
    rotations = UNREAL.turns_back(torch.from_numpy(clip.rotations)).numpy()
    places = UNREAL.points_back(torch.from_numpy(clip.root)).numpy()
    skeleton = {
        "bone_names": [f"bone{k}" for k in range(len(PARENTS))],
        "parents": PARENTS,
        "ref_local_offsets_m": UNREAL.points_back(torch.from_numpy(OFFSETS)).tolist(),
    }
    frames = [
        {
            "RootPosition": places[t].tolist(),
            "RootYaw": t / 300,
            "RootVelocityXY": [0.0, 0.0],
            "BoneRotations": [[*R[:, 0], *R[:, 2]] for R in rotations[t]],
            "FootEvidence": {"L": {"soft_contact_score": 0.9}, "R": {"soft_contact_score": 0.1}},
        }
        for t in range(FRAMES)
    ]
    spec = {"columns": ["X", "Z"], "order": "A_then_B", "matrix_layout": "columns_are_axes"}
    path.write_text(json.dumps({"FPS": 60, "meta": {"skeleton": skeleton, "rot6d_spec": spec}, "Frames": frames}))
    return path


def plain(path: Path) -> np.ndarray:
    """Positions of all joints, one rotation at a time."""
    document = json.loads(path.read_text())
    skeleton = document["meta"]["skeleton"]
    offsets = np.array(skeleton["ref_local_offsets_m"])
    out = np.zeros((len(document["Frames"]), len(offsets), 3))
    for t, frame in enumerate(document["Frames"]):
        c, s = np.cos(frame["RootYaw"]), np.sin(frame["RootYaw"])
        worlds = []
        for bone, six in enumerate(frame["BoneRotations"]):
            x, z = np.array(six[:3]), np.array(six[3:])
            x = x / np.linalg.norm(x)
            z = z - (x @ z) * x
            z = z / np.linalg.norm(z)
            local = np.stack([x, np.cross(z, x), z], axis=1)
            parent = skeleton["parents"][bone]
            above = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]]) if parent < 0 else worlds[parent]
            base = np.array(frame["RootPosition"]) if parent < 0 else out[t, parent]
            out[t, bone] = base + above @ offsets[bone]
            worlds.append(above @ local)
    return np.stack([-out[..., 1], out[..., 2], out[..., 0]], axis=-1)


def fastest(work: Callable[[], object], times: int = 3) -> float:
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.benchmark
def test_reading(tmp_path: Path, ratios: Ratios, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    path = synthesise(tmp_path / "clip.json")
    (clip,) = read_mpl_json(path)
    np.testing.assert_allclose(clip.motion.positions().numpy(), plain(path), atol=1e-9)
    group = f"exported JSON to joint positions, {FRAMES} frames of {len(PARENTS)} bones, one thread"
    ratios.add(group, "rotation by rotation", fastest(lambda: plain(path)))
    ratios.add(group, "json.loads alone", fastest(lambda: json.loads(path.read_text())))
    ratios.add(group, "motionkit", fastest(lambda: read_mpl_json(path)[0].motion.positions()))
    npz = tmp_path / "clip.npz"
    rows = {
        "read JSON": ratios.groups[group]["motionkit"],
        "write npz": fastest(lambda: write_mpl_npz(npz, clip, source_hash="")),
        "read npz": fastest(lambda: read_mpl_npz(npz)),
    }
    with capsys.disabled():
        print("".join(f"\n{row}: {FRAMES / seconds:,.0f} frames/s" for row, seconds in rows.items()))  # noqa: T201
    assert ratios.of(group, "motionkit") >= GOAL
