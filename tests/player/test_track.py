"""Tracks of the player, and the payload that a page holds of them."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, JointMotion
from motionkit.player import PlayerTrack, track_of
from motionkit.player import _page as payload
from motionkit.player._figure import figure_of
from motionkit.rigs import find_feet, head_joint, sides, soft_contacts, solve
from motionkit.rigs.bodymap import body_to_kit

from .figures import track, walking


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("LeftArm", "RightArm"), ("mixamorig:LeftUpLeg", "mixamorig:RightUpLeg"), ("thigh_l", "thigh_r"),
        ("upperleg.L", "upperleg.R"), ("lfemur", "rfemur"), ("Bip01 L Calf", "Bip01 R Calf"), ("LMrot", "RMrot"),
        ("L_Hand", "R_Hand"), ("left_hip", "right_hip"), ("hand_l End", "hand_r End"),
    ],
)  # fmt: skip
def test_sides_of_the_names_that_rigs_use(left: str, right: str) -> None:
    assert sides(["Hips", left, right, "Spine"]) == ("-", "L", "R", "-")


def test_a_name_that_only_starts_like_a_left_one_is_in_the_middle() -> None:
    assert sides(["Lumbar", "LowerBack", "Spinel", "Root", "Chest"]) == ("-",) * 5


def test_the_two_bodies_have_as_many_left_as_right_joints() -> None:
    for skeleton in (HUMANML, KIT):
        found = sides(skeleton.joint_names)
        pairs = {(found[a], found[b]) for a, b in skeleton.mirror_pairs}
        assert pairs == {("L", "R")}
        assert found.count("L") == len(skeleton.mirror_pairs)
    assert HUMANML.joint_names[head_joint(HUMANML.joint_names)] == "head"
    assert KIT.joint_names[head_joint(KIT.joint_names)] == "BUN"
    assert head_joint(["Hips", "Head", "Head End"]) == 1
    assert head_joint(["Hips", "Forehead"]) == -1


def test_names_come_from_the_parents_of_a_known_body() -> None:
    assert track().names == HUMANML.joint_names
    free = PlayerTrack("x", torch.zeros(2, 3, 3), (-1, 0, 1), 20.0)
    assert free.names == ()
    assert figure_of(free).sides == ("-", "-", "-")


def test_a_robot_is_drawn_by_its_own_radii() -> None:
    """A limb begins at its first joint, and the page never gives it the skin of a person."""
    radii = (0.1, 0.08, 0.05, 0.04, 0.05)
    joints = torch.rand(3, 5, 3).double()
    motion = JointMotion(("hips", "left_hip", "left_knee", "right_hip", "right_knee"), (-1, 0, 1, 0, 3), joints, 20.0)
    robot = replace(motion, radii=radii)
    figure = figure_of(track_of(robot.cut(1).resample(10.0), "x"))
    assert figure.radii == radii
    assert figure.sides == ("-", "-", "L", "-", "R")
    assert figure_of(track_of(motion, "x")).sides == ("-", "L", "L", "R", "R")
    parts = [payload.document([track_of(each, "x")], title="x")["tracks"][0] for each in (robot, motion)]
    assert [part.get("links") for part in parts] == [True, None]
    assert parts[0]["radii"] == list(radii)


def test_kit_figures_are_coloured_by_the_side_they_show() -> None:
    """Facing +Z, a person's left is at +X, where KIT's names say right."""
    joints = body_to_kit(walking(4).double())
    right_hip, left_hip, right_shoulder, left_shoulder = KIT.face_joints
    motion = JointMotion(KIT.joint_names, KIT.parents, joints, 12.5)
    for shown in (
        PlayerTrack("x", joints, KIT.parents, 12.5),
        track_of(motion, "x"),
        track_of(solve(motion).motion, "x"),
    ):
        found = figure_of(shown).sides
        assert [found[joint] for joint in (left_hip, left_shoulder + 2)] == ["L", "L"]
        assert [found[joint] for joint in (right_hip, right_shoulder + 2)] == ["R", "R"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"positions": torch.zeros(4, 3)}, "[frames, joints, 3]"),
        ({"positions": torch.zeros(0, 22, 3)}, "[frames, joints, 3]"),
        ({"positions": torch.zeros(4, 21, 3)}, "21 joints, parents 22"),
        ({"parents": (-1, *range(1, 22))}, "parents name"),
        ({"names": ("a", "b")}, "2 names for 22 joints"),
        ({"fps": 0.0}, "frames per second"),
        ({"fps": float("nan")}, "frames per second"),
        ({"positions": torch.full((4, 22, 3), float("nan"))}, "no frame is free of NaN"),
        ({"positions": torch.full((4, 22, 3), 2e4)}, "is the unit right"),
        ({"radii": (0.1,)}, "1 radii for 22 joints"),
        ({"radii": (0.0,) * 22}, "a radius is not above 0"),
        ({"contacts": torch.zeros(3, 2)}, "contacts are [3, 2]"),
        ({"contacts": torch.full((40, 2), float("inf"))}, "contacts are not finite"),
        ({"segments": [("a", 0.0, 1.0)], "scores": [1.0, 2.0]}, "2 scores for 1 segments"),
        ({"segments": [("a", 0.0, 1.0)], "scores": [float("nan")]}, "scores are not finite"),
        ({"segments": [("a", 1.0, 0.5)]}, "seconds"),
        ({"colour": "red;background:url(x)"}, "not #rrggbb"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(change: dict, said: str) -> None:
    fields = {"title": "my clip", "positions": walking(), "parents": HUMANML.parents, "fps": 20.0} | change
    with pytest.raises(MotionkitError) as caught:
        PlayerTrack(**fields)
    assert "my clip" in caught.value.message
    assert said in caught.value.message


def test_a_motion_brings_its_contacts() -> None:
    contacts = torch.rand(40, 2)
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, walking(), 20.0, {"contacts": contacts})
    made = track_of(motion, "walk", segments=[("go", 0.0, 2.0)], scores=[0.5])
    assert made.contacts is not None
    assert torch.equal(made.contacts, contacts)
    assert made.names == HUMANML.joint_names
    assert made.duration == 2.0
    four = JointMotion(HUMANML.joint_names, HUMANML.parents, walking(), 20.0, {"contacts": torch.rand(40, 4)})
    assert track_of(four, "walk").contacts is None, "four columns are no two feet"


def test_collars_have_the_colour_of_the_trunk() -> None:
    """Their bones start in the middle of the chest."""
    found = dict(zip(HUMANML.joint_names, figure_of(track()).sides, strict=True))
    assert found["left_collar"] == found["right_collar"] == "-"
    assert [found[f"left_{part}"] for part in ("shoulder", "wrist", "hip", "foot")] == ["L"] * 4
    names = ("Hips", "Spine", "LeftShoulder", "LeftArm", "RightShoulder", "RightArm", "LeftUpLeg", "RightUpLeg")
    rig = PlayerTrack("x", torch.rand(3, 8, 3), (-1, 0, 1, 2, 1, 4, 0, 0), 20.0, names=names)
    assert figure_of(rig).sides == ("-", "-", "-", "L", "-", "R", "L", "R")


def test_a_figure_measures_the_body_and_not_its_walk() -> None:
    near, far = figure_of(track(frames=20)), figure_of(track(frames=400))
    tall = walking()[0, :, 1].max().item()
    for figure in (near, far):
        assert figure.height == pytest.approx(tall, abs=1e-9)
        assert figure.middle == pytest.approx(tall / 2, abs=1e-9)
        assert figure.reach < 0.8
    assert far.spread > 9
    # The camera's path is the root's, and steady: in the middle of a straight walk it is the root itself.
    assert torch.allclose(far.follow[100:300], far.positions[100:300, 0][:, [0, 2]], atol=1e-9)


def test_a_figure_of_another_unit_has_limbs_in_proportion() -> None:
    usual = figure_of(track())
    large = figure_of(PlayerTrack("giant", walking() * 10, HUMANML.parents, 20.0))
    assert torch.allclose(torch.tensor(large.radii), 10 * torch.tensor(usual.radii), atol=2e-4)
    thigh, hand = HUMANML.index("left_knee"), HUMANML.index("left_wrist")
    assert usual.radii[thigh] > usual.radii[hand] > 0.005


def test_a_gap_repeats_the_last_good_frame() -> None:
    positions = walking()
    positions[0] = float("nan")
    positions[10:12, 3, 1] = float("inf")
    figure = figure_of(PlayerTrack("gap", positions, HUMANML.parents, 20.0))
    assert figure.shown.logical_not().nonzero().flatten().tolist() == [0, 10, 11]
    assert torch.equal(figure.positions[0], positions[1])
    assert torch.equal(figure.positions[11], positions[9])
    assert bool(figure.positions.isfinite().all())


def test_a_joint_without_bones_is_a_ball() -> None:
    figure = figure_of(PlayerTrack("marks", torch.rand(4, 3, 3), (-1, -1, 1), 20.0))
    assert figure.lone == (0,)
    assert figure.bones == ((1, 2),)
    assert figure.radii[0] > figure.radii[2] > 0


def decode(text: str, rows: int, columns: int) -> np.ndarray:
    """The format's definition, number by number."""
    stream = iter(base64.b64decode(text))
    values = np.zeros((rows, columns), dtype=np.int64)
    for row in range(rows):
        for column in range(columns):
            number = shift = 0
            while True:
                byte = next(stream)
                number |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            second = -(number + 1) // 2 if number & 1 else number // 2
            before = values[row - 1, column] if row > 0 else 0
            speed = before - (values[row - 2, column] if row > 1 else 0)
            values[row, column] = before + speed + second
    assert next(stream, None) is None
    return values


