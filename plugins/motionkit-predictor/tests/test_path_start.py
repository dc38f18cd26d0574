"""Where a prediction along a path begins, and feet that glide."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from motionkit.motion import HUMANML, Motion
from motionkit_predictor.continuation import glides
from motionkit_predictor.data.clips import ClipSet, StateClip
from motionkit_predictor.evaluation.long.measure import DRAWN
from motionkit_predictor.path_start import Way, find_start, first_way, start_at
from motionkit_predictor.states import MotionState, steps_of
from tests.made.rigs import starter_rig

FPS, KNOWN = 30.0, 25


def going(key: str, split: str, *parts: tuple[float, float, float, float]) -> StateClip:
    """Return a clip of parts: seconds, m/s to the left and ahead, radians per second."""
    steps = torch.cat([torch.tensor([way]).double().expand(round(seconds * FPS), 3) / FPS for seconds, *way in parts])
    frames = len(steps)
    state = MotionState(
        torch.eye(3).double().expand(frames, 2, 3, 3), steps, torch.ones(frames).double(), torch.zeros(frames, 2)
    )
    return StateClip(key, state, torch.zeros(2, 3), split, contacts_known=False)


def clip_set(*clips: StateClip) -> ClipSet:
    return ClipSet("made", ("root", "head"), (-1, 0), FPS, clips)


def path(name: str) -> Tensor:
    return DRAWN[name].steps(90, FPS)


CLIPS = clip_set(
    going("a_signal", "val", (6, 0, 0, 0)),
    going("backward", "val", (4, 0, -1.2, 0)),
    going("dribble", "val", (4, 0, 1.3, 0)),
    going("walk", "val", (3, 0, 0, 0), (1, 0, 0.6, 0), (3, 0, 1.2, 0)),
    going("circle", "train", (4, 0, 1.2, 0.6)),
    going("run", "train", (4, 0, 3.0, 0)),
    going("short", "val", (0.5, 0, 1.2, 0)),
    going("held out", "test", (4, 0, 2.0, 0)),
)


@pytest.mark.parametrize(
    ("wanted", "key", "least"),
    [
        (first_way(path("straight"), FPS), "walk", 120),
        (first_way(path("straight-slow"), FPS), "walk", 90),
        (Way(0, -1.1, 0), "backward", 0),
        (Way(0, 0, 0), "a_signal", 0),
        (Way(0, 2.9, 0), "run", 0),
    ],
    ids=["straight", "slow", "backward", "stands", "runs"],
)
def test_a_path_begins_where_a_clip_goes_as_it_does(wanted: Way, key: str, least: int) -> None:
    """Not from the first validation clip, whatever it shows."""
    found = find_start(CLIPS, wanted, KNOWN)
    assert found is not None
    assert found.clip.key == key
    assert found.frame >= least
    assert found.way.fits(wanted)


def test_validation_clips_come_before_training_clips_and_none_of_the_test_split() -> None:
    circle = first_way(path("circle-2m"), FPS)
    assert circle.turn == pytest.approx(0.6, abs=0.01)
    nearest = find_start(CLIPS, circle, KNOWN)
    assert nearest is not None
    assert nearest.clip.key == "walk", "its speed fits, so that no clip that was trained on is taken"
    fast = find_start(CLIPS, Way(0, 2.0, 0), KNOWN)
    assert fast is not None
    assert fast.clip.key == "dribble"
    assert not fast.way.fits(Way(0, 2.0, 0)), "which is warned of"
    assert find_start(clip_set(going("short", "val", (0.5, 0, 1.2, 0))), circle, KNOWN) is None


def test_the_turn_chooses_among_clips_of_one_speed() -> None:
    clips = clip_set(*(going(f"{turn:g}", "val", (2, 0, 1.2, turn)) for turn in (0.0, 0.3, 0.55, 0.9)))
    found = find_start(clips, first_way(path("circle-2m"), FPS), KNOWN)
    assert found is not None
    assert found.clip.key == "0.55"


@pytest.mark.parametrize(
    ("start", "wanted", "fits"),
    [
        (Way(0, 0.91, 0), Way(0, 1.2, 0), True),
        (Way(0, 0.89, 0), Way(0, 1.2, 0), False),
        (Way(1.2, 0, 0), Way(0, 1.2, 0), False),
        (Way(0, 0.09, 0), Way(0, 0, 0), True),
        (Way(0, 0.11, 0), Way(0, 0, 0), False),
    ],
)
def test_a_start_within_a_quarter_of_the_first_speed_fits(start: Way, wanted: Way, fits: bool) -> None:
    assert start.fits(wanted) is fits


def test_the_first_second_of_a_path() -> None:
    """Its turn from the heading of the body to where it goes is none of the path's."""
    seconds = torch.arange(61) / FPS
    place = torch.stack([1.5 * seconds, torch.zeros(61)], dim=-1)
    yaw = torch.full((61,), math.pi / 2)
    yaw[0] = 0.0
    way = first_way(steps_of(place, yaw), FPS)
    assert way.turn == pytest.approx(0.0, abs=1e-6)
    assert way.speed == pytest.approx(1.5, abs=0.1)
    assert start_at(CLIPS, CLIPS.clips[3], 150, KNOWN).way.words() == "goes 1.2 m/s"
    assert start_at(CLIPS, CLIPS.clips[1], 0, KNOWN).way.words() == "goes 1.2 m/s backward"
    assert start_at(CLIPS, CLIPS.clips[0], 0, KNOWN).way.words() == "stands"


def dragged(motion: Motion, speed: float) -> Motion:
    """Carry a motion ahead."""
    translations = motion.translations.clone()
    translations[:, 0, 2] += speed * torch.arange(motion.frames) / motion.fps
    return replace(motion, translations=translations)


def test_a_body_that_is_dragged_glides_and_one_that_walks_or_jumps_does_not() -> None:
    still = dragged(starter_rig("wave"), 1.2)
    found = glides(still, 10)
    assert found is not None
    assert found.seconds == found.of > 0
    assert found.slide == pytest.approx(1.2, abs=0.1)
    assert found.speed == pytest.approx(1.2, abs=0.1)
    for action in ("walk", "jump", "wave", "kick"):
        own = glides(starter_rig(action), 10)
        assert own is not None
        assert (own.seconds, own.slide) == (0, 0.0), action
    walks = glides(dragged(starter_rig("walk"), 2.0), 10)
    assert walks is not None
    assert walks.seconds == walks.of


def test_feet_that_are_not_found_are_no_fault() -> None:
    motion = starter_rig("walk")
    assert glides(replace(motion, names=tuple(f"bone{joint}" for joint in range(len(motion.names)))), 0) is None
    assert glides(motion, motion.frames) is None
    assert len(HUMANML.joint_names) == len(motion.names)
