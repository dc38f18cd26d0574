from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import motionkit
from motionkit.errors import MotionkitError
from motionkit.formats.amass import read_amass, write_amass
from motionkit.motion import HUMANML, Motion, ReadOptions, joints_to_features
from motionkit.rigs import named_rig, onto_rig, to_body
from motionkit.rigs.rest import default_rest
from motionkit.starter import generate

FRAMES = 12


def rodrigues(vector: np.ndarray) -> np.ndarray:
    """One axis-angle vector to a matrix, from the textbook formula."""
    angle = math.sqrt(sum(float(value) ** 2 for value in vector))
    if angle == 0:
        return np.eye(3)
    x, y, z = (float(value) / angle for value in vector)
    c, s = math.cos(angle), math.sin(angle)
    return np.array(
        [
            [c + x * x * (1 - c), x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [y * x * (1 - c) + z * s, c + y * y * (1 - c), y * z * (1 - c) - x * s],
            [z * x * (1 - c) - y * s, z * y * (1 - c) + x * s, c + z * z * (1 - c)],
        ]
    )


def slow_joints(poses: np.ndarray, trans: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """SMPL's joints in the file's world, joint by joint: the body turns about its pelvis, then moves by trans."""
    out = np.zeros((len(poses), 22, 3))
    for frame, (pose, place) in enumerate(zip(poses, trans, strict=True)):
        turns: list[np.ndarray] = []
        for joint, parent in enumerate(HUMANML.parents):
            local = rodrigues(pose[3 * joint : 3 * joint + 3])
            if parent < 0:
                turns.append(local)
                out[frame, joint] = rest[joint] + place
            else:
                turns.append(turns[parent] @ local)
                out[frame, joint] = out[frame, parent] + turns[parent] @ (rest[joint] - rest[parent])
    return out


def humanml3d_axes(joints: np.ndarray) -> np.ndarray:
    """What HumanML3D's scripts do to AMASS joints: swap y and z, later negate x."""
    swapped = joints @ np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    swapped[..., 0] *= -1
    return swapped


def recording(width: int = 156, seed: int = 0, **changes: object) -> dict[str, object]:
    """A person in AMASS' world: Z up, so that the pelvis is turned a quarter about X."""
    rng = np.random.default_rng(seed)
    poses = rng.normal(0, 0.3, (FRAMES, width))
    poses[:, :3] = [math.pi / 2, 0, 0]
    poses[:, :3] += rng.normal(0, 0.1, (FRAMES, 3))
    data = {
        "poses": poses,
        "trans": rng.normal(0, 1, (FRAMES, 3)),
        "betas": rng.normal(0, 1, 16),
        "mocap_framerate": np.array(120.0),
        "gender": np.array("female"),
        "dmpls": np.zeros((FRAMES, 8)),
    } | changes
    return {name: value for name, value in data.items() if value is not None}


def save(path: Path, data: dict[str, object]) -> Path:
    np.savez(path, **data)
    return path


def default_joints() -> np.ndarray:
    rest = default_rest().numpy().copy()
    for joint, parent in list(enumerate(HUMANML.parents))[1:]:
        rest[joint] += rest[parent]
    return rest


@pytest.fixture
def model(tmp_path: Path) -> dict[str, np.ndarray]:
    """A body model of random numbers with SMPL-H's arrays."""
    rng = np.random.default_rng(5)
    regressor = rng.random((52, 60))
    parents = np.array([*HUMANML.parents, *range(21, 51)], dtype=np.int64)
    table = np.stack([np.where(parents < 0, 2**32 - 1, parents), np.arange(52)]).astype(np.uint32)
    arrays = {
        "J_regressor": regressor / regressor.sum(1, keepdims=True),
        "v_template": rng.normal(0, 0.5, (60, 3)),
        "shapedirs": rng.normal(0, 0.01, (60, 3, 16)),
        "kintree_table": table,
        "posedirs": np.zeros((60, 3, 9)),
    }
    np.savez(tmp_path / "model.npz", **arrays)
    return arrays


@pytest.mark.parametrize("width", [66, 72, 156, 165])
def test_joints_equal_slow_kinematics_in_humanml3ds_axes(tmp_path: Path, width: int):
    data = recording(width)
    (clip,) = read_amass(save(tmp_path / "a.npz", data))
    assert isinstance(clip.motion, Motion)
    assert clip.motion.names == HUMANML.joint_names
    assert clip.motion.fps == 120.0
    slow = slow_joints(data["poses"], data["trans"], default_joints())
    np.testing.assert_allclose(clip.motion.positions(), humanml3d_axes(slow), atol=1e-9)
    assert clip.notes["gender"] == "female"
    assert "betas do not count" in clip.notes["body"]
    assert ("not read" in clip.notes) == (width != 66)


def test_the_axes_are_a_turn_and_no_mirror():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4, 3))
    turned = humanml3d_axes(points.copy())
    np.testing.assert_allclose(turned, np.stack([-points[:, 0], points[:, 2], points[:, 1]], 1))
    assert np.linalg.det(points[:3]) == pytest.approx(np.linalg.det(turned[:3]))


