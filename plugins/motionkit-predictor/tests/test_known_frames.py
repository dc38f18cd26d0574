"""Known frames without torch, of BVH files and poses, against those that the toolkit makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.formats.bvh import write_bvh
from motionkit.formats.mpl.conventions import UNREAL
from motionkit.geometry import matrix_to_6d, matrix_to_quaternion
from motionkit.motion import HUMANML, Motion
from motionkit.starter import OFFSETS, PARENTS, generate
from motionkit_predictor.data.clips import ClipSet, motion_state
from motionkit_predictor.data.files import open_clip_set
from motionkit_predictor.export import bvh_file, known_frames
from motionkit_predictor.export.bvh_file import parse_bvh, read_bvh
from motionkit_predictor.export.known_frames import Body, Known
from motionkit_predictor.export.write import legend
from motionkit_predictor.network.features import Statistics, pack
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import MotionState

SHAPE = PredictorSettings(head="delta", width=16, heads=1, window=1, lags=(0.0333,))


def body(names: tuple[str, ...], parents: tuple[int, ...], offsets: Tensor, fps: float = 30.0) -> Body:
    network = PredictorNetwork(SHAPE, len(names), fps, Statistics.neutral(len(names)))
    predictor = MplPredictor(SHAPE, network, names=names, parents=parents, offsets=offsets)
    return Body(json.loads(json.dumps(legend(predictor))))


def walk(fps: float, action: str = "walk") -> Motion:
    made = generate(action, fps=fps, frames=round(3 * fps), seed=1)
    offsets = torch.from_numpy(OFFSETS.copy())
    translations = offsets.repeat(len(made.root), 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    return Motion(HUMANML.joint_names, PARENTS, offsets, torch.from_numpy(made.rotations), translations, fps)


STARTER = body(HUMANML.joint_names, PARENTS, torch.from_numpy(OFFSETS.copy()))


def same(found: Known, wanted: MotionState, *, atol: float = 1e-6) -> None:
    parts = (wanted.rotations, wanted.steps, wanted.heights, wanted.contacts)
    for one, other in zip(found, parts, strict=True):
        torch.testing.assert_close(torch.from_numpy(one), other.double(), atol=atol, rtol=0)


def as_toolkit(file: Path, names: tuple[str, ...], fps: float = 30.0) -> ClipSet:
    return open_clip_set([str(file)], fps).in_order(names)


@pytest.mark.parametrize(("action", "fps"), [("walk", 30.0), ("walk", 60.0), ("jump", 24.0)])
def test_a_bvh_file_gives_what_the_toolkit_reads(action: str, fps: float, tmp_path: Path) -> None:
    write_bvh(tmp_path / "clip.bvh", walk(fps, action))
    wanted = as_toolkit(tmp_path / "clip.bvh", STARTER.names)
    assert wanted.names == STARTER.names
    same(STARTER.of_rig(*read_bvh(tmp_path / "clip.bvh")), wanted.clips[0].state)


def test_units_and_the_vertical_axis(tmp_path: Path) -> None:
    motion = walk(30.0)
    turn = torch.from_numpy(known_frames.AXES["z-up"]).T  # to z up
    lying = replace(
        motion, offsets=motion.offsets @ turn.T, rotations=turn @ motion.rotations @ turn.T,
        translations=motion.translations @ turn.T,
    )  # fmt: skip
    write_bvh(tmp_path / "cm.bvh", motion, unit="cm")
    write_bvh(tmp_path / "m.bvh", lying, unit="m")
    wanted = as_toolkit(tmp_path / "m.bvh", STARTER.names).clips[0].state
    same(STARTER.of_rig(*read_bvh(tmp_path / "m.bvh"), axes="z-up"), wanted)
    same(STARTER.of_rig(*read_bvh(tmp_path / "cm.bvh")), wanted, atol=1e-4)
    same(STARTER.of_rig(*read_bvh(tmp_path / "cm.bvh"), metres=0.01), wanted, atol=1e-4)


@pytest.mark.parametrize("name", ["cs_walking_test_1", "cc_06_05", "ac_salsa_27"])
def test_captured_clips(shared: Path, name: str) -> None:
    file = shared / "data" / "cmu" / "bvh" / f"{name}.bvh"
    clips = open_clip_set([str(file)], 30.0)
    clip = clips.clips[0]
    own = body(clips.names, clips.parents, clip.offsets)
    same(own.of_rig(*read_bvh(file)), clip.state)


def test_columns_and_end_sites_of_rigs_without_toes(tmp_path: Path) -> None:
    """Where no toe is named the end site of the ankle stands for it."""
    motion = walk(30.0)
    names = tuple("left_ankle End" if n == "left_foot" else "right_ankle End" if n == "right_foot" else n
                  for n in motion.names)  # fmt: skip
    write_bvh(tmp_path / "clip.bvh", replace(motion, names=names))
    clips = open_clip_set([str(tmp_path / "clip.bvh")], 30.0)
    assert "left_ankle End" not in clips.names
    own = body(clips.names, clips.parents, clips.clips[0].offsets)
    same(own.of_rig(*read_bvh(tmp_path / "clip.bvh")), clips.clips[0].state)


@pytest.mark.parametrize("write", [matrix_to_quaternion, matrix_to_6d, lambda rotations: rotations],
                         ids=["quaternions", "6d", "matrices"])  # fmt: skip
@pytest.mark.parametrize("fps", [30.0, 50.0])
def test_a_pose_in_any_notation(write: Callable[[Tensor], Tensor], fps: float) -> None:
    motion = walk(fps)
    wanted, _ = motion_state(motion.resample(30.0))
    order = [*reversed(range(22))]
    given = torch.cat([write(motion.rotations[:, order]), write(motion.rotations[:, :1])], dim=1).numpy()
    names = [*(motion.names[joint] for joint in order), "weapon"]
    root = motion.translations[:, 0].numpy()
    same(STARTER.of_pose(given, root, fps=fps, names=names), wanted)
    bones = np.concatenate([OFFSETS[order], np.ones((1, 3))])
    same(STARTER.of_pose(given, root, fps=fps, names=names, offsets=bones), wanted)


def test_poses_of_unity_and_unreal() -> None:
    """Unity's axes by hand: x is to the right, so that x, and turns about y and z, have the other sign."""
    motion = walk(30.0)
    wanted, _ = motion_state(motion)
    root = motion.translations[:, 0]
    unity = matrix_to_quaternion(motion.rotations) * torch.tensor([1.0, 1.0, -1.0, -1.0])
    same(STARTER.of_pose(unity.numpy(), (root * torch.tensor([-1.0, 1, 1])).numpy(), fps=30, axes="unity"), wanted)
    unreal, place = UNREAL.turns_back(motion.rotations), 100 * UNREAL.points_back(root)
    found = STARTER.of_pose(
        matrix_to_6d(unreal).numpy(), place.numpy(), fps=30, axes="unreal", metres=0.01,
        offsets=(100 * UNREAL.points_back(motion.offsets)).numpy(),
    )  # fmt: skip
    same(found, wanted)


