"""Which axis is up, and how long a unit is, as far as a motion tells."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import roma
import torch

from motionkit.clips.find import open_sources
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.geometry import yaw_matrix
from motionkit.motion import HUMANML, Motion
from motionkit.rigs.detect import UNITS, find_unit, find_up, unit_called
from motionkit.rigs.upright import AXES, lies_at_rest, turn_motion, turn_points, turn_up, weigh
from motionkit.starter import CATALOGUE, Order, generate, perform

from .test_kit import rig

TO_Z = torch.tensor([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=torch.float64)
TO_X = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=torch.float64)


def still(name: str = "motionbuilder", scale: float = 1.0, frames: int = 5) -> Motion:
    """A rig that stands, Y up, its rest pose as it stands."""
    names, parents, places = rig(name, scale)
    index = [max(parent, 0) for parent in parents]
    offsets = places[0] - places[0, index]
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, len(names), 1, 1)
    return Motion(tuple(names), tuple(parents), offsets, rotations, offsets.repeat(frames, 1, 1), 30.0)


def turned(motion: Motion, bones: torch.Tensor, world: torch.Tensor) -> Motion:
    """Lay the bones of the rest pose along other axes, and turn the body as a whole, by the root's rotation."""
    rotations = motion.rotations.clone()
    rotations[:, 0] = world @ bones.T
    rotations[:, 1:] = bones @ rotations[:, 1:] @ bones.T
    translations = motion.translations @ bones.T
    translations[:, 0] = motion.translations[:, 0] @ world.T
    return replace(motion, offsets=motion.offsets @ bones.T, rotations=rotations, translations=translations)


EYE = torch.eye(3, dtype=torch.float64)


TO = {axis: turn_up(axis).T for axis in AXES}
"""From Y up to each direction of up."""


def test_each_direction_is_brought_to_y_without_mirroring():
    for axis in AXES:
        direction = torch.zeros(3, dtype=torch.float64)
        direction["xyz".index(axis[-1])] = -1.0 if axis.startswith("-") else 1.0
        assert turn_points(direction, axis).tolist() == [0.0, 1.0, 0.0]
        assert float(torch.linalg.det(turn_up(axis))) == 1.0
        torch.testing.assert_close(turn_points(torch.eye(3).double(), axis), turn_up(axis).T)


@pytest.mark.parametrize(
    ("bones", "world", "up", "said"),
    [
        (EYE, EYE, "y", ""),
        (TO_Z, TO_Z, "z", ""),
        (EYE, TO_Z, "y", "lies along Z for most of the clip: if Z up is meant, pass --up z"),
        (TO_Z, EYE, "y", "the trunk points along Y: Y up was taken; if that is wrong, pass --up z"),
        (TO_X, EYE, "y", ""),
        (TO_X, TO_Z, "y", "lies along Z"),
        (EYE, TO_X, "y", "lies along -X" if float(TO_X[0, 1]) < 0 else "lies along X"),
        (TO_Z, TO_X, "z", "lies along X"),
        (EYE, TO["-y"], "-y", "the trunk points along -Y: Y down was taken; if that is wrong, pass --up y"),
        (TO["-y"], TO["-y"], "-y", "the trunk points along -Y"),
        (TO["x"], TO["x"], "x", "the trunk points along X: X up was taken"),
        (TO["-x"], TO["-x"], "-x", "the trunk points along -X: X down was taken"),
        (TO["-z"], TO["-z"], "-z", "the trunk points along -Z"),
        (TO_Z, TO["-z"], "-z", "the trunk points along -Z: Z down was taken; if that is wrong, pass --up z"),
        (TO["-y"], EYE, "y", ""),
    ],
    ids=[
        "y", "z", "y lying", "z in y", "x in y", "x lying", "y on its side", "z on its side", "root down", "all down",
        "all x", "all -x", "all -z", "root of z down", "odd rest",
    ],
)  # fmt: skip
def test_rest_pose_and_motion_are_weighed(bones, world, up, said):
    motion = turned(still(), bones, world)
    found, warning = find_up(motion)
    assert (found, bool(warning)) == (up, bool(said))
    assert warning.startswith(said)
    if said.startswith("the trunk"):
        stands = turn_motion(motion, found, up if bones is world else "y" if bones is EYE else "z")
        torch.testing.assert_close(turn_points(motion.positions(), found), stands.positions())


