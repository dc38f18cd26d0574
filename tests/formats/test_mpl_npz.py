from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import npz as _read_npz
from motionkit.formats.mpl import write_mpl_npz
from motionkit.formats.mpl.npz import read_mpl_npz
from motionkit.formats.mpl.read_json import read_mpl_json
from motionkit.motion import HUMANML
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs import find_feet, soft_contacts, soft_period

from ..made.bodies import walker
from ..made.mpl_files import HOUSE, UNREAL, exported, original_npz, save, starter_motion, tables, turn

YAW = 0.3 - 0.02 * np.arange(40)


def written(path: Path, clip: Clip) -> dict[str, np.ndarray]:
    write_mpl_npz(path / "clip.npz", clip, source_hash="0a" * 32)
    with np.load(path / "clip.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def back(path: Path) -> Motion:
    (clip,) = read_mpl_npz(path / "clip.npz")
    assert isinstance(clip.motion, Motion)
    return clip.motion


@pytest.mark.parametrize("columns", ["XY", "XZ"])
@pytest.mark.parametrize("axes", [("forward", "right", "up"), ("forward", "left", "up"), ("left", "up", "forward")])
def test_json_to_npz_to_motion(tmp_path: Path, columns: str, axes: Any) -> None:
    motion = starter_motion()
    (clip,) = read_mpl_json(save(tmp_path / "clip.json", exported(motion, YAW, columns=columns, axes=axes, offset=0.4)))
    arrays = written(tmp_path, clip)
    again = back(tmp_path)
    assert again.names == motion.names
    assert again.parents == motion.parents
    assert float((again.positions() - motion.positions()).abs().max()) < 1e-6
    torch.testing.assert_close(again.rotations, motion.rotations, atol=1e-6, rtol=0)
    assert set(again.tracks) == set(clip.motion.tracks) == {
        "root_yaw", "root_velocity", "trajectory", "action", "contacts"
    }  # fmt: skip
    for name, values in clip.motion.tracks.items():
        torch.testing.assert_close(again.tracks[name], values, atol=1e-6, rtol=0)
    np.testing.assert_allclose(arrays["root_yaw"], clip.motion.tracks["root_yaw"], atol=1e-6)


def test_any_motion_comes_back_whole(tmp_path: Path) -> None:
    """Joints that move in their parents and end sites too, as BVH files have them."""
    motion = starter_motion()
    translations = motion.translations.clone()
    translations[:, 15] += 0.02 * torch.sin(torch.arange(40.0, dtype=torch.float64))[:, None]
    ends = torch.tensor([[0.0, 0.1, 0.0], [0.0, 0.0, 0.05]], dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64).expand(40, 2, 3, 3)
    motion = Motion(
        (*motion.names, "head End", "left_foot End"),
        (*motion.parents, 15, 10),
        torch.cat([motion.offsets, ends]),
        torch.cat([motion.rotations, eye], dim=1),
        torch.cat([translations, ends.expand(40, 2, 3)], dim=1),
        29.97,
        {"phase": torch.linspace(0, 1, 40, dtype=torch.float64), "step": torch.arange(40)},
    )
    clip = Clip(
        motion,
        captions=(Caption("a person walks"), Caption("走")),
        timed=(Caption("turns", (), 0.5, 1.0),),
        split="val",
        group="s1",
    )
    arrays = written(tmp_path, clip)
    assert arrays["rot6d"].shape == (40, 22, 6)
    (read,) = read_mpl_npz(tmp_path / "clip.npz")
    again = read.motion
    assert isinstance(again, Motion)
    assert (again.names, again.parents, again.fps) == (motion.names, motion.parents, 29.97)
    assert float((again.positions() - motion.positions()).abs().max()) < 1e-6
    torch.testing.assert_close(again.translations[:, 1:], motion.translations[:, 1:], atol=1e-6, rtol=0)
    torch.testing.assert_close(again.tracks["phase"], motion.tracks["phase"], atol=1e-6, rtol=0)
    torch.testing.assert_close(again.tracks["step"], motion.tracks["step"])
    assert (read.captions, read.timed, read.split, read.group) == (clip.captions, clip.timed, "val", "s1")
    assert read.notes["source sha256"] == "0a" * 32
    assert read.warnings == ()


def test_the_files_yaw_and_place_are_the_components(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW)
    (clip,) = read_mpl_json(save(tmp_path / "clip.json", document))
    arrays = written(tmp_path, clip)
    places = np.array([frame["RootPosition"] for frame in document["Frames"]])
    velocity = np.array([frame["RootVelocityXY"] for frame in document["Frames"]])
    np.testing.assert_allclose(arrays["root_pos"], places, atol=1e-6)
    np.testing.assert_allclose(arrays["root_vel"], velocity, atol=1e-5)
    np.testing.assert_allclose(arrays["root_yaw"], YAW, atol=1e-6)
    columns = np.array([frame["BoneRotations"] for frame in document["Frames"]])
    np.testing.assert_allclose(arrays["rot6d"][..., :3], columns[..., :3], atol=1e-6)
    np.testing.assert_allclose(
        np.cross(arrays["rot6d"][..., :3], arrays["rot6d"][..., 3:]), columns[..., 3:], atol=1e-6
    )


def spinning(rate: float, fps: float = 50.0, frames: int = 31) -> Motion:
    """A stick that strides along +X and whose second bone spins about its own x axis, rad/s."""
    angle = rate * torch.arange(frames, dtype=torch.float64) / fps
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, 2, 1, 1)
    rotations[:, 1, 1, 1] = rotations[:, 1, 2, 2] = angle.cos()
    rotations[:, 1, 2, 1], rotations[:, 1, 1, 2] = angle.sin(), -angle.sin()
    offsets = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]], dtype=torch.float64)
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0, 0] = 2.0 * torch.arange(frames, dtype=torch.float64) / fps
    return Motion(("a", "b"), (-1, 0), offsets, rotations, translations, fps)


