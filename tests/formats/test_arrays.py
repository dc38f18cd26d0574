from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.clips.check import check_motion
from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.clips.profile.document import profile_document
from motionkit.clips.profile.statistics import profile_sources
from motionkit.errors import MotionkitError
from motionkit.formats.arrays import read_features_file, read_joints, read_mdm_results, write_joints
from motionkit.motion import HUMANML, KIT, JointMotion, ReadOptions, joints_to_features
from motionkit.motion.features.extract import canonicalise
from motionkit.rigs import kit_bones

from ..made.bodies import walker


def save(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array), allow_pickle=True)
    return path


def test_joints_are_read_as_they_are(tmp_path: Path):
    joints = walker(30, seed=2)
    (clip,) = read_joints(save(tmp_path / "a.npy", joints))
    assert isinstance(clip.motion, JointMotion)
    assert (clip.motion.names, clip.motion.parents, clip.motion.fps) == (HUMANML.joint_names, HUMANML.parents, 20.0)
    torch.testing.assert_close(clip.motion.joints, joints, atol=0, rtol=0)
    assert clip.motion.joints.dtype == torch.float64
    assert clip.warnings == ()
    assert clip.part == ""


@pytest.mark.parametrize(
    ("name", "scale"),
    [("m", 1.0), ("dm", 10.0), ("cm", 100.0), ("mm", 1000.0), ("in", 1 / 0.0254), ("asf", 0.45 / 0.0254)],
)
@pytest.mark.parametrize("told", [False, True])
def test_units(tmp_path: Path, name: str, scale: float, told: bool):
    joints = walker(12)
    path = save(tmp_path / "a.npy", joints * scale)
    (clip,) = read_joints(path, ReadOptions(unit=name) if told else ReadOptions())
    torch.testing.assert_close(clip.motion.joints, joints)
    assert clip.notes["unit"] == name


def test_a_wrong_unit_is_followed_and_warned_of(tmp_path: Path):
    joints = walker(12)
    (clip,) = read_joints(save(tmp_path / "a.npy", joints), ReadOptions(unit="cm"))
    torch.testing.assert_close(clip.motion.joints, joints * 0.01)
    assert any("legs are 0.01 m" in warning and "--units" in warning for warning in clip.warnings)


def test_z_up_is_seen_and_turned_without_mirroring(tmp_path: Path):
    joints = walker(25, seed=4, sway=0.2)
    turned = torch.stack([joints[..., 0], -joints[..., 2], joints[..., 1]], dim=-1)
    path = save(tmp_path / "a.npy", turned)
    (clip,) = read_joints(path)
    torch.testing.assert_close(clip.motion.joints, joints)
    assert any("--up y" in warning for warning in clip.warnings)
    (told,) = read_joints(path, ReadOptions(up="z"))
    torch.testing.assert_close(told.motion.joints, joints)
    assert told.warnings == ()
    (kept,) = read_joints(path, ReadOptions(up="y"))
    torch.testing.assert_close(kept.motion.joints, turned)


def test_shapes(tmp_path: Path):
    joints = walker(20, seed=1)
    flat = read_joints(save(tmp_path / "flat.npy", joints.flatten(1)))
    torch.testing.assert_close(flat[0].motion.joints, joints)
    many = torch.stack([walker(20, seed=seed) for seed in range(11)])
    for name, array in (("ntj3", many), ("nj3t", many.permute(0, 2, 3, 1))):
        clips = read_joints(save(tmp_path / f"{name}.npy", array))
        assert [clip.part for clip in clips] == [f"{number:02d}" for number in range(11)]
        for clip, one in zip(clips, many, strict=True):
            torch.testing.assert_close(clip.motion.joints, one)


@pytest.mark.parametrize("count", [24, 52, 55])
def test_bodies_with_hands_keep_every_joint(tmp_path: Path, count: int):
    joints = torch.cat([walker(10), torch.rand(10, count - 22, 3, dtype=torch.float64)], dim=1)
    (clip,) = read_joints(save(tmp_path / "a.npy", joints))
    torch.testing.assert_close(clip.motion.joints, joints)
    assert len(set(clip.motion.names)) == count
    assert all(0 <= parent < joint for joint, parent in list(enumerate(clip.motion.parents))[1:])
    if count == 52:
        assert clip.motion.names[22] == "left_index1"
        assert clip.motion.parents[22:26] == (20, 22, 23, 20)
        assert clip.motion.parents[37] == 21


def test_kit_joints_come_in_their_own_unit(tmp_path: Path):
    joints = walker(30, skeleton=KIT)
    (clip,) = read_joints(save(tmp_path / "a.npy", joints / KIT.unit))
    assert (clip.motion.names, clip.motion.fps, clip.notes["unit"]) == (KIT.joint_names, 12.5, "kit")
    torch.testing.assert_close(clip.motion.joints, joints)
    (faster,) = read_joints(tmp_path / "a.npy", ReadOptions(fps=100.0))
    assert faster.motion.fps == 100.0


