from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.motion import HUMANML, KIT, joints_to_features, mirror, mirror_features, mirror_text, resize_features
from motionkit.motion.features.extract import retarget

from ...made.bodies import mirror_features as mirrored_by_blocks
from ...made.bodies import walker


def even(skeleton):
    """The same body with right bones as long as left ones."""
    offsets = np.array(skeleton.target_offsets)
    for left, right in skeleton.mirror_pairs:
        offsets[right] = offsets[left] * [-1, 1, 1]
    return replace(skeleton, target_offsets=tuple(map(tuple, offsets)))


def test_mirror_equals_the_recorded_one(shared: Path):
    data = np.load(shared / "fixtures/mdm/features_synthetic_t2m.npz")
    assert np.array_equal(mirror(torch.from_numpy(data["raw_joints"]), HUMANML).numpy(), data["mirrored_raw"])


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_twice_is_once_less(skeleton):
    joints = walker(30, 1, skeleton=skeleton)
    assert torch.equal(mirror(mirror(joints, skeleton), skeleton), joints)
    vectors = joints_to_features(joints, skeleton, target=False)
    assert torch.equal(mirror_features(mirror_features(vectors, skeleton), skeleton), vectors)


def test_mirrored_features_are_those_of_the_mirrored_motion():
    body = even(HUMANML)
    joints = retarget(walker(60, 2, turn=0.04), body)
    direct = joints_to_features(mirror(joints, body), body)
    np.testing.assert_allclose(mirror_features(joints_to_features(joints, body), body), direct, atol=1e-9)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_columns_are_exchanged_as_blocks_are(skeleton):
    rows = torch.randn(3, 5, skeleton.width)
    assert torch.equal(mirror_features(rows, skeleton), mirrored_by_blocks(rows, skeleton))


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_features_of_a_larger_body(skeleton):
    joints = walker(40, 3, skeleton=skeleton)
    rows = joints_to_features(joints, skeleton, target=False)
    larger = joints_to_features(joints * 1.2, skeleton, target=False)
    found = resize_features(rows, skeleton, torch.tensor(1.2, dtype=torch.float64))
    torch.testing.assert_close(found[:, :-4], larger[:, :-4], rtol=1e-9, atol=1e-9)
    assert torch.equal(found[:, -4:], rows[:, -4:]), "contacts stay"


def test_mirror_swaps_sides():
    joints = torch.arange(66.0).reshape(1, 22, 3)
    made = mirror(joints, HUMANML)
    assert made[0, 7].tolist() == [-24.0, 25.0, 26.0], "left ankle is the mirrored right ankle"
    assert made[0, 15].tolist() == [-45.0, 46.0, 47.0], "the head stays the head"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a man kicks with his left leg", "a man kicks with his right leg"),
        ("turns clockwise, Right hand up", "turns counterclockwise, Left hand up"),
        ("walks counter-clockwise", "walks clockwise"),
        ("stands upright, brightly", "stands upright, brightly"),
        ("steps leftwards", "steps rightwards"),
        ("LEFTWARD, Leftward, LEFT", "RIGHTWARD, Rightward, RIGHT"),
        ("一个人用左手挥手,然后向右走", "一个人用右手挥手,然后向左走"),
        ("顺时针转一圈,再逆时针转", "逆时针转一圈,再顺时针转"),
        ("反时针,順時針,逆時針", "顺时针,逆時針,順時針"),
        ("左右摇摆,大约十步左右,左顾右盼", "左右摇摆,大约十步左右,左顾右盼"),
        ("用left手,向Right转", "用right手,向Left转"),
    ],
)
def test_words(text, expected):
    assert mirror_text(text) == expected


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "left",
                "right",
                "clockwise",
                "counterclockwise",
                "Left",
                "a",
                "walks,",
                "rightward",
                "bright",
                "LEFT",
                "左腿",
                "右",
                "左右",
                "逆时针",
            ]
        ),
        max_size=8,
    )
)
def test_words_twice(words):
    text = " ".join(words)
    assert mirror_text(mirror_text(text)) == text