def test_fields_of_a_motion_that_is_known(tmp_path: Path) -> None:
    """2 m/s along house +X, which is to Unreal's left (-y), facing ahead; 3 rad/s about house +X."""
    motion = spinning(3.0)
    action = torch.zeros(31, 4, dtype=torch.int64)
    action[:, 2] = 1
    arrays = written(tmp_path, Clip(replace(motion, tracks={"action": action})))
    np.testing.assert_allclose(arrays["heading"], 0.0, atol=1e-7)
    np.testing.assert_allclose(arrays["root_yaw"], 0.0, atol=1e-7)
    np.testing.assert_allclose(arrays["root_vel"], [[0.0, -2.0]] * 31, atol=1e-5)
    np.testing.assert_allclose(arrays["root_pos"][0], [0.0, 0.0, 1.0], atol=1e-7)
    # A mirror image turns the other way: +3 about house +X is +3 about Unreal's +y, which points along house -X.
    np.testing.assert_allclose(arrays["angvel"][:, 1], [[0.0, 3.0, 0.0]] * 31, atol=1e-4)
    np.testing.assert_allclose(arrays["angvel"][:, 0], 0.0, atol=1e-6)
    np.testing.assert_allclose(arrays["cond_in"], [[0, 0, 1, 0, 0.0, -1.0, 2.0]] * 30, atol=1e-5)
    seconds = np.array([-0.3, -0.15, 0.0, 0.15, 0.3])
    traj = arrays["traj_pos"].reshape(31, 5, 2)
    np.testing.assert_allclose(traj[15], np.stack([0 * seconds, -2.0 * seconds], 1), atol=1e-5)
    np.testing.assert_allclose(traj[0, :, 1], [0.0, 0.0, 0.0, -0.3, -0.6], atol=1e-5, err_msg="squeezed to the start")
    np.testing.assert_allclose(traj[30, :, 1], [0.6, 0.3, 0.0, 0.0, 0.0], atol=1e-5, err_msg="squeezed to the end")
    np.testing.assert_allclose(
        arrays["traj_dir"].reshape(31, 5, 2), np.broadcast_to([0.0, -1.0], (31, 5, 2)), atol=1e-6
    )
    np.testing.assert_allclose(arrays["bone_pos"][:, 1], [[0.0, 0.0, 0.5]] * 31, atol=1e-6)
    np.testing.assert_allclose(arrays["bone_vel"][:, 1], [[0.0, -2.0, 0.0]] * 31, atol=1e-5)
    layout = json.loads(str(arrays["state_layout_json"]))
    assert layout["BoneAngularVelocities"] == {"start": 18, "size": 6}
    state = arrays["X_flat"]
    assert state.shape == (31, 24)
    for name, key in (("RootPosition", "root_pos"), ("RootVelocity", "root_vel"), ("BoneRotations6D", "rot6d")):
        part = state[:, layout[name]["start"] : layout[name]["start"] + layout[name]["size"]]
        np.testing.assert_array_equal(part, arrays[key].reshape(31, -1))
    np.testing.assert_array_equal(arrays["x_in_features"], state[:-1])
    np.testing.assert_array_equal(arrays["y_out_features"], arrays["rot6d"][1:].reshape(30, -1))
    np.testing.assert_array_equal(arrays["soft_contacts"], 0.5)