def test_a_model_file_gives_the_shape(tmp_path: Path, model: dict[str, np.ndarray]):
    data = recording()
    path = save(tmp_path / "a.npz", data)
    (clip,) = read_amass(path, ReadOptions(smpl_model=tmp_path / "model.npz", up="z"))
    vertices = model["v_template"] + sum(model["shapedirs"][..., k] * data["betas"][k] for k in range(16))
    slow = slow_joints(data["poses"], data["trans"], (model["J_regressor"] @ vertices)[:22])
    np.testing.assert_allclose(clip.motion.positions(), humanml3d_axes(slow), atol=1e-9)
    assert clip.notes["body"] == "model.npz"


def test_a_folder_of_models_is_chosen_from_by_gender(tmp_path: Path, model: dict[str, np.ndarray]):
    path = save(tmp_path / "a.npz", recording())
    (tmp_path / "smplh/female").mkdir(parents=True)
    (tmp_path / "model.npz").rename(tmp_path / "smplh/female/model.npz")
    (clip,) = read_amass(path, ReadOptions(smpl_model=tmp_path / "smplh"))
    assert clip.notes["body"] == "model.npz"
    save(path, recording(gender=np.array(b"male")))
    with pytest.raises(MotionkitError, match="no male SMPL model"):
        read_amass(path, ReadOptions(smpl_model=tmp_path / "smplh"))


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Path, dict[str, Any]], object]:
    return lambda path, model: np.savez(path, **model | {name: change(model[name])})


MODELS: dict[str, tuple[Callable[[Path, dict[str, Any]], object], str]] = {
    "none.npz": (lambda path, model: None, "no SMPL model"),
    "short.npz": (lambda path, model: np.savez(path, J_regressor=0, v_template=0), "shapedirs"),
    "joints.npz": (changed("J_regressor", lambda rows: rows[:10]), "22 joints"),
    "order.npz": (changed("kintree_table", lambda rows: rows[:, ::-1].copy()), "SMPL's order"),
    "object.npz": (changed("J_regressor", lambda rows: np.array({"a": 1}, dtype=object)), "J_regressor"),
    "chumpy.pkl": (lambda path, model: path.write_bytes(b"\x80\x02cchumpy.ch\nCh\nq\x00."), "toarray()"),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_that_cannot_be_used_say_why(tmp_path: Path, model: dict[str, np.ndarray], name: str):
    make, word = MODELS[name]
    make(tmp_path / name, model)
    with pytest.raises(MotionkitError) as caught:
        read_amass(save(tmp_path / "a.npz", recording()), ReadOptions(smpl_model=tmp_path / name))
    assert word in caught.value.sentence()


def test_a_plain_pickle_of_a_model_is_read(tmp_path: Path, model: dict[str, np.ndarray]):
    path = save(tmp_path / "a.npz", recording())
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(model, protocol=2))
    assert read_amass(path, ReadOptions(smpl_model=tmp_path / "plain.pkl"))[0].notes["body"] == "plain.pkl"


