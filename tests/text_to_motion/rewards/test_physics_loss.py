"""-log R_phy as a loss on features."""

from __future__ import annotations

import pytest
import torch

from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text_to_motion.rewards.components import PhysicsOptions
from motionkit.text_to_motion.rewards.motion_terms import Physics

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