def test_contacts_that_are_known_are_taken() -> None:
    motion = walk(60.0)
    told = np.linspace(0, 1, 2 * motion.frames).reshape(-1, 2)
    found = STARTER.of_pose(motion.rotations.numpy(), motion.translations[:, 0].numpy(), fps=60, contacts=told)
    np.testing.assert_allclose(found[3], told[::2], atol=1e-9)


def test_a_body_without_known_joints_is_faced_by_its_root() -> None:
    motion = walk(30.0)
    names = tuple(f"b{joint}" for joint in range(22))
    plain = replace(motion, names=names)
    wanted, known = motion_state(plain)
    assert not known
    own = body(names, PARENTS, motion.offsets)
    same(own.of_pose(motion.rotations.numpy(), motion.translations[:, 0].numpy(), fps=30), wanted)


def test_one_frame() -> None:
    motion = walk(30.0).cut(0, 1)
    found = STARTER.of_pose(motion.rotations.numpy(), motion.translations[:, 0].numpy(), fps=30)
    assert [part.shape for part in found] == [(1, 22, 3, 3), (1, 3), (1,), (1, 2)]
    assert not found[1].any()


def test_rows_are_those_of_the_networks() -> None:
    motion = walk(30.0)
    state, _ = motion_state(motion)
    known = STARTER.of_pose(motion.rotations.numpy(), motion.translations[:, 0].numpy(), fps=30)
    rows = STARTER.rows(*known)
    torch.testing.assert_close(torch.from_numpy(rows), pack(state, 30.0).float(), atol=1e-6, rtol=0)
    for one, other in zip(STARTER.frames(rows), known, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("module", [known_frames, bvh_file], ids=["known_frames", "bvh_file"])
def test_they_need_numpy_alone(module: ModuleType) -> None:
    source = Path(str(module.__file__)).read_text()
    imported = {
        line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import", "from"))
    }
    assert imported <= {"__future__", "json", "math", "re", "collections", "pathlib", "typing", "numpy"}


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    motion = walk(30.0)
    turns, root = motion.rotations.numpy(), motion.translations[:, 0].numpy()
    broken = root.copy()
    broken[3, 1] = np.nan
    sound: dict[str, Any] = {"rotations": turns, "root": root, "fps": 30.0}
    faults: list[tuple[dict[str, Any], str]] = [
        ({"axes": "maya"}, "maya"),
        ({"names": ["a"] * 22}, "pelvis"),
        ({"names": ["pelvis"]}, "missing"),
        ({"fps": 0}, "frames per second"),
        ({"root": root[:5]}, "root"),
        ({"root": broken}, "not finite"),
        ({"rotations": turns[..., 0]}, "quaternions"),
        ({"rotations": turns[:, :4]}, "22 joints"),
        ({"offsets": OFFSETS[:3]}, "offsets"),
        ({"contacts": np.zeros((3, 2))}, "contacts"),
    ]
    for words, said in faults:
        with pytest.raises(ValueError, match=said):
            STARTER.of_pose(**(sound | words))
    write_bvh(tmp_path / "clip.bvh", motion)
    text = (tmp_path / "clip.bvh").read_text()
    (tmp_path / "other.bvh").write_text(text.replace("left_knee", "gauche"))
    with pytest.raises(ValueError, match="left_knee"):
        STARTER.of_rig(*read_bvh(tmp_path / "other.bvh"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("HIERARCHY", "walk"),
        ("MOTION", "NOTHING"),
        ("Frames: 4", "Frames: 5"),
        ("Frame Time: 0", "Frame Time: -0"),
        ("CHANNELS 3", "CHANNELS x"),
        ("CHANNELS 3", "CHANNELS"),
        ("}", "} } } } } } } } } } }"),
        ("rotation", "turn"),
        ("OFFSET", "OFFSET a"),
        ("OFFSET", "OFFSET inf"),
        ("ROOT", "BONE"),
        ("{", ""),
    ],
)
def test_damaged_files_are_refused(old: str, new: str, tmp_path: Path) -> None:
    write_bvh(tmp_path / "clip.bvh", walk(30.0).cut(0, 4))
    text = (tmp_path / "clip.bvh").read_text()
    assert old in text
    parse_bvh(text)
    with pytest.raises(ValueError, match=r"."):
        parse_bvh(text.replace(old, new, 1))
    with pytest.raises(ValueError, match="expected 4 frames"):
        parse_bvh(text[:-40])