def test_frames_that_are_not_finite_stay_and_are_told(tmp_path: Path):
    joints = walker(30)
    joints[7, 3, 1] = float("nan")
    (clip,) = read_joints(save(tmp_path / "a.npy", joints))
    assert clip.motion.frames == 30
    assert torch.isnan(clip.motion.joints).sum() == 1
    assert "not finite in 1 of 30 frames" in clip.warnings[0]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((10, 23, 3)), r"\[10, 23, 3\]"),
        (np.zeros((10, 64)), r"\[10, 64\]"),
        (np.zeros((0, 22, 3)), "empty"),
        (np.zeros((10, 22, 3)), "legs"),
        (np.zeros((10, 22, 3), dtype="U3"), "numbers"),
        (np.array({"a": 1}, dtype=object), "a dict"),
        (np.zeros(5), r"\[5\]"),
        (np.full((5, 22, 3), np.nan), "finite"),
    ],
)
def test_what_is_no_array_of_joints_is_refused(tmp_path: Path, array: np.ndarray, message: str):
    with pytest.raises(MotionkitError, match=message):
        read_joints(save(tmp_path / "a.npy", array))


def test_damaged_and_lying_files_are_refused(tmp_path: Path):
    path = save(tmp_path / "a.npy", walker(20))
    data = path.read_bytes()
    (tmp_path / "cut.npy").write_bytes(data[:-100])
    (tmp_path / "text.npy").write_bytes(b"hello")
    # A header that announces a terabyte must not reserve it.
    lie = data.replace(b"(20, 22, 3)", b"(99999999999, 22, 3)", 1).replace(b" " * 9 + b"\n", b"\n", 1)
    assert len(lie) == len(data)
    (tmp_path / "lie.npy").write_bytes(lie)
    for name in ("cut", "text", "lie", "gone"):
        with pytest.raises(MotionkitError, match=name):
            read_joints(tmp_path / f"{name}.npy")


def test_written_joints_read_back(tmp_path: Path):
    joints = walker(20)
    write_joints(tmp_path / "a.npy", joints)
    assert np.load(tmp_path / "a.npy").dtype == np.float32
    np.testing.assert_allclose(read_joints(tmp_path / "a.npy")[0].motion.joints, joints, atol=1e-6)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_features_are_read_with_their_joints(tmp_path: Path, skeleton):
    joints = walker(40, skeleton=skeleton)
    features = joints_to_features(joints, skeleton, target=False).float()
    (clip,) = read_features_file(save(tmp_path / "a.npy", features))
    assert torch.equal(clip.features, features)
    assert (clip.motion.names, clip.motion.fps) == (skeleton.joint_names, skeleton.fps)
    np.testing.assert_allclose(clip.motion.joints, canonicalise(joints, skeleton)[:-1], atol=1e-5)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_normalised_features_are_refused_with_the_remedy(tmp_path: Path, skeleton):
    clips = [
        joints_to_features(walker(60, seed=seed, turn=0.02, skeleton=skeleton), skeleton, bones=kit_bones())
        if skeleton is KIT
        else joints_to_features(walker(60, seed=seed, turn=0.02), skeleton)
        for seed in range(4)
    ]
    rows = torch.cat(clips)
    path = save(tmp_path / "a.npy", ((rows - rows.mean(0)) / rows.std(0).clamp_min(1e-3))[:40].float())
    with pytest.raises(MotionkitError) as error:
        read_features_file(path)
    assert "Std + Mean" in str(error.value.fix)


def test_a_public_clip_normalised_is_refused(shared: Path, tmp_path: Path):
    data = np.load(shared / "fixtures/mdm/features_012314.npz")
    (clip,) = read_features_file(save(tmp_path / "a.npy", data["joint_vecs"]))
    np.testing.assert_allclose(clip.motion.joints, data["new_joints"], atol=1e-5)
    with pytest.raises(MotionkitError, match="does not look like"):
        read_features_file(save(tmp_path / "b.npy", (data["joint_vecs"] - data["Mean"]) / data["Std"]))


