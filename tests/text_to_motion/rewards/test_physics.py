"""The physics reward and its loss: units, shapes, and that standing still does not win."""

from __future__ import annotations

import math

import pytest
import torch

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text_to_motion.rewards.components import PhysicsOptions
from motionkit.text_to_motion.rewards.motion_terms import Physics

from ...made.plain import plain


class Joints(MotionBatch):
    """A batch whose joints are given."""

    def __init__(self, joints, lengths=None):
        count, frames = joints.shape[:2]
        lengths = torch.full((count,), frames) if lengths is None else lengths
        super().__init__(torch.zeros(count, frames, 263), lengths, skeleton=HUMANML, fps=20.0)
        self.__dict__["joints"] = joints


@plain(TextMotionDataset)
class Data:
    """A dataset that knows its medians."""

    def physics_reference(self):
        return 0.2, 40.0


def swinging(amplitude, frames=40):
    """A body that sways at 1 Hz, feet planted at y = 0."""
    joints = torch.zeros(1, frames, 22, 3, dtype=torch.float64)
    time = torch.arange(frames, dtype=torch.float64) / 20.0
    joints[..., 1] = 1.0
    joints[..., 0] = (amplitude * torch.sin(2 * math.pi * time))[:, None]
    joints[:, :, list(HUMANML.feet)] = 0.0
    return joints


def test_slide_of_one_metre_per_second_on_recovered_joints():
    """Verification test 23, units: features with root velocity 0.05 m per frame at 20 fps."""
    features = torch.zeros(1, 30, 263)
    features[..., 2] = 0.05
    batch = MotionBatch(features, torch.tensor([30]), skeleton=HUMANML, fps=20.0)
    scores = Physics(PhysicsOptions(r_s=1.0, r_j=10.0, lambda_jerk=0.0)).score(batch, [])
    assert float(scores.parts["skate"]) == pytest.approx(1.0, abs=1e-3)
    assert float(scores.total) == pytest.approx(math.exp(-1.0), abs=1e-3)