@pytest.mark.parametrize("rate", [0.5, 40.0, 150.0])
def test_angular_velocity_is_the_whole_angle(tmp_path: Path, rate: float) -> None:
    arrays = written(tmp_path, Clip(spinning(rate)))
    np.testing.assert_allclose(np.linalg.norm(arrays["angvel"][:, 1], axis=-1), rate, rtol=1e-4)


def slow_log(R: np.ndarray) -> np.ndarray:
    """Rotation vector of one matrix, from its trace and its skew part."""
    angle = math.acos(max(-1.0, min(1.0, (np.trace(R) - 1.0) / 2.0)))
    axis = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    return axis * (0.5 if angle < 1e-6 else angle / (2.0 * math.sin(angle)))


def test_angular_velocity_bone_by_bone(tmp_path: Path) -> None:
    motion = starter_motion("walk/fast")
    arrays = written(tmp_path, Clip(motion))
    six = arrays["rot6d"].astype(np.float64)
    matrices = np.stack([six[..., :3], six[..., 3:], np.cross(six[..., :3], six[..., 3:])], axis=-1)
    for t in (1, 17, 39):
        expected = [
            slow_log(now @ before.T) * motion.fps for now, before in zip(matrices[t], matrices[t - 1], strict=True)
        ]
        np.testing.assert_allclose(arrays["angvel"][t], expected, atol=0.02)


def test_yaw_is_where_the_body_faces(tmp_path: Path) -> None:
    """A body that turns by a right angle to its left: -90 degrees in Unreal."""
    motion = starter_motion("walk/circle-left", frames=60, fps=20.0)
    arrays = written(tmp_path, Clip(motion))
    joints = motion.positions().numpy()
    pairs = [("left_hip", "right_hip"), ("left_shoulder", "right_shoulder")]
    units = []
    for left, right in pairs:
        bone = joints[:, HUMANML.index(left)] - joints[:, HUMANML.index(right)]
        units.append(bone / np.linalg.norm(bone, axis=-1, keepdims=True))
    across = sum(units)
    house = np.unwrap(np.arctan2(-across[:, 2], across[:, 0]))
    assert house[-1] - house[0] > 0.5
    np.testing.assert_allclose(arrays["root_yaw"] - arrays["root_yaw"][0], house[0] - house, atol=1e-5)
    np.testing.assert_array_equal(arrays["heading"], arrays["root_yaw"])
    # Walking ahead on the circle: it goes where it faces.
    ahead = arrays["traj_dir"].reshape(60, 5, 2)[10:50, 2]
    assert ahead[:, 0].min() > 0.9


def test_a_walk_turned_about_is_the_same_walk(tmp_path: Path) -> None:
    """What is seen from the body does not depend on where the body faces."""
    motion = starter_motion("walk/normal")
    turn = torch.tensor([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]], dtype=torch.float64)
    rotations, translations = motion.rotations.clone(), motion.translations.clone()
    rotations[:, 0], translations[:, 0] = turn @ rotations[:, 0], translations[:, 0] @ turn.T + 3.0
    first = written(tmp_path, Clip(motion))
    second = written(tmp_path, Clip(replace(motion, rotations=rotations, translations=translations)))
    for name in ("rot6d", "angvel", "traj_pos", "traj_dir", "bone_pos", "bone_vel", "soft_contacts", "soft_period"):
        np.testing.assert_allclose(first[name], second[name], atol=2e-5, err_msg=name)


def test_contacts_and_period(tmp_path: Path) -> None:
    motion = starter_motion("walk/normal", frames=90)
    arrays = written(tmp_path, Clip(motion))
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    contacts = soft_contacts(motion.positions(), motion.fps, feet)
    np.testing.assert_allclose(arrays["soft_contacts"], contacts, atol=1e-6)
    np.testing.assert_allclose(arrays["soft_period"], soft_period(contacts)[0], atol=1e-6)
    assert json.loads(str(arrays["meta_json"]))["soft_contacts"] == "synthesised"