def test_what_is_written_is_what_was_read(tmp_path: Path):
    data = recording(66)
    (clip,) = read_amass(save(tmp_path / "a.npz", data), ReadOptions(up="z"))
    write_amass(tmp_path / "b.amass.npz", clip.motion)
    with np.load(tmp_path / "b.amass.npz") as content:
        made = {name: content[name] for name in content.files}
    np.testing.assert_allclose(made["trans"], data["trans"], atol=1e-6)
    written = np.concatenate([made["root_orient"], made["pose_body"]], axis=1)
    for one, other in zip(written.reshape(-1, 3), data["poses"].reshape(-1, 3), strict=True):
        np.testing.assert_allclose(rodrigues(one), rodrigues(other), atol=1e-6)
    shapes = {name: made[name].shape for name in ("betas", "pose_hand", "pose_jaw", "pose_eye")}
    assert shapes == {"betas": (16,), "pose_hand": (FRAMES, 90), "pose_jaw": (FRAMES, 3), "pose_eye": (FRAMES, 6)}
    assert not any(made[name].any() for name in shapes)
    words = {name: made[name].item() for name in ("gender", "surface_model_type", "num_betas", "mocap_frame_rate")}
    assert words == {"gender": "neutral", "surface_model_type": "smplx", "num_betas": 16, "mocap_frame_rate": 120.0}
    assert made["mocap_time_length"] == FRAMES / 120
    (again,) = read_amass(tmp_path / "b.amass.npz", ReadOptions(up="z"))
    np.testing.assert_allclose(again.motion.positions(), clip.motion.positions(), atol=2e-6)
    assert again.notes["format"] == "SMPL rotations (SMPL-X)"


def test_what_a_motion_knows_of_its_body_is_written(tmp_path: Path, model: dict[str, np.ndarray]):
    data = recording()
    options = ReadOptions(up="z", smpl_model=tmp_path / "model.npz")
    (clip,) = read_amass(save(tmp_path / "a.npz", data), options)
    vertices = model["v_template"] + model["shapedirs"] @ data["betas"]
    hands = np.linspace(-1, 1, 90)
    body = {"betas": data["betas"], "pelvis": model["J_regressor"][0] @ vertices, "hands": hands}
    tracks = {f"smplx_{name}": torch.tensor(values).expand(FRAMES, -1) for name, values in body.items()}
    write_amass(tmp_path / "b.npz", replace(clip.motion, tracks=tracks))
    with np.load(tmp_path / "b.npz") as content:
        np.testing.assert_allclose(content["betas"], data["betas"], atol=1e-6)
        np.testing.assert_allclose(content["pose_hand"], np.tile(hands, (FRAMES, 1)), atol=1e-6)
        np.testing.assert_allclose(content["trans"], data["trans"], atol=1e-6)
    (again,) = read_amass(tmp_path / "b.npz", options)
    np.testing.assert_allclose(again.motion.positions(), clip.motion.positions(), atol=2e-6)


def test_other_bodies_are_brought_to_smpl_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    np.save("walk.npy", generate("walk", frames=40).joints)
    walk = motionkit.read("walk.npy")
    walk.save("walk.amass.npz")  # joints alone
    expected = onto_rig(walk.motion, named_rig("smpl")).motion.positions()[:, :22]
    np.testing.assert_allclose(motionkit.read("walk.amass.npz").positions(), expected, atol=2e-6)
    motionkit.convert("walk.npy", "mixamo.bvh", rig="mixamo")
    with pytest.raises(MotionkitError, match="not those of SMPL by name") as caught:
        motionkit.read("mixamo.bvh").save("no.amass.npz")
    assert "--rig smpl" in caught.value.fix
    motionkit.convert("mixamo.bvh", "files", to="amass", rig="smpl")
    assert motionkit.read("files/mixamo.amass.npz").frames == motionkit.read("mixamo.bvh").frames
    assert sorted(path.name for path in Path().glob("*.amass.npz")) == ["walk.amass.npz"]


