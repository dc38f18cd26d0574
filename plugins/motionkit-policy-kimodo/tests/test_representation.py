"""Features: against the recorded ones, and by hand; padding, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from motionkit.geometry import positions_from_bones, yaw_matrix
from motionkit.motion import HUMANML, MotionBatch
from motionkit.rigs.rest import rest_rig
from motionkit.rl import length_mask
from motionkit_policy_kimodo.representation import LOCAL, ROOT, KimodoRepresentation, local_root, smooth_path
from motionkit_policy_kimodo.skeletons import body, smplx_body

Tensors = Callable[[str], dict[str, Tensor]]
BODIES = {"soma": "soma30", "g1": "g1"}


def _case(tensors: Tensors, name: str) -> tuple[KimodoRepresentation, dict[str, Tensor]]:
    return KimodoRepresentation(body(BODIES[name])), tensors(f"representation_{name}.npz")


@pytest.mark.parametrize("name", BODIES)
def test_encode(name: str, tensors: Tensors) -> None:
    representation, known = _case(tensors, name)
    features = representation.encode(known["global_rot_mats"], known["posed_joints"][:, 0])
    assert_close(features, known["features"], atol=1.8e-4, rtol=0)
    std = (known["std"] ** 2 + 1e-5).sqrt()
    assert_close((features - known["mean"]) / std, known["features_normalised"], atol=6e-4, rtol=0)
    assert representation.width == features.shape[1]


@pytest.mark.parametrize("name", BODIES)
def test_decode(name: str, tensors: Tensors) -> None:
    representation, known = _case(tensors, name)
    features = known["features"]
    noise = np.random.RandomState(known["noise_seed"].numpy()).standard_normal(features.shape)
    noisy = features + torch.from_numpy((0.05 * noise).astype(np.float32))
    limits = {"atol": 6e-6, "rtol": 0}
    assert_close(representation.positions(noisy), known["noisy_posed_joints"], **limits)
    assert_close(representation.stored_joints(noisy), known["noisy_joints_from_positions"], **limits)
    local = representation.body.local(representation.rotations(noisy))
    assert_close(local[:2], known["noisy_local_rot_mats_first2"], **limits)
    assert_close(representation.root(noisy), known["noisy_root"], **limits)
    assert_close(representation.root(features), known["decoded_root"], **limits)
    assert (representation.contacts(noisy) == known["noisy_contacts"].bool()).all()
    assert (representation.contacts(features) == known["decoded_contacts"].bool()).all()
    cos, sin = known["decoded_heading"].unbind(-1)
    assert_close(representation.headings(features), torch.atan2(sin, cos), **limits)
    again = representation.encode(representation.rotations(features), representation.root(features))
    assert_close(again, features, atol=1.8e-4, rtol=0)


@pytest.mark.parametrize("name", BODIES)
def test_local_root(name: str, tensors: Tensors) -> None:
    representation, known = _case(tensors, name)
    mask = length_mask(known["lengths"], known["root5"].shape[1])
    found = local_root(known["root5"], known["lengths"], representation.fps)
    # Speeds and height are equal. The turn is of float32's rounding: 6e-8 of the cosines, times 30 a second.
    assert torch.equal(found[mask][:, 1:], known["local_root"][mask][:, 1:])
    assert_close(found[mask], known["local_root"][mask], atol=3e-6, rtol=0)
    mean, std = known["mean"][:ROOT], (known["std"][:ROOT] ** 2 + 1e-5).sqrt()
    found = local_root(known["root5_normalised"] * std + mean, known["lengths"], representation.fps)
    found = (found - known["local_mean"]) / (known["local_std"] ** 2 + 1e-5).sqrt()
    assert_close(found[mask], known["local_root_normalised"][mask], atol=3e-6, rtol=0)


@pytest.mark.parametrize("name", BODIES)
def test_turned_and_canonical(name: str, tensors: Tensors) -> None:
    representation, known = _case(tensors, name)
    turned = representation.turned(known["features"], torch.tensor(0.9))
    assert_close(turned[::20], known["rotated_every20"], atol=6e-6, rtol=0)
    back = representation.canonical(representation.moved(turned, torch.tensor([1.5, -2.0])))
    assert_close(back[::20], known["canonical_every20"], atol=6e-6, rtol=0)


def test_smoothing(tensors: Tensors) -> None:
    known = tensors("smooth_root.npz")
    names = [name for name in known if name.startswith("smooth")]
    for name in names:
        length = int(name.split("_")[-1])
        path = known["long" if "long" in name else "root"][:length, [0, 2]]
        assert_close(smooth_path(path), known[name][:, [0, 2]], atol=1.2e-5, rtol=0)
    assert len(names) == 9


def test_smoothing_by_hand() -> None:
    straight = torch.stack([torch.linspace(0.0, 3.0, 60), torch.zeros(60)], dim=1)
    smooth = smooth_path(straight)
    # Within 6 cm, and half a frame on.
    assert float((smooth[:-1] - (straight[1:] + straight[:-1]) / 2).norm(dim=1).max()) < 0.0601
    swaying = straight + 0.05 * torch.stack([torch.zeros(60), torch.arange(60.0).sin()], dim=1)
    assert float(smooth_path(swaying)[:, 1].abs().max()) < 0.02
    assert torch.equal(smooth_path(straight[:4]), straight[:4])
    together = smooth_path(torch.stack([straight, swaying]))
    assert_close(together, torch.stack([smooth_path(straight), smooth_path(swaying)]), atol=1e-5, rtol=0)


def _walk(frames: int = 12) -> tuple[KimodoRepresentation, Tensor, Tensor]:
    representation = KimodoRepresentation(body("soma30"))
    turn = yaw_matrix(torch.linspace(0.0, 1.0, frames))
    local = torch.eye(3).repeat(frames, 30, 1, 1)
    local[:, 0] = turn
    root = torch.stack([torch.linspace(0, 0.5, frames), torch.ones(frames), torch.linspace(0, 1, frames)], dim=1)
    return representation, representation.body.world(local), root


def test_encode_by_hand() -> None:
    representation, rotations, root = _walk()
    features = representation.encode(rotations, root)
    hips = representation.body.offsets[list(representation.body.hips)]
    start = math.atan2(float(hips[0, 2] - hips[1, 2]), float(hips[1, 0] - hips[0, 0]))  # the hips are not quite level
    assert_close(representation.headings(features), start + torch.linspace(0.0, 1.0, 12), atol=1e-5, rtol=0)
    assert_close(features[:, 1], root[:, 1])
    velocities = features[:, representation.parts["velocities"]].unflatten(1, (30, 3))
    assert_close(velocities[0, 0], (root[1] - root[0]) * 30.0)
    assert torch.equal(velocities[-1], velocities[-2])
    assert not representation.contacts(features).any()  # the root is a metre high, and it moves


def test_contacts_by_hand() -> None:
    representation = KimodoRepresentation(body("soma30"))
    still = torch.eye(3).repeat(6, 30, 1, 1)
    heel = representation.body.joints(still[0], torch.zeros(3))[representation.body.feet[0], 1]
    for height, expected in ((0.05, True), (0.15, False)):
        features = representation.encode(still, torch.tensor([0.0, height - float(heel), 0.0]).repeat(6, 1))
        assert (representation.contacts(features)[:, 0] == expected).all()


def test_padding_reaches_nothing() -> None:
    representation, rotations, root = _walk()
    clip = representation.encode(rotations, root)
    lengths = torch.tensor([12, 7])
    for fill in (0.0, 1e6, math.nan):
        features = torch.stack([clip, clip])
        features[1, 7:] = fill
        features.requires_grad_()
        joints = representation.positions(features, lengths)
        assert joints.isfinite().all()
        assert_close(joints[1, :7], representation.positions(clip)[:7])
        stored = representation.stored_joints(features, lengths)
        headings = representation.headings(features, lengths)
        (joints.square().sum() + stored.sum() + headings.sum()).backward()
        assert features.grad is not None
        assert features.grad.isfinite().all()
        assert not features.grad[1, 7:].any()
        assert features.grad[1, :7].any()


def test_joints_have_the_right_gradient() -> None:
    representation, rotations, root = _walk(4)
    clip = representation.encode(rotations, root).double()
    clip += 0.1 * torch.randn(clip.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(4, 30, 3, generator=generator, dtype=torch.float64)
    direction = torch.randn(clip.shape, generator=generator, dtype=torch.float64)

    def value(features: Tensor) -> Tensor:
        return (representation.positions(features) * weight).sum()

    moved = clip.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(moved), moved)
    numeric = (value(clip + 1e-6 * direction) - value(clip - 1e-6 * direction)) / 2e-6
    assert_close((gradient * direction).sum(), numeric, atol=1e-6, rtol=1e-6)


def test_local_root_by_hand() -> None:
    angle = torch.tensor([3.0, 3.1, 3.3, 9.0])  # over half a turn there is no jump
    root = torch.stack([torch.tensor([0.0, 1, 3, 9]), torch.ones(4), torch.zeros(4), angle.cos(), angle.sin()], dim=1)
    found = local_root(root[None], torch.tensor([3]), 10.0)
    assert_close(found[0, :3, 0], torch.tensor([1.0, 2.0, 2.0]), atol=1e-4, rtol=0)
    assert_close(found[0, :3, 1], torch.tensor([10.0, 20.0, 20.0]))
    assert found.shape == (1, 4, LOCAL)


def test_a_turn_turns_the_joints() -> None:
    representation, rotations, root = _walk()
    features = representation.encode(rotations, root)
    angle = torch.tensor([0.4, -2.0])
    turned = representation.turned(features.expand(2, -1, -1), angle)
    expected = (yaw_matrix(angle)[:, None, None] @ representation.positions(features)[..., None]).squeeze(-1)
    assert_close(representation.positions(turned), expected, atol=1e-5, rtol=0)
    assert_close(
        representation.canonical(turned, heading=0.3)[..., 0, 3].acos(), torch.full((2,), 0.3), atol=1e-4, rtol=0
    )


def test_humanml_joints_of_soma() -> None:
    made = body("soma30")
    assert made.humanml is not None
    rest = positions_from_bones(made.offsets, made.parents)[list(made.humanml)]
    names = HUMANML.joint_names
    for parent, name, joint in zip(HUMANML.parents, names, rest, strict=True):
        if name.startswith("left_"):  # the mirror image of the right one
            other = rest[names.index(name.replace("left", "right"))]
            assert_close(joint * torch.tensor([-1.0, 1.0, 1.0]), other, atol=0.01, rtol=0)
        assert parent < 0 or 0.02 < float((joint - rest[parent]).norm()) < 0.6
    assert rest[names.index("left_wrist"), 0] > 0.5
    assert body("g1").humanml is None


def test_a_t_pose_of_soma_is_one_of_humanml() -> None:
    representation = KimodoRepresentation(body("soma30"))
    turns = yaw_matrix(torch.tensor(0.7)).expand(4, 30, 3, 3)
    features = representation.encode(turns, torch.tensor([[1.0, 0.9, 2.0]]).expand(4, 3))
    joints = representation.as_humanml(features, representation.positions(features))
    rest = rest_rig(HUMANML)
    still = positions_from_bones(rest.offsets, rest.parents)[:22].float()
    still = (yaw_matrix(torch.tensor(0.7)) @ (still - still[0])[..., None]).squeeze(-1)
    # Limbs as they point: those of SOMA's rest pose are nearly HumanML3D's.
    assert_close(joints[2] - joints[2, :1], still, atol=0.04, rtol=0)
    torso = [HUMANML.index(name) for name in ("spine3", "neck", "left_collar", "right_shoulder", "left_hip")]
    assert_close((joints[2] - joints[2, :1])[torso], still[torso], atol=1e-4, rtol=0)
    assert_close(KimodoRepresentation(smplx_body(still)).as_humanml(features, joints), joints)


def test_motion_has_rotations_and_contacts(tensors: Tensors) -> None:
    representation, known = _case(tensors, "soma")
    features = known["features"]
    joints = representation.positions(features)
    motion = representation.motion(features, joints, 30.0)
    assert_close(motion.positions(), joints.double(), atol=1e-5, rtol=0)
    contacts = representation.contacts(features)
    assert torch.equal(motion.tracks["contacts"][:, 0] > 0, contacts[:, 0] | contacts[:, 1])
    batch = MotionBatch(features[None], torch.tensor([len(features)]), skeleton=representation, fps=30.0)
    assert batch.humanml.features.shape[2] == 263
