from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.native import SCHEMA, VERSION, read_native, write_native
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, Motion

from ..made.bodies import walker

HASH = "ab" * 32


def rig(frames: int = 40, joints: int = 31, seed: int = 0) -> Motion:
    """A long-armed rig far from the origin, with one sliding joint."""
    generator = torch.Generator().manual_seed(seed)
    parents = (-1, *(max(0, joint - 1 - joint % 3) for joint in range(1, joints)))
    offsets = torch.randn(joints, 3, generator=generator, dtype=torch.float64)
    rotations = roma.rotvec_to_rotmat(2 * torch.randn(frames, joints, 3, generator=generator, dtype=torch.float64))
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0] = 1000.0 + torch.randn(frames, 3, generator=generator, dtype=torch.float64)
    translations[:, joints // 6] += torch.randn(frames, 3, generator=generator, dtype=torch.float64)
    tracks = {"contacts": torch.rand(frames, 2, generator=generator), "action": torch.eye(frames, dtype=torch.bool)}
    names = tuple(f"joint {joint} ü" for joint in range(joints))
    return Motion(names, parents, offsets, rotations, translations, 29.97, tracks)


def clip_of(motion: Motion | JointMotion) -> Clip:
    return Clip(
        motion,
        features=torch.rand(motion.frames, 263),
        captions=(Caption('a man walks, "slowly"', ("a/DET", "man/NOUN", "walk/XYZ")), Caption("ein Mann läuft 走")),
        timed=(Caption("he stops", ("he/PRON", "stop/VERB"), 1.5, 2.25),),
        split="val",
        group="take 7",
        part="02",
        notes={"format": "BVH", "fps": "29.97"},
        warnings=("look at this",),
    )


def same_about(back: Clip, clip: Clip) -> None:
    for name in ("captions", "timed", "split", "group", "part", "warnings"):
        assert getattr(back, name) == getattr(clip, name)
    assert back.notes == {**clip.notes, "sha256": HASH}
    assert torch.equal(back.features, clip.features)


def test_a_rig_comes_back(tmp_path: Path):
    clip = clip_of(rig())
    write_native(tmp_path / "a.npz", clip, source_hash=HASH)
    (back,) = read_native(tmp_path / "a.npz")
    same_about(back, clip)
    motion = back.motion
    assert isinstance(motion, Motion)
    assert (motion.names, motion.parents, motion.fps) == (clip.motion.names, clip.motion.parents, 29.97)
    assert torch.equal(motion.offsets, clip.motion.offsets)
    assert torch.equal(motion.translations, clip.motion.translations)
    assert float((motion.positions() - clip.motion.positions()).abs().max()) < 1e-5
    assert motion.tracks.keys() == {"contacts", "action"}
    for name, values in clip.motion.tracks.items():
        assert torch.equal(motion.tracks[name], values)
        assert motion.tracks[name].dtype == values.dtype


@pytest.mark.parametrize("exact", [True, False])
def test_joints_come_back_to_the_last_bit(tmp_path: Path, exact: bool):
    joints = walker(25)
    joints = joints.float().double() if exact else joints
    joints[3, 4] = float("nan")
    clip = clip_of(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0, {"contacts": torch.rand(25, 2)}))
    write_native(tmp_path / "a.npz", clip, source_hash=HASH)
    (back,) = read_native(tmp_path / "a.npz")
    same_about(back, clip)
    assert isinstance(back.motion, JointMotion)
    torch.testing.assert_close(back.motion.joints, joints, atol=0, rtol=0, equal_nan=True)
    assert back.motion.joints.dtype == torch.float64
    with np.load(tmp_path / "a.npz") as data:
        assert data["joints"].dtype == (np.float32 if exact else np.float64)


def test_a_clip_of_which_nothing_is_known(tmp_path: Path):
    motion = rig(frames=1, joints=2)
    write_native(tmp_path / "a.npz", Clip(replace(motion, tracks={})))
    (back,) = read_native(tmp_path / "a.npz")
    assert (back.captions, back.notes, back.features) == ((), {}, None)
    torch.testing.assert_close(back.motion.positions(), motion.positions())


def test_the_file_is_plain_and_the_same_every_time(tmp_path: Path):
    clip = clip_of(rig())
    for name in ("a.npz", "b.npz"):
        write_native(tmp_path / name, clip, source_hash=HASH)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]
    with np.load(tmp_path / "a.npz", allow_pickle=False) as data:
        assert str(data["motionkit_schema"]) == SCHEMA
        assert int(data["version"]) == VERSION
        assert data["quaternions"].dtype == np.float32
        # w first: the scalar part of a rotation by theta is cos(theta / 2), whose square follows from the trace.
        trace = clip.motion.rotations.diagonal(dim1=-2, dim2=-1).sum(-1).numpy()
        np.testing.assert_allclose(data["quaternions"][..., 0] ** 2, (1 + trace) / 4, atol=1e-6)
        assert data["translations"].shape == (40, 2, 3)
        assert json.loads(str(data["about"]))["source_sha256"] == HASH