def test_parts_instead_of_poses(tmp_path: Path):
    whole = recording(66)
    (one,) = read_amass(save(tmp_path / "a.npz", whole))
    poses = whole["poses"]
    for names in (("root_orient", "pose_body"), ("global_orient", "body_pose")):
        parts = recording(poses=None) | {names[0]: poses[:, :3], names[1]: poses[:, 3:].reshape(FRAMES, 21, 3)}
        parts["trans"] = whole["trans"]
        (two,) = read_amass(save(tmp_path / "b.npz", parts))
        torch.testing.assert_close(two.motion.positions(), one.motion.positions())


def test_a_world_with_y_up_is_seen(tmp_path: Path):
    data = recording()
    data["poses"][:, 0] -= math.pi / 2
    (clip,) = read_amass(save(tmp_path / "a.npz", data))
    slow = slow_joints(data["poses"], data["trans"], default_joints())
    np.testing.assert_allclose(clip.motion.positions(), slow, atol=1e-9)
    assert "--up z" in clip.warnings[0]
    (told,) = read_amass(tmp_path / "a.npz", ReadOptions(up="z"))
    np.testing.assert_allclose(told.motion.positions(), humanml3d_axes(slow), atol=1e-9)


def test_names_of_the_frame_rate(tmp_path: Path):
    for name in ("mocap_frame_rate", "fps"):
        data = recording(mocap_framerate=None) | {name: np.array(60)}
        assert read_amass(save(tmp_path / "a.npz", data))[0].motion.fps == 60.0
        (given,) = read_amass(tmp_path / "a.npz", ReadOptions(fps=99.0))
        assert (given.motion.fps, given.notes["fps"]) == (99.0, "99")
        assert given.warnings[0] == "its file says 60 frames per second: 99 were taken, as given (--source-fps)."
    save(tmp_path / "a.npz", recording(mocap_framerate=None))
    with pytest.raises(MotionkitError) as error:
        read_amass(tmp_path / "a.npz")
    assert "--source-fps 120" in str(error.value.fix)
    assert read_amass(tmp_path / "a.npz", ReadOptions(fps=99.0))[0].motion.fps == 99.0


def test_betas_that_are_not_finite_stop_only_what_is_made_from_them(tmp_path: Path):
    path = save(tmp_path / "a.npz", recording(betas=np.array([np.nan, 0.0])))
    (clip,) = read_amass(path)
    (sound,) = read_amass(save(tmp_path / "b.npz", recording()))
    torch.testing.assert_close(clip.motion.positions(), sound.motion.positions())
    with pytest.raises(MotionkitError, match="betas"):
        read_amass(path, ReadOptions(smpl_model=tmp_path / "any.npz"))


def turned_about(x: float, *, trans: np.ndarray | None = None) -> dict[str, object]:
    """A person in a T-pose whose root is turned about X: 90 degrees stand in AMASS' world, 180 in a camera's."""
    poses = np.zeros((FRAMES, 156))
    poses[:, 0] = math.radians(x)
    return {"poses": poses, "trans": np.zeros((FRAMES, 3)) if trans is None else trans, "mocap_framerate": 30.0}


