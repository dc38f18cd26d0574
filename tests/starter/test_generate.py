"""The procedural generator: what holds for every class of movements."""

from __future__ import annotations

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.starter import (
    CATALOGUE,
    OFFSETS,
    PARENTS,
    Order,
    embeddings,
    generate,
    perform,
    table_path,
    weights_path,
)
from motionkit.starter._catalogue import actions, captions

FEET = [7, 10, 8, 11]


@pytest.fixture(scope="module")
def clips():
    return {
        entry.name: clip
        for entry, clip in zip(CATALOGUE, perform([Order(e.name, 64, 7) for e in CATALOGUE]), strict=True)
    }


def test_there_are_enough_different_movements_and_captions() -> None:
    assert len(actions()) >= 36
    assert len(CATALOGUE) >= 100
    assert len(captions()) == sum(len(entry.captions) for entry in CATALOGUE)  # no caption means two things
    assert all(len(entry.phrases) >= 5 for entry in CATALOGUE)


def test_every_clip_is_a_person_on_the_floor(clips) -> None:
    lengths = np.linalg.norm(OFFSETS, axis=1)[1:]
    for name, clip in clips.items():
        assert clip.joints.shape == (64, 22, 3), name
        assert np.isfinite(clip.joints).all(), name
        bones = np.linalg.norm(clip.joints[:, 1:] - clip.joints[:, list(PARENTS[1:])], axis=-1)
        np.testing.assert_allclose(bones, np.broadcast_to(lengths, bones.shape), atol=1e-9, err_msg=name)
        assert abs(clip.joints[..., 1].min()) < 1e-9, name
        assert np.median(clip.joints[:, FEET, 1].min(axis=1)) < 0.08, name  # the rest of the body does not touch first
        np.testing.assert_array_equal(clip.joints[0, 0, [0, 2]], 0)
        assert (clip.joints[0, 16] - clip.joints[0, 17])[0] > 0.2, name  # faces +Z: the left shoulder is at +X


def test_forward_kinematics_of_the_local_rotations_gives_the_joints(clips) -> None:
    for name in ("walk/normal", "kick/high-left", "sit/down"):
        clip = clips[name]
        world, place = [clip.rotations[:, 0]], [clip.root]
        for joint in range(1, 22):
            parent = PARENTS[joint]
            world.append(world[parent] @ clip.rotations[:, joint])
            place.append(place[parent] + world[parent] @ OFFSETS[joint])
        np.testing.assert_allclose(np.stack(place, axis=1), clip.joints, atol=1e-9, err_msg=name)
        unit = clip.rotations @ np.swapaxes(clip.rotations, -1, -2)
        np.testing.assert_allclose(unit, np.broadcast_to(np.eye(3), unit.shape), atol=1e-9)


def test_planted_feet_do_not_slide(clips) -> None:
    for name, clip in clips.items():
        speed = np.linalg.norm(np.diff(clip.joints[:, [10, 11]], axis=0)[..., [0, 2]], axis=-1) * clip.fps
        planted = clip.contacts[1:, [1, 3]] & clip.contacts[:-1, [1, 3]]
        if planted.any():
            assert np.quantile(speed[planted], 0.95) < 0.06, name


def test_knees_bend_forwards_and_elbows_backwards(clips) -> None:
    for name, clip in clips.items():
        for hip, knee, ankle in ((1, 4, 7), (2, 5, 8)):
            # The shank turns about the thigh's own side axis only, and only one way.
            shank = clip.rotations[:, knee]
            assert (shank[:, 2, 1] > -1e-9).all(), (name, hip, ankle)
        for elbow in (18, 19):
            assert (clip.rotations[:, elbow][:, 2, 1] < 1e-9).all(), (name, elbow)


def test_motion_is_smooth(clips) -> None:
    jerk = {
        name: np.linalg.norm(np.diff(c.joints, n=3, axis=0), axis=-1).mean() * c.fps**3 for name, c in clips.items()
    }
    assert np.median(list(jerk.values())) < 60
    assert jerk["walk/normal"] < 100
    assert max(jerk.values()) < 400


def test_a_clip_depends_on_its_order_alone() -> None:
    orders = [Order("wave/left", 50, 3), Order("run/normal", 41, 9), Order("wave/left", 50, 4)]
    together = perform(orders)
    for order, clip in zip(reversed(orders), perform(orders[::-1]), strict=True):
        np.testing.assert_array_equal(clip.joints, perform([order])[0].joints)
    np.testing.assert_array_equal(together[0].joints, perform(orders)[0].joints)
    assert np.abs(together[0].joints - together[2].joints).max() > 0.01


def test_any_frame_rate_samples_the_same_movement() -> None:
    slow = generate("walk", variant="normal", fps=20, frames=60, seed=1)
    fast = generate("walk", variant="normal", fps=60, frames=180, seed=1)
    assert np.abs(fast.joints[::3] - slow.joints).max() < 0.03


def test_left_and_right_are_mirror_images(clips) -> None:
    def raised(name: str) -> int:
        return int(np.argmax(clips[name].joints[:, [20, 21], 1].max(axis=0)))

    assert raised("wave/left") == 0
    assert raised("wave/right") == 1
    assert clips["turn/quarter-left"].joints[-1, 16, 2] < clips["turn/quarter-left"].joints[-1, 17, 2]
    assert clips["turn/quarter-right"].joints[-1, 16, 2] > clips["turn/quarter-right"].joints[-1, 17, 2]
    assert clips["side-step/left"].root[-1, 0] > 0.3 > -0.3 > clips["side-step/right"].root[-1, 0]


def test_scale_changes_the_body_and_nothing_else() -> None:
    small = generate("squat", frames=30, seed=2, scale=0.9)
    np.testing.assert_allclose(small.joints, 0.9 * generate("squat", frames=30, seed=2).joints, atol=1e-12)


def test_unknown_names_are_explained() -> None:
    for call in (
        lambda: generate("fly"),
        lambda: generate("walk", variant="upwards"),
        lambda: generate("walk", frames=1),
    ):
        with pytest.raises(MotionkitError):
            call()
    with pytest.raises(MotionkitError, match="no network"):
        weights_path("critic")


def test_stored_embeddings_belong_to_the_captions() -> None:
    texts, vectors = embeddings()
    assert texts == captions(), "run python -m motionkit.starter.build_embeddings"
    assert vectors.shape == (len(texts), 384)
    np.testing.assert_allclose(vectors.norm(dim=1).numpy(), 1, atol=2e-3)
    size = table_path().stat().st_size + table_path().with_suffix(".json").stat().st_size
    assert size <= 4e6