def test_a_body_whose_root_alone_is_turned_keeps_the_rest_pose_that_stands():
    motion = turned(still(), EYE, TO["-y"])
    upright = turn_motion(motion, "-y", "y")
    torch.testing.assert_close(upright.positions(), still().positions())
    torch.testing.assert_close(upright.offsets, still().offsets)


def walking(frames: int = 80) -> torch.Tensor:
    """Somebody who walks 1.1 m a second: joints [T, 22, 3] at 20 frames a second."""
    return torch.from_numpy(generate("walk", frames=frames, seed=2).joints).double()


def found(joints: torch.Tensor, **given: object) -> tuple[str, str]:
    return weigh(joints, HUMANML.joint_names, HUMANML.parents, 20.0, "y", **given)


def about_hips(joints: torch.Tensor, vector: tuple[float, float, float], *, travels: bool = True) -> torch.Tensor:
    """Turn every frame about its hips, and put the clip on the floor."""
    hips = joints[:, :1]
    turn = roma.rotvec_to_rotmat(torch.tensor(vector, dtype=torch.float64))
    made = (joints - hips) @ turn.T + (hips if travels else hips[:1])
    made[..., 1] -= made[..., 1].min()
    return made


@pytest.mark.parametrize("axis", AXES)
def test_a_walk_shows_every_direction_by_its_feet(axis):
    up, said = found(walking() @ TO[axis].T)
    assert up == axis
    assert said.startswith("" if axis == "y" else f"the trunk points along {axis.upper()}: ")


@pytest.mark.parametrize("axis", [axis for axis in AXES if axis not in ("y", "-y")])
def test_a_body_that_stands_still_shows_nothing_and_is_warned_of(axis):
    up, said = found(walking()[:1].repeat(40, 1, 1) @ TO[axis].T)
    assert (up, f"pass --up {axis}." in said) == ("y", True)
    assert found(walking()[:1].repeat(40, 1, 1) @ TO[axis].T, usual=(axis,))[0] == axis


QUARTER = math.pi / 2


@pytest.mark.parametrize("vector", [(-QUARTER, 0, 0), (QUARTER, 0, 0), (0, 0, QUARTER), (1.2, 0, 0), (2.0, 0, 0)])
@pytest.mark.parametrize("travels", [True, False])
def test_who_lies_or_crawls_keeps_the_axis(vector, travels):
    """Supine, prone, on the side, head up or down a little; in place, and drawn along a path across the body."""
    joints = walking() @ yaw_matrix(torch.tensor(QUARTER if vector[2] else 0.0).double()).T
    up, said = found(about_hips(joints, vector, travels=travels))
    assert up == "y"
    assert "pass --up" in said


@pytest.mark.parametrize("metres", [0.15, 0.3, 1.0])
def test_who_rolls_keeps_the_axis(metres):
    laid = about_hips(walking(), (QUARTER, 0, 0), travels=False)
    angle = torch.arange(len(laid)).double() / 10
    turns = roma.rotvec_to_rotmat(torch.stack([0 * angle, 0 * angle, -angle], dim=-1))
    rolled = ((laid - laid[:, :1]) @ turns.mT) + laid[:, :1]
    rolled[..., 0] += (metres * angle)[:, None]
    assert found(rolled)[0] == "y"


def arms_over_head(joints: torch.Tensor) -> torch.Tensor:
    made = joints.clone()
    for side in ("left", "right"):
        shoulder, elbow, wrist = (HUMANML.index(f"{side}_{joint}") for joint in ("shoulder", "elbow", "wrist"))
        made[:, elbow] = made[:, shoulder] + torch.tensor([0.0, 0.27, 0.0])
        made[:, wrist] = made[:, elbow] + torch.tensor([0.0, 0.25, 0.0])
    return made


def test_who_stands_on_the_hands_keeps_the_axis_and_who_is_upside_down_does_not():
    pose = walking()[:1].repeat(40, 1, 1)
    down = (math.pi, 0, 0)
    up, said = found(about_hips(arms_over_head(pose), down))
    assert (up, said) == ("y", "the head is down for most of the clip: if Y down is meant, pass --up -y.")
    assert found(about_hips(pose, down))[0] == "-y"
    assert found(arms_over_head(walking()) @ TO["-y"].T)[0] == "-y", "feet carry it"


