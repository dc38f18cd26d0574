"""The predictor's losses: zero at the truth, analytic values, finite gradients, masks, groups."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import roma
import torch
from torch import Tensor

from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit_predictor.network.features import Predicted
from motionkit_predictor.states import MotionState, state_positions
from motionkit_predictor.training.losses import (
    Frames,
    JointLoss,
    Skeleton,
    angle,
    frame_weights,
    group_shares,
    latent_consistency,
    share_warnings,
)
from motionkit_predictor.training.settings import GROUPS, LossSettings

PARENTS = (-1, 0, 1, 0, 3)
SKELETON = Skeleton(PARENTS, {"left knee": 1, "left ankle": 2}, (2, 4), 30.0, torch.ones(4, dtype=torch.float64))
EVERY = dict.fromkeys((name for name in GROUPS if name != "freerun"), 1.0)


def rotations(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return matrix_from_6d(torch.randn(*shape, 6, generator=generator, dtype=torch.float64))


def truth_of(seed: int = 0, frames: int = 6) -> tuple[MotionState, MotionState]:
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.rand(2, frames + 1, *shape, generator=generator, dtype=torch.float64)

    whole = MotionState(rotations(2, frames + 1, 5, seed=seed), 0.1 * drawn(3), drawn(), drawn(2))
    return whole.part(0, 1), whole.part(1)


def frames_of(predicted: MotionState, last: MotionState, truth: MotionState, mask: Tensor | None = None) -> Frames:
    before = torch.cat([last.rotations, truth.rotations[:, :-1]], dim=1)
    turn = predicted.rotations @ before.mT
    residual = matrix_to_6d(turn) - matrix_to_6d(torch.eye(3, dtype=turn.dtype))
    count = truth.frames
    newest = torch.zeros(2, count, 1, 4, dtype=turn.dtype)
    newest[..., -1] = 1.0
    said = Predicted(predicted, before, residual, turn, newest, torch.zeros(2, count, 3))
    weights = frame_weights(torch.ones(2, count, dtype=torch.bool) if mask is None else mask, 0.0)
    return Frames(said, truth, last, weights, torch.rand(2, 5, 3).double(), *torch.ones(2, 2, dtype=torch.bool))


def joint(**changes: float) -> JointLoss:
    return JointLoss(LossSettings(**changes), SKELETON)


def test_at_the_truth_every_loss_is_zero() -> None:
    last, truth = truth_of()
    found = joint()(frames_of(truth, last, truth), EVERY)
    assert found.keys() == EVERY.keys() - {"latent_consistency"}
    sliding = found.pop("skate")  # what the truth itself does
    assert float(sliding) > 0
    for name, value in found.items():
        assert float(value) == pytest.approx(0.0, abs=1e-6), name


def test_a_joint_that_is_ten_degrees_off() -> None:
    """Joint 2 of 5 in every frame; turns are against the true frame before, so each is off by the same."""
    last, truth = truth_of()
    off = roma.rotvec_to_rotmat(torch.tensor([0.0, math.radians(10.0), 0.0], dtype=torch.float64))
    turned = truth.rotations.clone()
    turned[:, :, 2] = off @ turned[:, :, 2]
    found = joint(limb_margin=4.0, limb_topk=4)(frames_of(replace(truth, rotations=turned), last, truth), EVERY)
    ten = math.radians(10.0)
    assert float(found["rot_geo"]) == pytest.approx(ten / 5, rel=1e-6)
    assert float(found["rot_local"]) == pytest.approx(ten / 4, rel=1e-6)
    assert float(found["rot_delta"]) == pytest.approx(ten / 5, rel=1e-6)
    assert float(found["rot_root"]) == float(found["rot_delta_root"]) == pytest.approx(0.0, abs=1e-9)
    assert float(found["limb_geo"]) == pytest.approx(6.0, rel=1e-6)  # the four worst are ten degrees, four forgiven
    assert float(found["fk_pos"]) == pytest.approx(0.0, abs=1e-12)  # nothing hangs on joint 2


def test_positions_by_forward_kinematics() -> None:
    last, truth = truth_of()
    other = replace(truth, rotations=rotations(2, 6, 5, seed=5))
    frames = frames_of(other, last, truth)
    one, two = (state_positions(state, frames.offsets, PARENTS, pose_only=True) for state in (other, truth))
    away = (one - two).abs()
    smooth = torch.where(away < 0.05, away.square() / 0.1, away - 0.025)
    assert float(joint()(frames, {"fk_pos": 1.0})["fk_pos"]) == pytest.approx(float(smooth.mean()))


def test_rotation_vectors_of_turns() -> None:
    last, truth = truth_of()
    frames = frames_of(replace(truth, rotations=rotations(2, 6, 5, seed=5)), last, truth)
    said, true = (roma.rotmat_to_rotvec(turn) for turn in (frames.predicted.turn, frames.true_turn))
    away = (said - true).abs()
    smooth = torch.where(away < 0.1, away.square() / 0.2, away - 0.05).mean()
    assert float(joint()(frames, {"rot_log": 1.0})["rot_log"]) == pytest.approx(float(smooth))


def test_root_contacts_and_feet() -> None:
    last, truth = truth_of()
    other = MotionState(truth.rotations, truth.steps + 0.01, truth.heights + 0.1, truth.contacts * 0.5)
    found = joint()(frames_of(other, last, truth), {"root": 1.0, "contacts": 1.0})
    assert float(found["root"]) == pytest.approx(0.01 * 30 + 0.1)
    assert float(found["contacts"]) == pytest.approx(float(truth.contacts.mean() / 2))
    unknown = replace(frames_of(other, last, truth), contacts_known=torch.zeros(2, dtype=torch.bool))
    found = joint()(unknown, {"contacts": 1.0, "skate": 1.0})
    assert float(found["contacts"]) == float(found["skate"]) == 0.0


def test_a_place_that_is_missed_counts_in_all_frames_after() -> None:
    """A step 3 cm to the left and 4 cm ahead too far in frame 2 of 6; then a turn of 0.2 rad in the last one."""
    last, truth = truth_of()
    truth = replace(truth, steps=torch.zeros_like(truth.steps))
    steps = truth.steps.clone()
    steps[:, 1, 0], steps[:, 1, 1], steps[:, 5, 2] = 0.03, 0.04, 0.2
    frames = frames_of(replace(truth, steps=steps), last, truth)
    whole = (5 * 0.05 + 0.5 * 0.2) / 6
    assert float(joint()(frames, EVERY)["place"]) == pytest.approx(whole)
    one = replace(frames, conditioned=torch.tensor([True, False]))  # of two windows that weigh alike
    assert float(joint()(one, EVERY)["place"]) == pytest.approx(whole / 2)


def test_attention_to_the_oldest_frame_costs_one() -> None:
    last, truth = truth_of()
    frames = frames_of(truth, last, truth)
    oldest = torch.zeros(2, 6, 1, 4).double()
    oldest[..., 0] = 1.0
    half = (oldest + frames.predicted.attention) / 2
    for weights, wanted in ((oldest, 1.0), (half, 0.5)):
        changed = replace(frames, predicted=replace(frames.predicted, attention=weights))
        assert float(joint()(changed, {"attn_reg": 1.0})["attn_reg"]) == pytest.approx(wanted)


def test_columns_that_are_not_orthonormal() -> None:
    last, truth = truth_of()
    frames = frames_of(truth, last, truth)
    rest = torch.tensor([1.0, 0, 0, 0, 1, 0]).double()
    bent = torch.tensor([2.0, 0, 0, 1, 1, 0]).double()  # lengths 2 and sqrt 2, product 2
    changed = replace(frames, predicted=replace(frames.predicted, residual=(bent - rest).expand(2, 6, 5, 6)))
    wanted = 1.0 + (math.sqrt(2) - 1) ** 2 + 4.0
    assert float(joint()(changed, {"rot_ortho": 1.0})["rot_ortho"]) == pytest.approx(wanted)


def test_a_frozen_pose_has_a_jerk_loss() -> None:
    last, truth = truth_of(frames=8)
    still = truth.map(lambda values: values[:, :1].expand_as(values))
    still = replace(still, steps=torch.zeros_like(still.steps))
    frozen = joint()(frames_of(still, last, truth), {"jerk": 1.0})["jerk"]
    assert float(frozen) > 1.0


def test_angles_and_their_gradients() -> None:
    one = rotations(50)
    two = rotations(50, seed=1)
    wanted = roma.rotmat_geodesic_distance(one, two)
    below = wanted < math.pi - 1e-2
    assert torch.allclose(angle(one, two)[below], wanted[below], atol=1e-6)
    assert torch.allclose(angle(one, two), wanted, atol=1e-3)
    small = roma.rotvec_to_rotmat(torch.tensor([1e-5, 0.0, 0.0], dtype=torch.float64))
    assert float(angle(small, torch.eye(3).double())) == pytest.approx(1e-5, rel=1e-4)
    for turn in (0.0, 1e-9, 0.5, math.pi):
        at = roma.rotvec_to_rotmat(torch.tensor([turn, 0.0, 0.0], dtype=torch.float64)).requires_grad_()
        angle(at, torch.eye(3).double()).backward()
        assert at.grad is not None
        assert bool(at.grad.isfinite().all()), turn
    angles = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    turned = roma.rotvec_to_rotmat(torch.cat([angles, torch.zeros(2, dtype=torch.float64)]))
    angle(turned, torch.eye(3).double()).backward()
    assert float(angles.grad) == pytest.approx(1.0)


def test_every_gradient_is_finite_at_the_truth_and_away_from_it() -> None:
    last, truth = truth_of()
    for start in (truth, replace(truth, rotations=rotations(2, 6, 5, seed=5))):
        six = matrix_to_6d(start.rotations).requires_grad_()
        moved = replace(start, rotations=matrix_from_6d(six))
        total = sum(joint()(frames_of(moved, last, truth), EVERY).values())
        assert isinstance(total, Tensor)
        total.backward()
        assert bool(six.grad.isfinite().all())


def test_frames_that_do_not_count_change_nothing_not_even_as_nan() -> None:
    last, truth = truth_of()
    other = replace(truth, rotations=rotations(2, 6, 5, seed=5))
    mask = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    clean = joint()(frames_of(other, last, truth, mask), EVERY)
    broken = replace(truth, heights=truth.heights.clone(), contacts=truth.contacts.clone())
    broken.heights[1, 3:], broken.contacts[1, 3:] = torch.nan, torch.nan
    dirty = joint()(frames_of(other, last, broken, mask), EVERY)
    for name in ("root", "contacts", "rot_geo", "limb_geo"):
        assert torch.equal(clean[name], dirty[name]), name


def test_later_frames_weigh_less() -> None:
    mask = torch.tensor([[True, True, True, True]])
    assert frame_weights(mask, 0.0)[0].tolist() == pytest.approx([0.25] * 4)
    faded = torch.tensor([1.0, 2**-0.5, 3**-0.5, 0.5])
    assert torch.allclose(frame_weights(mask, 0.5)[0], faded / faded.sum())


def test_latents() -> None:
    one, two = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    assert float(latent_consistency(one, two, cosine=False)) == 1.0
    assert float(latent_consistency(one, two, cosine=True)) == 1.0
    assert float(latent_consistency(one, 3 * one, cosine=True)) == pytest.approx(0.0)


def test_shares_and_what_is_said_of_them() -> None:
    shares = group_shares({"rot_local": 0.65, "rot_log": 0.05, "freerun": 0.2, "latent_consistency": 0.1})
    assert shares == pytest.approx({"core": 0.65, "aux": 0.05, "long": 0.3})
    assert share_warnings(shares, encoder=True) == ()
    much, little = share_warnings({"core": 0.9, "aux": 0.0, "long": 0.1}, encoder=True)
    assert "more than 80 %: a larger weight of free runs or of latent_consistency makes" in much
    assert "less than 15 %" in little
    assert "latent" not in share_warnings({"core": 0.9, "aux": 0.0, "long": 0.1}, encoder=False)[0]
    assert "more than 15 %" in share_warnings({"core": 0.5, "aux": 0.3, "long": 0.2}, encoder=True)[0]
    assert group_shares({"rot_local": 0.0}) == {"core": 0.0, "aux": 0.0, "long": 0.0}