def test_bytes_are_the_same_every_time_and_hold_no_pickle(tmp_path: Path) -> None:
    clip = Clip(starter_motion())
    arrays = written(tmp_path, clip)
    first = (tmp_path / "clip.npz").read_bytes()
    written(tmp_path, clip)
    assert (tmp_path / "clip.npz").read_bytes() == first
    assert all(array.dtype.kind in "fiuU" for array in arrays.values())
    assert {array.dtype for name, array in arrays.items() if array.dtype.kind == "f" and name != "FPS"} == {
        np.dtype("float32")
    }
    assert int(arrays["schema_version"]) == 1
    assert str(arrays["source_sha256"]) == "0a" * 32
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.npz"]
    with zipfile.ZipFile(tmp_path / "clip.npz") as archive:
        assert archive.testzip() is None


def test_joints_alone_are_refused(tmp_path: Path) -> None:
    broken = starter_motion()
    broken.translations[3, 0, 0] = math.nan
    joints = JointMotion(HUMANML.joint_names, HUMANML.parents, walker(20), 20.0)
    for motion, word in ((joints, "positions"), (broken, "not finite")):
        with pytest.raises(MotionkitError, match=word):
            write_mpl_npz(tmp_path / "a.npz", Clip(motion), source_hash="")
    assert list(tmp_path.iterdir()) == []


def test_one_frame_is_a_clip_too(tmp_path: Path) -> None:
    arrays = written(tmp_path, Clip(starter_motion().cut(0, 1)))
    assert arrays["cond_in"].shape == (0, 7)
    assert back(tmp_path).frames == 1


def test_the_guides_five_arrays(tmp_path: Path) -> None:
    motion = starter_motion(fps=60.0)
    (clip,) = read_mpl_json(save(tmp_path / "clip.json", exported(motion, YAW)))
    arrays = written(tmp_path, clip)
    five = {name: arrays[name] for name in ("rot6d", "angvel", "root_yaw", "root_vel", "soft_contacts")}
    path = tmp_path / "five.npz"
    np.savez(path, **five)
    (bare,) = read_mpl_npz(path)
    assert isinstance(bare.motion, Motion)
    torch.testing.assert_close(bare.motion.rotations, motion.rotations, atol=1e-6, rtol=0)
    said = " ".join(bare.warnings)
    assert "60 were taken" in said
    assert "X and Y columns" in said
    assert "positions are not known" in said
    torch.testing.assert_close(bare.motion.tracks["contacts"], clip.motion.tracks["contacts"], atol=1e-6, rtol=0)
    _, offsets = tables(motion)
    del offsets["Bones"][0]
    offsets["Bones"][0]["Parent"] = "None"
    (full,) = read_mpl_npz(path, ReadOptions(offsets=save(tmp_path / "offsets.json", offsets), fps=30.0))
    assert full.motion.fps == 30.0
    apart = full.motion.positions() - full.motion.positions()[:, :1]
    torch.testing.assert_close(apart, motion.positions() - motion.positions()[:, :1], atol=1e-5, rtol=0)


def test_the_original_converters_npz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    motion = starter_motion()
    document = exported(motion, YAW, offset=-1.2)
    path = original_npz(tmp_path / "clip.npz", document)
    opened: list[str] = []
    plain = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: opened.append(str(self)) or plain(self, *a, **k))
    (clip,) = read_mpl_npz(path)
    assert opened == [str(path)], "the path inside is never opened"
    assert isinstance(clip.motion, Motion)
    assert float((clip.motion.positions() - motion.positions()).abs().max()) < 1e-5
    assert clip.notes["6D columns"] == "XZ"
    assert clip.motion.tracks["action"].tolist() == [[0, 1, 0, 0]] * 40
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    made = soft_contacts(motion.positions(), motion.fps, feet)
    torch.testing.assert_close(clip.motion.tracks["contacts"], made, atol=1e-3, rtol=0)
    assert clip.warnings == ("there are no foot contacts; they come from height and speed.",)