def test_where_no_direction_fits_the_default_is_taken_and_said():
    joints = walking()
    angle = torch.arange(len(joints)).double() / 3
    turns = roma.rotvec_to_rotmat(torch.stack([angle, 0 * angle, 0 * angle], dim=-1))
    up, said = found((joints - joints[:, :1]) @ turns.mT + joints[:, :1])
    assert (up, said[:36]) == ("y", "no direction of up fits the body: Y ")
    assert found(about_hips(joints, (0.7, 0, 0))) == ("y", ""), "who bows has the head over the hips"


def test_captured_people_stand_as_they_stood(shared):
    """Every clip of CMU is Y up; and of clips turned to another axis none is turned wrongly."""
    right = dict.fromkeys(AXES, 0)
    paths = sorted((shared / "data" / "cmu" / "bvh").glob("*.bvh"))
    for path in paths:
        (clip,) = read_bvh(path)
        assert clip.notes["up"] == "y"
        assert not [warning for warning in clip.warnings if "--up" in warning]
        motion = clip.motion
        every = max(1, round(motion.fps / 30))
        places = motion.positions()[::every]
        for axis in AXES:
            rate = motion.fps / every
            up, said = weigh(places @ TO[axis].T, motion.names, motion.parents, rate, "y", usual=("z",))
            assert up in ("y", axis)
            assert up == axis or f"pass --up {axis}." in said
            right[axis] += up == axis
        laid = about_hips(places, (-QUARTER, 0, 0), travels=False)
        assert weigh(laid, motion.names, motion.parents, motion.fps / every, "y")[0] == "y"
    assert (right["y"], right["z"]) == (len(paths), len(paths))
    assert right["-y"] >= 0.98 * len(paths)
    assert min(right.values()) >= 0.7 * len(paths)


def test_the_starters_actions_stand_as_they_stood():
    for entry in CATALOGUE:
        made = perform([Order(entry.name, frames=60, seed=0)], fps=20.0)[0].joints
        assert found(torch.from_numpy(made).double(), usual=("z",)) == ("y", ""), entry.name


def test_legs_that_are_spread_still_go_down():
    motion = still()
    legs = [joint for joint, name in enumerate(motion.names) if "UpLeg" in name]
    offsets = motion.offsets.clone()
    for joint, name in enumerate(motion.names):
        if motion.parents[joint] in legs:
            side = 1.0 if name.startswith("Left") else -1.0
            offsets[joint] = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.0, side * 0.7]).double()) @ offsets[joint]
    assert find_up(replace(motion, offsets=offsets)) == ("y", "")


def test_a_tool_is_taken_as_it_is():
    motion = Motion(
        ("Handle", "Blade", "Blade End"), (-1, 0, 1), 100 * torch.eye(3, dtype=torch.float64),
        EYE.repeat(2, 3, 1, 1), EYE.repeat(2, 1, 1), 30.0,
    )  # fmt: skip
    assert find_up(motion) == ("y", "")


def test_z_up_becomes_y_up():
    motion = turned(still(), TO_Z, TO_Z)
    upright = turn_motion(motion, "z", "z")
    torch.testing.assert_close(upright.positions(), still().positions())
    torch.testing.assert_close(upright.offsets, still().offsets)
    torch.testing.assert_close(upright.rotations, still().rotations)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("size", [0.8, 1.0, 1.2])
def test_legs_tell_the_unit(unit, size):
    assert find_unit(still(scale=size / UNITS[unit].metres)) == (unit, "")


@pytest.mark.parametrize("unit", ["m", "cm", "mm", "dm"])
def test_height_tells_the_unit_of_a_rig_without_legs(unit):
    motion = still(scale=1 / UNITS[unit].metres)
    nameless = replace(motion, names=tuple(f"bone{joint}" for joint in range(len(motion.names))))
    found, warning = find_unit(nameless)
    assert found == unit
    assert "no legs are known by name" in warning
    assert "--units" in warning


