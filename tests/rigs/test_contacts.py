from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw
from motionkit.motion import HUMANML
from motionkit.rigs import ContactSpec, contact_score, find_feet, soft_contacts
from motionkit.starter import StarterClip, generate

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
    ("distance", "vertical", "horizontal"),
    [(0.0, 0.0, 0.0), (0.0, -0.3, 0.9), (0.012, 0.1, 0.5), (0.003, 0.45, 1.0)],
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
    with pytest.raises(MotionkitError, match="2 and 1 joints"):
        soft_contacts(joints("walk"), 20.0, ((7, 10), (8,)))
    with pytest.raises(MotionkitError, match="more than 0"):
        soft_contacts(joints("walk"), 0.0, FEET)