@pytest.mark.parametrize(
    ("x", "place", "up", "said"),
    [
        (90, (0, 0, 0.9), "z", ""),
        (180, (0, 0, 0), "-y", "the trunk points along -Y: Y down was taken; if that is wrong, pass --up z."),
        (180, (0, 1, 4.0), "-y", "the trunk points along -Y"),
        (180, (0, 0, 0.12), "z", "lies along -Y for most of the clip: if Y down is meant, pass --up -y."),
        (0, (0, 0, 0), "y", "the trunk points along Y: Y up was taken"),
        (-90, (0, 0, 0), "-z", "the trunk points along -Z: Z down was taken"),
    ],
)
def test_the_axes_of_cameras_are_seen(tmp_path: Path, x: float, place: tuple[float, ...], up: str, said: str):
    path = save(tmp_path / "a.npz", turned_about(x, trans=np.tile(np.array(place, dtype=float), (FRAMES, 1))))
    (clip,) = read_amass(path)
    assert (clip.notes["up"], " ".join(clip.warnings)[: len(said)], bool(clip.warnings)) == (up, said, bool(said))
    places = clip.motion.positions()
    rise = float((places[:, HUMANML.index("head"), 1] - places[:, 0, 1]).mean())
    assert rise > 0.5 or "lies" in said
    (given,) = read_amass(path, ReadOptions(up={180: "-y", 90: "z", 0: "y", -90: "-z"}[int(x)]))
    assert given.warnings == ()
    places = given.motion.positions()
    assert float((places[:, HUMANML.index("head"), 1] - places[:, 0, 1]).mean()) > 0.5


def test_the_rest_pose_is_a_person_with_arms_out():
    rest = torch.from_numpy(default_joints())
    lengths = torch.tensor(HUMANML.target_offsets).norm(dim=-1)
    for joint, parent in list(enumerate(HUMANML.parents))[1:]:
        assert float((rest[joint] - rest[parent]).norm()) == pytest.approx(float(lengths[joint]), abs=1e-7)
    index = HUMANML.index
    assert rest[index("left_wrist"), 0] > 0.6
    assert rest[index("right_wrist"), 0] < -0.6
    assert rest[index("left_foot"), 2] > rest[index("left_ankle"), 2] + 0.1
    assert rest[index("head"), 1] - rest[index("left_foot"), 1] > 1.3


def test_resampled_to_features(tmp_path: Path):
    data = recording()
    (clip,) = read_amass(save(tmp_path / "a.npz", data))
    joints = to_body(clip.motion, HUMANML, 20.0)
    assert joints.shape == (2, 22, 3)
    torch.testing.assert_close(joints, clip.motion.positions()[::6])
    assert torch.isfinite(joints_to_features(joints, HUMANML)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"poses": np.zeros((FRAMES, 155))}, r"\[12, 155\]"),
        ({"poses": np.zeros((0, 156)), "trans": np.zeros((0, 3))}, r"\[0, 156\]"),
        ({"poses": None}, "no poses"),
        ({"poses": np.array(3.0)}, "poses is not an array"),
        ({"poses": np.full((FRAMES, 156), np.nan)}, "finite"),
        ({"trans": None}, "no trans"),
        ({"trans": np.zeros((5, 3))}, r"trans has shape \[5, 3\]"),
        ({"trans": np.array(["a"] * FRAMES)}, "trans is not an array"),
        ({"mocap_framerate": np.array(0.0)}, "frame rate"),
        ({"mocap_framerate": np.array("fast")}, "frame rate"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, changes: dict[str, object], message: str):
    with pytest.raises(MotionkitError, match=message):
        read_amass(save(tmp_path / "a.npz", recording(**changes)))


def test_damaged_files_are_refused(tmp_path: Path):
    data = save(tmp_path / "a.npz", recording()).read_bytes()
    for name, content in (("cut", data[: len(data) // 2]), ("empty", b""), ("other", b"PK\x03\x04 and then nothing")):
        (tmp_path / f"{name}.npz").write_bytes(content)
    np.save(tmp_path / "array.npy", np.zeros((10, 156)))
    for name, word in (("cut.npz", "cut"), ("empty.npz", "empty"), ("other.npz", "other"), ("array.npy", "several")):
        with pytest.raises(MotionkitError, match=word):
            read_amass(tmp_path / name)