def test_formula_of_both_shapes():
    joints = torch.randn(3, 20, 22, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.02
    for shape in ("reward", "guide"):
        options = PhysicsOptions(shape=shape, lambda_skate=0.3, lambda_jerk=0.2, r_s=0.5, r_j=50.0)
        scores = Physics(options).score(Joints(joints), [])
        for i in range(3):
            skate, jerk = float(scores.parts["skate"][i]), float(scores.parts["jerk"][i])
            term = abs(math.log((jerk + 1e-3) / 50.0)) if shape == "reward" else jerk / 50.0
            assert float(scores.total[i]) == pytest.approx(math.exp(-0.3 * skate / 0.5 - 0.2 * term), rel=1e-9)


def test_a_static_pose_does_not_win():
    """Verification test 23: the real median clip beats a frozen pose; with the guide's shape it would not."""
    real, frozen = swinging(0.1), swinging(0.0)
    jerk = float(Physics(PhysicsOptions(r_s=0.1, r_j=1.0)).score(Joints(real), []).parts["jerk"])
    both = Joints(torch.cat([real, frozen]))
    totals = Physics(PhysicsOptions(r_s=0.1, r_j=jerk)).score(both, []).total
    assert float(totals[0]) > 0.99
    assert float(totals[1]) < 0.01
    guide = Physics(PhysicsOptions(r_s=0.1, r_j=jerk, shape="guide")).score(both, []).total
    assert float(guide[1]) > float(guide[0])


def test_references_come_from_the_dataset():
    reward = Physics(PhysicsOptions(), dataset=Data())
    assert (reward.r_s, reward.r_j) == (0.2, 40.0)
    reward = Physics(PhysicsOptions(r_j=7.0), dataset=Data())
    assert (reward.r_s, reward.r_j) == (0.2, 7.0)

    class Still(Data):
        def physics_reference(self):
            return 0.0, 40.0

    for dataset, word in ((None, "no reference"), (Still(), "above 0")):
        with pytest.raises(MotionkitError, match=word):
            Physics(PhysicsOptions(), dataset=dataset)


def test_a_motion_with_nan_stays_alone():
    joints = torch.cat([swinging(0.1), swinging(0.1), swinging(0.1)])
    joints[1, 5] = torch.nan
    joints[2, 30:] = torch.nan
    scores = Physics(PhysicsOptions(r_s=0.1, r_j=10.0)).score(Joints(joints, torch.tensor([40, 40, 30])), [])
    assert scores.total.isnan().tolist() == [False, True, False]


def test_differentiable_in_the_features():
    features = (torch.randn(2, 12, 263, generator=torch.Generator().manual_seed(0)) * 0.1).requires_grad_()
    batch = MotionBatch(features, torch.tensor([12, 8]), skeleton=HUMANML, fps=20.0)
    reward = Physics(PhysicsOptions(r_s=0.1, r_j=10.0))
    (-reward.log_reward(*reward.measure(batch))).sum().backward()
    assert bool(features.grad.isfinite().all())
    assert float(features.grad[0].abs().sum()) > 0
    assert bool((features.grad[1, 8:] == 0).all())


def test_contact_heights_per_foot():
    joints = swinging(0.0)
    joints[:, :, 7, 0] = torch.arange(40) * 0.05
    joints[:, :, 7, 1] = 0.3
    low = Physics(PhysicsOptions(r_s=1.0, r_j=1.0)).score(Joints(joints), []).parts["skate"]
    high = PhysicsOptions(r_s=1.0, r_j=1.0, heights=(0.9, 0.05, 0.05, 0.05))
    assert float(low) < 1e-3
    assert float(Physics(high).score(Joints(joints), []).parts["skate"]) > 0.2
    with pytest.raises(MotionkitError, match="4 feet"):
        Physics(PhysicsOptions(r_s=1.0, r_j=1.0, heights=(0.1, 0.2))).score(Joints(joints), [])


LENGTHS = torch.tensor([24, 15])


def walk():
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(2, 24, 263, generator=draw) * 0.02
    features[..., 2] += 0.04
    features[..., 3] += 0.9
    return features


@pytest.mark.parametrize("shape", ["reward", "guide"])
def test_it_is_minus_the_log_of_the_reward(shape):
    reward = Physics(PhysicsOptions(shape=shape, r_s=0.5, r_j=400.0))
    normalizer = Normalizer(torch.full((263,), 0.01), torch.full((263,), 0.5))
    features = walk()
    score = reward.score(MotionBatch(features, LENGTHS, skeleton=HUMANML, fps=20.0), []).total
    loss = reward.loss(features, LENGTHS, skeleton=HUMANML, fps=20.0)
    torch.testing.assert_close(loss, -torch.log(score))
    normal = normalizer.normalize(features)
    loss = reward.loss(normal, LENGTHS, skeleton=HUMANML, fps=20.0, normalizer=normalizer)
    torch.testing.assert_close(loss, -torch.log(score), rtol=1e-3, atol=1e-4)


def test_following_its_gradient_makes_a_motion_better():
    reward = Physics(PhysicsOptions(r_s=0.5, r_j=40.0))
    features = walk().requires_grad_()
    optimizer = torch.optim.Adam([features], lr=2e-3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = reward.loss(features, LENGTHS, skeleton=HUMANML, fps=20.0)
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
    assert bool((losses[-1] < 0.8 * losses[0]).all())
    assert bool((features.grad[1, 15:] == 0).all())


def test_a_motion_that_is_not_finite_pulls_no_other():
    reward = Physics(PhysicsOptions(r_s=0.5, r_j=40.0))
    features = walk()
    features[1, 3, 7] = torch.nan
    features.requires_grad_()
    loss = reward.loss(features, LENGTHS, skeleton=HUMANML, fps=20.0)
    assert loss.isnan().tolist() == [False, True]
    loss.nansum().backward()
    assert bool(features.grad.isfinite().all())
