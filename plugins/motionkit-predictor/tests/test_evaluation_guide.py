"""The guide's ``evaluate_teacher`` and ``evaluate_freerun``, with the guide's names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import yaw_matrix
from motionkit_predictor.data.clips import ClipSet, StateClip, cut_windows
from motionkit_predictor.evaluation.baselines import Extrapolation
from motionkit_predictor.evaluation.guide import FreeRunSettings, evaluate_freerun, evaluate_teacher, free_figures
from motionkit_predictor.evaluation.measure import Body, Horizons, measure, measure_row
from motionkit_predictor.states import MotionState

RATE = 2.0
"""Degrees per frame that each joint but the root turns by."""

NAMES = ("hips", "left_knee", "right_knee")
PARENTS = (-1, 0, 0)


def clips(splits: tuple[str, ...] = ("train", "test"), frames: int = 40, speed: float = 0.5) -> ClipSet:
    """Joints that turn evenly while the root goes straight on."""
    angle = torch.deg2rad(RATE * torch.arange(frames, dtype=torch.float64))
    turned = torch.eye(3, dtype=torch.float64).repeat(frames, 3, 1, 1)
    turned[:, 1:] = yaw_matrix(angle)[:, None]
    steps = torch.zeros(frames, 3, dtype=torch.float64)
    steps[:, 0] = speed / 30
    state = MotionState(
        turned, steps, torch.ones(frames, dtype=torch.float64),
        torch.ones(frames, 2, dtype=torch.float64),
    )  # fmt: skip
    offsets = torch.tensor([[0.0, 1.0, 0.0], [0.1, -0.5, 0.0], [-0.1, -0.5, 0.0]], dtype=torch.float64)
    made = tuple(StateClip(f"{split}-{n}", state, offsets, split, True) for n, split in enumerate(splits))
    return ClipSet("made", NAMES, PARENTS, 30.0, made)


class Even:
    """Turns the joints on as they turn in `clips`."""

    names, fps, past = NAMES, 30.0, 2

    def predict(self, known: MotionState, frames: int, *, command: torch.Tensor | None = None) -> MotionState:
        angle = torch.deg2rad(RATE * torch.arange(1, frames + 1, dtype=torch.float64))
        turns = torch.eye(3, dtype=torch.float64).repeat(frames, 3, 1, 1)
        turns[:, 1:] = yaw_matrix(angle)[:, None]
        last = known.part(known.frames - 1).map(lambda values: values.expand(-1, frames, *values.shape[2:]))
        return MotionState(turns @ last.rotations, last.steps, last.heights, last.contacts)


def test_holding_the_pose_is_as_wrong_as_the_joints_turn() -> None:
    hold = Extrapolation(NAMES, 30.0, keep=0.0)
    teacher = evaluate_teacher(hold, clips())
    assert teacher["GeoDeg"] == pytest.approx(RATE)
    assert teacher["InputRotGeoDeg"] == 0
    assert teacher["RootVelMAE"] == pytest.approx(0.25), "0.5 m/s ahead, none to the side"
    free = evaluate_freerun(hold, clips(), settings=FreeRunSettings(warmup_steps=4, horizon=12))
    assert free["FreeRun/GeoDeg"] == free["GeoDeg"] == pytest.approx(RATE * 6.5), "the mean of 1 to 12 frames"
    joints = 2 / 3
    assert free["InputRotGeoDeg"] == pytest.approx(joints * RATE * 6.0), "what is read: 1 to 11 frames, with the root"
    assert free["YawAbsDeg"] == pytest.approx(0, abs=1e-6)
    assert free["FootContact"] == 1
    assert free["KeyBone/left_knee/GeoDeg"] == pytest.approx(RATE * 6.5)


def test_a_perfect_predictor_is_perfect() -> None:
    for found in (evaluate_teacher(Even(), clips()), evaluate_freerun(Even(), clips())):
        for name in ("GeoDeg", "YawAbsDeg", "RootVelMAE", "InputRotGeoDeg"):
            assert found[name] == pytest.approx(0, abs=1e-4)


def test_the_test_split_is_measured_where_there_is_one() -> None:
    hold = Extrapolation(NAMES, 30.0, keep=0.0)
    data = clips(("train", "val", "test"))
    still = clips(("x",), speed=0.0).clips[0]
    slow = tuple(StateClip("t", still.state, one.offsets, one.split, True) if one.split == "test" else one
                 for one in data.clips)  # fmt: skip
    found = evaluate_freerun(hold, ClipSet("set", NAMES, PARENTS, 30.0, slow))
    assert found["RootVelMAE"] == pytest.approx(0)
    assert evaluate_freerun(hold, clips(("train",)))["RootVelMAE"] == pytest.approx(0.25)


HOLD = Extrapolation(NAMES, 30.0, keep=0.0)
WINDOWS = cut_windows(clips().split("test"), past=4, future=12, stride=5)


def test_windows_are_measured_as_they_are() -> None:
    assert evaluate_freerun(HOLD, WINDOWS, body=Body.of(NAMES, PARENTS, 30.0)) == evaluate_freerun(HOLD, clips())


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda body: evaluate_teacher(HOLD, WINDOWS), "skeleton"),
        (
            lambda body: evaluate_freerun(HOLD, WINDOWS, body=body, settings=FreeRunSettings(horizon=13)),
            "horizon is 13",
        ),
        (lambda body: FreeRunSettings(horizon=0), "least"),
        (lambda body: evaluate_teacher(Extrapolation(NAMES, 60.0, keep=0.0), clips()), "60 fps"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[Body], object], word: str) -> None:
    with pytest.raises(MotionkitError, match=word):
        call(Body.of(NAMES, PARENTS, 30.0))


def test_a_measurement_at_horizons_gets_the_guides_names() -> None:
    data, body = clips(), Body.of(NAMES, PARENTS, 30.0)
    windows = cut_windows(data.split("test"), past=4, future=12, stride=5)
    horizons = Horizons.at([100, 400], 30.0)
    rows = {
        name: measure_row(one, windows, body, horizons)
        for name, one in (("model", Even()), ("hold", Extrapolation(NAMES, 30.0, keep=0.0)))
    }
    found = free_figures(measure(rows, windows.takes, horizons))
    assert found["GeoDeg"] == found["FreeRun/GeoDeg"] == pytest.approx(0, abs=1e-4)
    assert found["Hold/GeoDeg"] == pytest.approx(RATE * (3 + 12) / 2)
    assert found["FreeRun/GeoDeg/400"] == pytest.approx(0, abs=1e-4)
    assert found["Hold/KeyBone/right_knee/GeoDeg"] == found["Hold/GeoDeg"]
    assert not any(name.startswith(("Hold/Free", "skill")) for name in found)