def test_broken_features_stay_and_other_widths_are_refused(tmp_path: Path):
    features = joints_to_features(walker(40), HUMANML).float()
    (whole,) = read_features_file(save(tmp_path / "whole.npy", features))
    features[11, 5] = float("inf")
    features[30, -1] = float("nan")
    (clip,) = read_features_file(save(tmp_path / "a.npy", features))
    assert clip.warnings == ("values are not finite in 2 of 39 frames.",)
    assert torch.isnan(clip.motion.joints[[11, 30]]).all()
    torch.testing.assert_close(clip.motion.joints[:11], whole.motion.joints[:11])
    # Frames after a gap are where the motion would have gone, and are the same poses.
    torch.testing.assert_close(clip.motion.joints[12:30, :, 1], whole.motion.joints[12:30, :, 1])
    assert (clip.motion.joints[12:30] - whole.motion.joints[12:30]).norm(dim=-1).max() < 0.1
    (finding,) = [finding for finding in check_motion(clip.motion) if finding.kind == "nan"]
    assert finding.frames == ((11, 12), (30, 31))
    bad = {str(list(shape)): np.zeros(shape) for shape in ((40, 262), (263,), (0, 263), (2, 40, 263))}
    for word, array in {**bad, "finite": np.full((9, 263), np.nan)}.items():
        with pytest.raises(MotionkitError, match=re.escape(word)):
            read_features_file(save(tmp_path / "b.npy", array))


def results(**changes: object) -> dict[str, object]:
    motion = torch.stack([walker(30, seed=seed) for seed in range(4)]).permute(0, 2, 3, 1).numpy()
    return {
        "motion": motion.astype(np.float32),
        "text": ["walk", "run", "walk", "run"],
        "lengths": np.array([30, 20, 10, 30]),
        "num_samples": 2,
        "num_repetitions": 2,
    } | changes


def test_mdm_results(tmp_path: Path):
    data = results()
    clips = read_mdm_results(save(tmp_path / "results.npy", data))
    assert [clip.part for clip in clips] == ["sample00_rep00", "sample01_rep00", "sample00_rep01", "sample01_rep01"]
    assert [clip.texts for clip in clips] == [("walk",), ("run",), ("walk",), ("run",)]
    assert [clip.motion.frames for clip in clips] == [30, 20, 10, 30]
    np.testing.assert_array_equal(clips[1].motion.joints, data["motion"][1].transpose(2, 0, 1)[:20])
    assert clips[0].motion.fps == 20.0


def test_mdm_results_with_less_in_them(tmp_path: Path):
    bare = {"motion": results()["motion"]}
    clips = read_mdm_results(save(tmp_path / "a.npy", bare))
    assert [clip.captions for clip in clips] == [()] * 4
    assert [clip.motion.frames for clip in clips] == [30] * 4
    clips = read_mdm_results(save(tmp_path / "b.npy", results(text=["walk", "run"])))
    assert [clip.texts for clip in clips] == [("walk",), ("run",), ("walk",), ("run",)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": [1, 2]}, "4 motions"),
        ({"lengths": [31, 0, np.nan, -1]}, "sample00_rep00.* 31"),
        ({"motion": np.full((4, 22, 3, 30), np.nan)}, "sample00_rep00.*finite"),
        ({"lengths": ["a"] * 4}, "do not fit"),
        ({"motion": np.zeros((2, 3))}, "results file"),
        ({"motion": np.zeros((2, 23, 3, 5))}, "shape"),
    ],
)
def test_bad_mdm_results_are_refused(tmp_path: Path, changes: dict[str, object], message: str):
    with pytest.raises(MotionkitError, match=message):
        read_mdm_results(save(tmp_path / "a.npy", results(**changes)))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data["motion"].__setitem__(1, np.nan), "there is no frame whose values are all finite"),
        (lambda data: data["motion"].__setitem__(1, 0.0), "the legs have no length"),
        (lambda data: data["lengths"].__setitem__(1, 0), "it has 30 frames, its length is given as 0"),
        (lambda data: data["lengths"].__setitem__(1, 31), "it has 30 frames, its length is given as 31"),
    ],
    ids=["nan", "zeros", "empty", "long"],
)
def test_one_bad_result_costs_no_other(tmp_path: Path, spoil: Callable[[dict[str, Any]], None], said: str):
    data = results()
    path = tmp_path / "results.npy"
    whole = read_mdm_results(save(path, data))
    spoil(data)
    clips = read_mdm_results(save(path, data))
    assert [clip.part for clip in clips] == [clip.part for clip in whole]
    assert [clip.texts for clip in clips] == [clip.texts for clip in whole]
    for number in (0, 2, 3):
        assert clips[number].fault is None
        torch.testing.assert_close(clips[number].motion.joints, whole[number].motion.joints)
    assert clips[1].fault is not None
    assert clips[1].fault.message.startswith(said)
    assert clips[1].motion.joints.isnan().all()
    (source,) = open_sources([path]).sources
    report = convert([source], tmp_path / "out", FileTarget("npz"))
    assert report.written == [f"results_{whole[number].part}" for number in (0, 2, 3)]
    (failed,) = report.failed
    assert "results_sample01_rep00" in failed
    profile = profile_sources([source])
    assert profile_document(profile)["n_clips"] == 3
    assert len(profile.failed) == 1


class Evil:
    def __reduce__(self):
        return (print, ("executed",))
