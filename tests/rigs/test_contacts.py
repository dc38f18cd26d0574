"""Contacts, facing, gait and period of a body."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.clips.profile.statistics import profile_sources
from motionkit.errors import MotionkitError
from motionkit.formats.mpl.npz import mpl_arrays
from motionkit.geometry import rotate_yaw, unwrap
from motionkit.motion import HUMANML, KIT, Clip, JointMotion, Skeleton
from motionkit.rigs import (
    GAITS,
    ContactSpec,
    contact_score,
    find_feet,
    leg_length,
    soft_contacts,
    soft_gait,
    soft_period,
    solve,
)
from motionkit.rigs.bodymap import body_to_kit, front_of
from motionkit.rigs.roles import find_roles
from motionkit.starter import OFFSETS, PARENTS, Order, StarterClip, generate, perform
from motionkit_predictor.data.clips import motion_state
from motionkit_predictor.data.files import _motion

from ..clips.profile.sets import Source
from ..made.persons import person

FEET = ((7, 10), (8, 11))


@cache
def clip(action: str, fps: float = 20.0) -> StarterClip:
    return generate(action, fps=fps, frames=int(4 * fps), seed=3)


def joints(action: str, fps: float = 20.0) -> Tensor:
    return torch.from_numpy(clip(action, fps).joints)


def planted(action: str, fps: float = 20.0) -> np.ndarray:
    return clip(action, fps).contacts.reshape(-1, 2, 2).any(-1)


def auroc(scores: np.ndarray, truth: np.ndarray) -> float:
    high, low = scores[truth][:, None], scores[~truth]
    return float(((high > low) + 0.5 * (high == low)).mean())


def logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@pytest.mark.parametrize(
    ("distance", "vertical", "horizontal"), [(0.0, 0.0, 0.0), (0.0, -0.3, 0.9), (0.012, 0.1, 0.5), (0.003, 0.45, 1.0)]
)
def test_the_score_is_the_mean_of_three(distance: float, vertical: float, horizontal: float) -> None:
    """The geometric one, in cm and cm/s, of the numbers that exporters write beside their scores."""
    parts = (
        logistic(2.0 * (0.5 - 100 * distance)),
        logistic(0.5 * (40.0 - 100 * abs(vertical))),
        logistic(0.2 * (91.5 - 100 * horizontal)),
    )
    place = torch.tensor([distance, vertical, horizontal], dtype=torch.float64)
    score = contact_score(*place, ContactSpec(vxy0_cmps=91.5))
    assert float(score) == pytest.approx(math.prod(parts) ** (1 / 3), rel=1e-9)


@pytest.mark.parametrize("action", ["walk", "run", "march", "jump"])
@pytest.mark.parametrize("fps", [20.0, 60.0, 120.0])
def test_standing_feet_are_told_from_swinging_ones(action: str, fps: float) -> None:
    scores, truth = soft_contacts(joints(action, fps), fps, FEET).numpy(), planted(action, fps)
    for foot in range(2):
        assert auroc(scores[:, foot], truth[:, foot]) > 0.93
        assert np.median(scores[truth[:, foot], foot]) > 0.85
        assert np.median(scores[~truth[:, foot], foot]) < 0.05
        assert (scores[:, foot] > 0.5).mean() == pytest.approx(truth[:, foot].mean(), abs=0.12)


@pytest.mark.parametrize("action", ["walk", "run"])
def test_they_agree_with_the_contacts_of_humanml3d(action: str) -> None:
    body = joints(action)
    moved = (body[1:] - body[:-1])[:, list(HUMANML.feet)].square().sum(-1) < HUMANML.contact_threshold
    truth, scores = moved.unflatten(-1, (2, 2)).any(-1).numpy(), soft_contacts(body, 20.0, FEET)[:-1].numpy()
    assert min(auroc(scores[:, foot], truth[:, foot]) for foot in range(2)) > 0.95


def test_where_the_body_is_and_faces_does_not_matter() -> None:
    body = joints("walk")
    moved = rotate_yaw(body, torch.tensor(2.0, dtype=torch.float64)) + torch.tensor([3.0, -7.0, 5.0])
    torch.testing.assert_close(soft_contacts(moved, 20.0, FEET), soft_contacts(body, 20.0, FEET))


def test_ground_that_is_not_level_is_followed() -> None:
    body, truth = joints("walk", 60.0).clone(), planted("walk", 60.0)
    body[..., 1] += 0.05 * torch.linspace(0, 1, len(body), dtype=torch.float64)[:, None]
    scores = soft_contacts(body, 60.0, FEET).numpy()
    assert min(np.median(scores[truth[:, foot], foot]) for foot in range(2)) > 0.8
    assert max(np.median(scores[~truth[:, foot], foot]) for foot in range(2)) < 0.05


def test_a_lopsided_body_stands_on_both_feet() -> None:
    body = torch.zeros(60, 22, 3, dtype=torch.float64)
    body[:, 8, 1] = body[:, 11, 1] = 0.02
    body[..., 1] += 0.002 * torch.sin(torch.arange(60.0, dtype=torch.float64) * 0.3)[:, None]
    assert (soft_contacts(body, 30.0, FEET) > 0.5).all()


def test_a_foot_held_up_does_not_stand() -> None:
    body = torch.zeros(60, 22, 3, dtype=torch.float64)
    body[:, 8, 1] = body[:, 11, 1] = 0.25
    scores = soft_contacts(body, 30.0, FEET)
    assert (scores[:, 0] > 0.85).all()
    assert (scores[:, 1] < 0.01).all()


def test_one_frame_is_a_clip_too() -> None:
    assert soft_contacts(torch.zeros(1, 22, 3), 20.0, FEET).shape == (1, 2)


def test_feet_are_found_by_name() -> None:
    assert find_feet(HUMANML.joint_names, HUMANML.parents) == FEET
    rig = ["Hips", "LeftUpLeg", "LeftLeg", "LeftFoot", "LeftFoot End", "RightUpLeg", "RightLeg", "RightFoot"]
    parents = [-1, 0, 1, 2, 3, 0, 5, 6]
    assert find_feet([*rig, "RightFoot End"], [*parents, 7]) == ((3, 4), (7, 8))
    assert find_feet(rig, parents) == ((3,), (7,)), "a toe on one side only is no pair"
    unreal = ["pelvis", "thigh_l", "calf_l", "foot_l", "ball_l", "thigh_r", "calf_r", "foot_r", "ball_r"]
    assert find_feet(unreal, [-1, 0, 1, 2, 3, 0, 5, 6, 7]) == ((3, 4), (7, 8))
    assert find_feet(["bone_00", "bone_01"], [-1, 0]) is None


def test_wrong_arguments_are_named() -> None:
    for fps, feet, word in ((20.0, ((7, 10), (8,)), "2 and 1 joints"), (0.0, FEET, "more than 0")):
        with pytest.raises(MotionkitError, match=word):
            soft_contacts(joints("walk"), fps, feet)


def walk(skeleton: Skeleton, turn: float = 0.0) -> JointMotion:
    """Two seconds of a walk ahead, on the joints of either format."""
    joints = person(40, 20.0, 1.0, turn).positions()
    return JointMotion(
        skeleton.joint_names, skeleton.parents, body_to_kit(joints) if skeleton is KIT else joints, skeleton.fps
    )


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
@pytest.mark.parametrize("turn", [0.0, 2.0, -2.0])
def test_a_body_faces_where_it_walks(skeleton: Skeleton, turn: float) -> None:
    motion = walk(skeleton, turn)
    front = front_of(motion.positions(), find_roles(motion.names, motion.parents))
    assert front is not None
    wanted = turn * torch.arange(40, dtype=torch.float64) / 20.0
    assert float((unwrap(front[0]) - wanted).abs().max()) < 0.05
    assert bool(front[1].all())


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_a_profile_says_that_it_walks_ahead(skeleton: Skeleton) -> None:
    bins = profile_sources([Source("a", [Clip(walk(skeleton))])]).travel_bins
    ahead = len(bins) // 2
    assert float(bins[ahead]) == float(sum(bins)), "ahead is the middle bin"


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_the_predictor_sees_it_walk_ahead_on_feet(skeleton: Skeleton) -> None:
    motion = solve(walk(skeleton)).motion
    arrays = mpl_arrays(Clip(motion), "")
    ahead = np.asarray(arrays["traj_dir"]).reshape(len(arrays["heading"]), -1, 2)[20, 2]
    assert ahead[0] > 0.99
    assert find_feet(motion.names, motion.parents) is not None
    assert '"soft_contacts": "synthesised"' in str(arrays["meta_json"])


def test_a_body_on_its_side_tells_nothing() -> None:
    roles = {"left hip": 0, "right hip": 1}
    lying = torch.tensor([[[0.0, 0.3, 0.0], [0.0, 0.0, 0.0]], [[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    front = front_of(lying, roles)
    assert front is not None
    assert front[1].tolist() == [False, True]
    assert float(front[0][1]) == pytest.approx(0.0)
    assert front_of(lying, {"left hip": 0}) is None


def test_unwrapping_keeps_the_first_angle() -> None:
    angles = torch.linspace(3.0, 30.0, 200, dtype=torch.float64)
    wrapped = torch.atan2(angles.sin(), angles.cos())
    np.testing.assert_allclose(unwrap(wrapped), np.unwrap(wrapped.numpy()), atol=1e-9)
    assert math.isclose(float(unwrap(wrapped)[0]), float(wrapped[0]))


FPS, LEG = 30.0, 0.9


def going(speed: float, frames: int = 60) -> Tensor:
    steps = torch.zeros(frames, 3, dtype=torch.float64)
    steps[:, 1] = speed / FPS
    return steps


@pytest.mark.parametrize(
    ("speed", "gait"), [(0.0, "idle"), (0.1, "idle"), (0.6, "walk"), (1.4, "walk"), (2.9, "run"), (-1.4, "walk")]
)
def test_speed_decides_on_the_ground(speed: float, gait: str) -> None:
    found = soft_gait(going(speed), torch.ones(60, 2, dtype=torch.float64), FPS, LEG)
    assert found.sum(-1).allclose(torch.ones(60, dtype=torch.float64))
    assert found.argmax(-1).unique().tolist() == [GAITS.index(gait)]


def test_the_walk_becomes_a_run_at_half_the_froude_number_1() -> None:
    speed = math.sqrt(0.5 * 9.81 * LEG)
    found = soft_gait(going(speed), None, FPS, LEG)[30]
    assert found.tolist() == pytest.approx([0, 0.5, 0.5, 0], abs=1e-6)
    shorter = soft_gait(going(speed), None, FPS, LEG / 2)[30]
    assert shorter[2] > 0.98


def test_only_a_long_flight_is_a_jump() -> None:
    def flying(frames: int) -> Tensor:
        contacts = torch.ones(60, 2, dtype=torch.float64)
        contacts[20 : 20 + frames] = 0.0
        return soft_gait(going(0.0), contacts, FPS, LEG)[:, 3]

    long = flying(9)
    assert (long > 0.5).nonzero()[:, 0].tolist() == list(range(20, 29))
    assert flying(7).max() < 0.01
    one = torch.ones(60, 2, dtype=torch.float64)
    one[20:40, 0] = 0.0  # on one leg
    assert soft_gait(going(0.0), one, FPS, LEG)[:, 3].max() < 0.01
    assert soft_gait(going(0.0), None, FPS, LEG)[:, 3].max() == 0


def test_swaying_in_place_is_no_walk() -> None:
    steps = going(0.8)
    steps[:, 1] *= torch.where(torch.arange(60) % 15 < 7.5, 1.0, -1.0)
    assert soft_gait(steps, None, FPS, LEG)[15:45, 0].min() > 0.9


def test_short_clips_and_legs_without_length() -> None:
    assert soft_gait(going(1.0, 1), torch.zeros(1, 2, dtype=torch.float64), FPS, LEG).shape == (1, 4)
    assert soft_gait(going(1.0, 0), torch.zeros(0, 2, dtype=torch.float64), FPS, LEG).shape == (0, 4)
    with pytest.raises(MotionkitError, match="length of the legs"):
        soft_gait(going(1.0), None, FPS, 0.0)


@pytest.mark.parametrize(
    ("name", "gait", "share"),
    [
        ("wave/right", "idle", 0.9),
        ("walk/normal", "walk", 0.8),
        ("run/normal", "run", 0.8),
        ("jump/high", "jump", 0.15),
    ],
)
def test_the_starters_movements_are_what_their_names_say(name: str, gait: str, share: float) -> None:
    motion = _motion(perform([Order(name, 90, 3)], fps=FPS)[0])
    state, _ = motion_state(motion)
    leg = leg_length(motion.names, motion.parents, motion.offsets)
    found = soft_gait(state.steps, state.contacts, FPS, leg)
    assert float((found.argmax(-1) == GAITS.index(gait)).double().mean()) > share


def test_legs_are_measured_from_the_root_to_the_ankles() -> None:
    offsets = torch.tensor(OFFSETS)
    motion = _motion(perform([Order("wave/right", 2, 0)], fps=FPS)[0])
    chain = [motion.names.index(name) for name in motion.names if name in ("left_hip", "left_knee", "left_ankle")]
    assert len(chain) == 3
    assert leg_length(motion.names, PARENTS, offsets) == pytest.approx(
        float(offsets[chain].norm(dim=-1).sum()), rel=0.02
    )
    assert leg_length(("a", "b"), (-1, 0), torch.ones(2, 3)) == 0.0


def slow_edges(scores: np.ndarray) -> np.ndarray:
    """Phase of one foot, frame by frame, from the words of the definition."""
    rises = [t for t in range(1, len(scores)) if scores[t] > 0.5 and not scores[t - 1] > 0.5]
    phase = np.zeros(len(scores))
    for t in range(len(scores)):
        before = [rise for rise in rises if rise <= t]
        after = [rise for rise in rises if rise > t]
        if not rises:
            phase[t] = 2 * math.pi * t / len(scores)
        elif not before:
            phase[t] = -2 * math.pi + 2 * math.pi * t / rises[0]
        else:
            end = after[0] if after else len(scores)
            phase[t] = 2 * math.pi * (t - before[-1]) / (end - before[-1])
    return phase


@pytest.mark.parametrize("seed", range(5))
def test_edges_follow_the_definition(seed: int) -> None:
    scores = np.random.default_rng(seed).uniform(size=(37, 2)) ** (1 + seed % 3)
    period, _ = soft_period(torch.from_numpy(scores), method="edges")
    left, right = slow_edges(scores[:, 0]), slow_edges(scores[:, 1])
    expected = np.stack([np.sin(left), np.sin(right), np.cos(left), np.cos(right)], axis=1)
    np.testing.assert_allclose(period.numpy(), expected, atol=1e-12)


def test_edges_by_hand() -> None:
    contacts = torch.zeros(12, 2, dtype=torch.float64)
    contacts[2:4, 0] = contacts[6:9, 0] = 0.9  # down at 2 and 6; the right foot never
    period, confidence = soft_period(contacts)
    quarter = [math.sin(0.5 * math.pi * k) for k in range(4)]
    np.testing.assert_allclose(period[2:6, 0], quarter, atol=1e-12)
    np.testing.assert_allclose(period[:2, 2], [1.0, -1.0], atol=1e-12)  # -2 pi, -pi
    np.testing.assert_allclose(period[:, 1], np.sin(2 * np.pi * np.arange(12) / 12), atol=1e-12)
    assert confidence[:, 0].tolist() == [0.5] * 2 + [1.0] * 4 + [0.5] * 6
    assert confidence[:, 1].tolist() == [0.0] * 12


def test_a_clip_that_starts_on_the_foot_has_no_edge_there() -> None:
    contacts = torch.ones(8, 2)
    period, confidence = soft_period(contacts)
    torch.testing.assert_close(period[:, 0], torch.sin(2 * math.pi * torch.arange(8) / 8))
    assert not confidence.any()


@pytest.mark.parametrize("frames", [120, 121])
@pytest.mark.parametrize("height", [0.5, 0.2])
def test_hilbert_finds_the_phase_of_a_sine(frames: int, height: float) -> None:
    """Also where no score reaches 0.5 from below: 0.2 + 0.2 sin stays under it."""
    angle = 2 * math.pi * 3 * torch.arange(frames, dtype=torch.float64) / frames + 0.4
    contacts = torch.stack([height + height * torch.sin(angle), height - height * torch.sin(angle)], -1)
    period, confidence = soft_period(contacts, method="hilbert", fps=30.0)
    expected = torch.stack([angle.sin(), -angle.sin(), angle.cos(), -angle.cos()], -1)
    torch.testing.assert_close(period, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(confidence, torch.full_like(confidence, 2 * height))


def test_hilbert_leaves_out_what_flickers() -> None:
    place = torch.arange(120, dtype=torch.float64) / 60.0
    gait = torch.sin(2 * math.pi * place)
    flicker = 0.3 * torch.sin(2 * math.pi * 20.0 * place)
    contacts = torch.stack([0.5 + 0.4 * gait + flicker, 0.5 - 0.4 * gait], -1)
    period, _ = soft_period(contacts, method="hilbert", fps=60.0)
    torch.testing.assert_close(period[:, 0], gait, atol=1e-9, rtol=0)


def test_both_methods_agree_about_a_steady_walk() -> None:
    place = torch.arange(240, dtype=torch.float64) / 60.0
    left, right = (0.5 + 0.4 * torch.sin(2 * math.pi * place - shift) for shift in (0.7, 0.7 + math.pi))
    contacts = torch.stack([left, right], dim=-1)
    edges, sure = soft_period(contacts)
    smooth, _ = soft_period(contacts, method="hilbert", fps=60.0)
    one_frame = 2 * math.pi / 60.0
    assert float((edges - smooth)[(sure == 1).all(-1)].abs().max()) < one_frame


def test_nobody_moves() -> None:
    period, confidence = soft_period(torch.full((10, 2), 0.9), method="hilbert")
    assert torch.isfinite(period).all()
    assert float(confidence.abs().max()) < 1e-6


def test_hilbert_has_gradients() -> None:
    contacts = torch.rand(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    period, _ = soft_period(contacts, method="hilbert")
    period.sum().backward()
    assert contacts.grad is not None
    assert torch.isfinite(contacts.grad).all()
    assert contacts.grad.abs().sum() > 0


def test_three_feet_are_refused() -> None:
    with pytest.raises(MotionkitError, match=r"\[4, 3\]"):
        soft_period(torch.zeros(4, 3))