def edited(path: Path, **changes: Any) -> Path:
    arrays = written(path, Clip(starter_motion(frames=8)))
    arrays |= {name: value for name, value in changes.items() if value is not None}
    for name in [name for name, value in changes.items() if value is None]:
        del arrays[name]
    np.savez(path / "edited.npz", **arrays)
    return path / "edited.npz"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rot6d": np.zeros((8, 22, 5))}, "expected [frames, bones, 6]"),
        ({"rot6d": np.full((8, 22, 6), np.nan)}, "no frame whose values are all finite"),
        ({"rot6d": None}, "neither rot6d nor bone_rot6d"),
        ({"rot6d": np.array([["a"] * 22] * 8)}, "expected [frames, bones, 6]"),
        ({"root_yaw": np.zeros(7)}, "root_yaw has shape [7], expected [8]"),
        ({"root_pos": np.zeros((8, 2))}, "root_pos has shape [8, 2], expected [8, 3]"),
        ({"parents": np.zeros(22, int)}, "0 bones without a parent"),
        ({"bone_names": np.array(["a"] * 22)}, "two bones of meta.skeleton are called a"),
        ({"schema_version": np.array(9)}, "schema version 9"),
        ({"schema_version": np.array("new")}, "schema version new"),
        ({"meta_json": np.array("{")}, "meta_json is not valid JSON"),
        ({"meta_json": np.array("[1]")}, "meta_json is not a table"),
        ({"FPS": np.array(-1.0)}, "FPS is -1.0"),
        ({"track_extra": np.zeros(3)}, "track_extra is not one row"),
        ({"end_names": np.array(["x End"]), "end_parents": np.array([99])}, "do not belong together"),
        ({"local_translations": np.zeros((8, 3, 3))}, "local_translations has shape"),
    ],
)
def test_damage_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        read_mpl_npz(edited(tmp_path, **changes))
    assert said in f"{caught.value.message} {caught.value.why}"


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("touched"),))


def test_nothing_in_a_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = edited(tmp_path, bone_names=np.array([Evil()] * 22, dtype=object))
    with pytest.raises(MotionkitError, match="was not opened"):
        read_mpl_npz(path)
    assert not (tmp_path / "touched").exists()


def test_archives_that_would_fill_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of zeros per member, deflated to almost nothing, and a header that promises far more."""
    assert _read_npz.LIMIT == 2 << 30
    monkeypatch.setattr(_read_npz, "LIMIT", 10 << 20)
    path = tmp_path / "bomb.npz"
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000, 1000, 6), }"
    content = header + text.ljust(117).encode() + b"\n" + bytes(4 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("rot6d", *(f"track_{k}" for k in range(2))):
            archive.writestr(f"{name}.npy", content)
    assert path.stat().st_size < 1e5
    with pytest.raises(MotionkitError, match=r"unpacks to .*at most 10 MB"):
        read_mpl_npz(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rot6d.npy", content)
    with pytest.raises(MotionkitError) as caught:
        read_mpl_npz(path)
    assert "is announced" in caught.value.why


@pytest.mark.parametrize("name", ["rot6d", "root_yaw", "root_pos", "root_vel", "soft_contacts", "track_extra"])
def test_a_value_that_is_not_finite_spoils_its_frame_alone(tmp_path: Path, name: str) -> None:
    (whole,) = read_mpl_npz(edited(tmp_path, track_extra=np.zeros((8, 2))))
    with np.load(tmp_path / "edited.npz") as archive:
        values = np.array(archive[name], dtype=float)
    values[5] = math.nan
    (clip,) = read_mpl_npz(edited(tmp_path, **{"track_extra": np.zeros((8, 2)), name: values}))
    assert "values are not finite in 1 of 8 frames." in clip.warnings
    others = [0, 1, 2, 3, 4, 6, 7]
    for part in ("rotations", "translations"):
        ours, theirs = getattr(clip.motion, part), getattr(whole.motion, part)
        assert ours[5].isnan().all()
        torch.testing.assert_close(ours[others], theirs[others])
    torch.testing.assert_close(clip.motion.tracks["contacts"][others], whole.motion.tracks["contacts"][others])


def test_the_originals_places_of_bones_stand_for_lengths(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, np.linspace(2.0, 4.5, 40), evidence=False)
    del document["meta"]["skeleton"]["ref_local_offsets_m"]
    path = original_npz(tmp_path / "a.npz", document)
    assert "positions are not known" in " ".join(read_mpl_npz(path)[0].warnings)
    with np.load(path, allow_pickle=True) as archive:
        arrays = dict(archive)
    basis = np.array([HOUSE[word] for word in UNREAL], dtype=float).T
    places = motion.positions().numpy() @ basis - arrays["root_pos"][:, None]
    component = np.stack([turn(2, angle) for angle in arrays["root_yaw"][:, 0]])
    arrays["bone_pos"] = (places @ component).astype(np.float32)
    np.savez(path, **arrays)
    (clip,) = read_mpl_npz(path)
    assert clip.notes["skeleton"] == "BonePositions"
    torch.testing.assert_close(clip.motion.positions(), motion.positions(), atol=1e-5, rtol=0)