@pytest.mark.parametrize(("size", "words"), [(300.0, "not known: centimetres"), (0.0, "not known: centimetres")])
def test_what_has_no_size_of_a_person_is_in_centimetres(size, words):
    motion = Motion(
        ("Handle", "Blade"), (-1, 0), torch.tensor([[0.0, 0, 0], [0, size, 0]]).double(), EYE.repeat(2, 2, 1, 1),
        torch.zeros(2, 2, 3).double(), 30.0,
    )  # fmt: skip
    unit, warning = find_unit(motion)
    assert unit == "cm"
    assert words in warning


def test_a_giant_is_doubted():
    unit, warning = find_unit(still(scale=2.2))
    assert unit == "m"
    assert "legs are 1.8 m long if its unit is metres" in warning


@pytest.mark.parametrize(
    ("said", "metres"),
    [
        ("Meters", 1.0),
        (" cm ", 0.01),
        ("inch", 0.0254),
        ("Decimetre", 0.1),
        ("millimeters", 0.001),
        ("asf", 0.0254 / 0.45),
    ],
)
def test_units_have_one_name_in_every_file(said: str, metres: float) -> None:
    unit = unit_called(said)
    assert unit is not None
    assert unit.metres == metres
    assert unit_called("cubits") is None


def animal() -> Motion:
    """A body on four legs, its spine along Z: one metre of it, half a metre of legs."""
    places = {
        "hips": (0, 0.5, 0), "spine": (0, 0.5, 0.5), "neck": (0, 0.5, 1.0), "head": (0, 0.75, 1.25),
        **{f"{side}_{joint}": (x, y, 0) for side, x in (("left", 0.1), ("right", -0.1))
           for joint, y in (("upleg", 0.5), ("knee", 0.25), ("foot", 0.0))},
        **{f"{side}_{joint}": (x, y, 1.0) for side, x in (("left", 0.1), ("right", -0.1))
           for joint, y in (("arm", 0.5), ("forearm", 0.25), ("hand", 0.0))},
    }  # fmt: skip
    above = {"spine": "hips", "neck": "spine", "head": "neck"}
    for side in ("left", "right"):
        above |= {f"{side}_upleg": "hips", f"{side}_knee": f"{side}_upleg", f"{side}_foot": f"{side}_knee"}
        above |= {f"{side}_arm": "neck", f"{side}_forearm": f"{side}_arm", f"{side}_hand": f"{side}_forearm"}
    names = tuple(places)
    parents = tuple(names.index(above[name]) if name in above else -1 for name in names)
    at = torch.tensor([places[name] for name in names], dtype=torch.float64)
    offsets = at - torch.where(torch.tensor(parents)[:, None] < 0, 0.0, at[[max(parent, 0) for parent in parents]])
    rotations = EYE.repeat(40, len(names), 1, 1)
    return Motion(names, parents, offsets, rotations, offsets.repeat(40, 1, 1), 30.0)


def test_an_animal_is_named_and_a_person_is_not(tmp_path):
    assert lies_at_rest(animal())
    assert not lies_at_rest(still())
    write_bvh(tmp_path / "fox.bvh", animal())
    astride = (
        animal()
    )  # left leg and right leg along one axis in opposite directions, as motion capture software writes
    offsets = astride.offsets.clone()
    for side, ahead in (("left", 1.0), ("right", -1.0)):
        for joint in ("knee", "foot"):
            offsets[astride.names.index(f"{side}_{joint}")] = torch.tensor([0.25 * ahead, -0.01, 0.0])
    offsets[astride.names.index("left_upleg"), 1], offsets[astride.names.index("right_upleg"), 1] = -0.06, 0.06
    assert not lies_at_rest(replace(astride, offsets=offsets))
    (clip,) = read_bvh(tmp_path / "fox.bvh")
    assert any("as an animal's do: --rig and data sets" in warning for warning in clip.warnings)


def test_the_unit_is_the_one_that_is_nearest_to_a_body(tmp_path):
    """The legs of this animal are a person's in inches; so its body is 3.4 m tall, and 1.3 m in centimetres."""
    motion = animal()
    size = 33.0 / 0.5 / 100.0  # the writer's centimetres: legs of 33
    write_bvh(
        tmp_path / "fox.bvh", replace(motion, offsets=size * motion.offsets, translations=size * motion.translations)
    )
    assert read_bvh(tmp_path / "fox.bvh")[0].notes["unit"] == "inches", "by its legs"
    (body,) = open_sources([tmp_path / "fox.bvh"]).bodies
    assert (body.unit, body.plausible) == ("cm", False)