def test_numbers_come_back_exactly() -> None:
    rng = np.random.default_rng(0)
    largest = int(payload.STEP**-1 * 10_000)
    for values in (
        rng.integers(-largest, largest + 1, (7, 5)),
        np.array([[largest], [-largest], [largest], [-largest]]),
        rng.integers(-200, 200, (50, 6)).cumsum(0),
        np.zeros((3, 2), dtype=np.int64),
    ):
        assert np.array_equal(decode(payload.encode(values), *values.shape), values)


def test_positions_come_back_within_half_a_tenth_of_a_millimetre() -> None:
    shown = track()
    part = payload.document([shown], title="x")["tracks"][0]
    decoded = decode(part["positions"], 40, 66).reshape(40, 22, 3) * payload.STEP
    assert np.abs(decoded - shown.positions.numpy()).max() <= 0.5001e-4
    assert part["sides"].count("L") == part["sides"].count("R") == 7
    assert (part["frames"], part["fps"], part["duration"], part["gaps"]) == (40, 20.0, 2.0, [])


def test_ten_clips_of_ten_seconds_are_small() -> None:
    torch.manual_seed(0)
    rough = [
        PlayerTrack(f"clip {k}", walking(200) + 0.001 * torch.randn(200, 22, 3), HUMANML.parents, 20.0)
        for k in range(10)
    ]
    assert len(json.dumps(payload.document(rough, title="ten"))) < 450_000