def test_holes_stay_holes(tmp_path: Path):
    motion = rig()
    motion.translations[3, 7, 1] = float("nan")
    motion.rotations[9, 2] = float("nan")
    write_native(tmp_path / "a.npz", Clip(motion))
    (back,) = read_native(tmp_path / "a.npz")
    assert isinstance(back.motion, Motion)
    assert torch.equal(back.motion.translations.isnan(), motion.translations.isnan())
    assert torch.equal(back.motion.rotations.isnan(), motion.rotations.isnan())


def test_a_newer_version_is_refused_by_name(tmp_path: Path):
    write_native(tmp_path / "a.npz", clip_of(rig()))
    with np.load(tmp_path / "a.npz") as data:
        arrays = dict(data) | {"version": np.array(VERSION + 1)}
    np.savez(tmp_path / "new.npz", **arrays)
    with pytest.raises(MotionkitError, match=f"version {VERSION + 1}; .*up to version {VERSION}"):
        read_native(tmp_path / "new.npz")


DAMAGE = {
    "no names": ({"names": None}, "it has no 'names'"),
    "names twice": ({"names": np.array(["a"] * 31)}, "names repeat"),
    "a cycle": ({"parents": np.array([3, *range(30)])}, "before its parent"),
    "parents short": ({"parents": np.zeros(5, int)}, r"parents has shape \[5\]"),
    "fps": ({"fps": np.array(0.0)}, "0 frames per second"),
    "fps nan": ({"fps": np.array(np.nan)}, "nan frames per second"),
    "kind": ({"kind": np.array("meshes")}, "'meshes', which is unknown"),
    "quaternions": ({"quaternions": np.zeros((40, 30, 4), np.float32)}, "quaternions has shape"),
    "moving": ({"moving": np.array([0, 99])}, "joints that are not there"),
    "track": ({"track.contacts": np.zeros((39, 2))}, "track.contacts has shape"),
    "text for numbers": ({"offsets": np.array(["x"])}, "offsets is not an array of the right kind"),
    "about": ({"about": np.array("{")}, "damaged motion file"),
    "about empty": ({"about": np.array("{}")}, "it has no 'notes'"),
    "features": ({"features": np.zeros((39, 263), np.float32)}, "features has 39 rows for 40 frames"),
    "about list": ({"about": np.array("[]")}, "damaged motion file"),
    "version": ({"version": np.array("1")}, "does not say which version"),
    "schema": ({"motionkit_schema": np.array("other")}, "not a motion file of motionkit"),
}


@pytest.mark.parametrize(("changes", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_files_are_refused(tmp_path: Path, changes: dict[str, np.ndarray | None], message: str):
    write_native(tmp_path / "a.npz", clip_of(rig()))
    with np.load(tmp_path / "a.npz") as data:
        arrays = dict(data) | changes
    np.savez(tmp_path / "bad.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(MotionkitError, match=message):
        read_native(tmp_path / "bad.npz")


def rewritten(path: Path, **about: object) -> Path:
    """Change what a file says about itself."""
    with np.load(path) as data:
        arrays = dict(data)
    arrays["about"] = np.array(json.dumps({**json.loads(str(arrays["about"])), **about}))
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(("said", "split"), [("validation", "val"), ("TRAIN", "train"), ("half", ""), ("", "")])
def test_only_splits_that_there_are_count(tmp_path: Path, said: str, split: str):
    write_native(tmp_path / "a.npz", clip_of(rig()))
    (clip,) = read_native(rewritten(tmp_path / "a.npz", split=said))
    assert clip.split == split
    assert any("'half', which is not one of train, val, test" in text for text in clip.warnings) == (said == "half")


def test_a_file_from_before_tokens_were_kept_reads_on(tmp_path: Path):
    clip = clip_of(rig())
    write_native(tmp_path / "a.npz", clip)
    (back,) = read_native(rewritten(tmp_path / "a.npz", caption_tokens=None))
    assert [(caption.text, caption.tokens) for caption in back.captions] == [
        (caption.text, ()) for caption in clip.captions
    ]


@pytest.mark.parametrize("part", ["/../../escaped", "x/y", "..\\x", "a\nb", "Armature|walk", "Take 001"])
def test_a_part_may_be_any_text(tmp_path: Path, part: str):
    write_native(tmp_path / "a.npz", clip_of(rig()))
    (clip,) = read_native(rewritten(tmp_path / "a.npz", part=part))
    assert clip.part == part