def test_gaps_are_said_and_marked() -> None:
    positions = walking()
    positions[5] = float("nan")
    positions[20:30] = float("nan")
    document = payload.document([PlayerTrack("hole", positions, HUMANML.parents, 20.0)], title="")
    assert document["tracks"][0]["gaps"] == [[5, 6], [20, 30]]
    assert document["notes"] == ["Frames 5, 20-29 have no finite positions; the figure disappears there."]


def test_a_thousand_tracks_are_cut_and_it_is_said() -> None:
    document = payload.document([track(f"t{k}", frames=2) for k in range(1000)], title="")
    assert len(document["tracks"]) == payload.MAX_TRACKS
    assert document["notes"] == [f"The first {payload.MAX_TRACKS} of 1000 motions are shown; a page holds no more."]


def test_long_clips_are_thinned_out_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_VALUES", 66 * 100)
    document = payload.document([track("long", frames=240, fps=60.0), track("short", frames=10)], title="")
    long, short = document["tracks"]
    assert (long["stride"], long["frames"], long["fps"], long["fileFps"], long["duration"]) == (3, 80, 20.0, 60.0, 4.0)
    assert (short["stride"], short["frames"]) == (1, 10)
    assert document["notes"] == ["long: Every 3rd frame is shown, 20 of 60 per second."]
    kept = walking(240, 60.0)[::3].numpy()
    assert np.abs(decode(long["positions"], 80, 66).reshape(80, 22, 3) * payload.STEP - kept).max() <= 0.5001e-4


def test_what_no_thinning_makes_fit_is_cut_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_VALUES", 66 * 20)
    document = payload.document([track("a", frames=100), track("b", frames=100)], title="")
    assert [part["title"] for part in document["tracks"]] == ["a"]
    assert document["tracks"][0]["frames"] == 20
    assert document["tracks"][0]["duration"] == 2.0
    assert [note.split(" ")[0:3] for note in document["notes"]] == [
        ["The", "first", "1"], ["Every", "2nd", "frame"], ["The", "first", "2"],
    ]  # fmt: skip


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(MotionkitError, match="no motion"):
        payload.document([], title="x")


def test_contacts_are_measured_and_a_tracks_own_are_kept_where_its_feet_are_unknown() -> None:
    said = torch.tensor([[0.0, 1.0]]).repeat(40, 1)
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, walking(), 20.0, {"contacts": said})
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    part = payload.document([track_of(motion, "known")], title="")["tracks"][0]
    measured = np.frombuffer(base64.b64decode(part["contacts"]), np.uint8).reshape(40, 2) / 255
    assert np.abs(measured - soft_contacts(walking(), 20.0, feet).numpy()).max() <= 0.51 / 255
    assert [list(foot) for foot in part["feet"]] == [[7, 10], [8, 11]]
    unknown = replace(motion, names=tuple(f"joint{i}" for i in range(22)))
    part = payload.document([track_of(unknown, "unknown")], title="")["tracks"][0]
    assert part["feet"] is None
    assert list(base64.b64decode(part["contacts"])[:4]) == [0, 255, 0, 255]
