"""The pose of a skeleton with constant bones that is closest to given joints, by damped Gauss-Newton steps."""

from __future__ import annotations

import roma
import torch
from torch import Tensor

from motionkit.geometry import ancestors, bones_from_positions, positions_from_bones
from motionkit.rigs._rest import Rig
from motionkit.rigs._solve_fit import directions, steady_procrustes

_STEPS = 12
_CLOSE = 1e-7
"""Metres (root mean square over a frame's joints) below which a step changes nothing."""

_CHUNK = 256
"""Frames solved at once: bounds memory."""


def closest_pose(joints: Tensor, rig: Rig) -> Tensor:
    """Return joints ``[T, J, 3]`` of the rig, as near to `joints` as its constant bones allow.

    Each frame minimises the sum of squared distances of all joints over the root's place and the rotation of every
    joint (Levenberg-Marquardt with analytic derivatives); a joint's bones keep their angles to each other.

    Args:
        joints: ``[T, J, 3]`` float64 metres.
        rig: The J joints.
    """
    return torch.cat([_solve(part, rig) for part in joints.split(_CHUNK)])


def _solve(joints: Tensor, rig: Rig) -> Tensor:
    bones = _first_guess(joints, rig)
    pose = positions_from_bones(bones, rig.parents)
    cost = (joints - pose).square().sum(dim=(-1, -2))
    damping = torch.full_like(cost, 1e-4)
    for _ in range(_STEPS):
        if bool((cost <= rig.joints * _CLOSE**2).all()):
            break
        tried = _step(bones, joints - pose, damping, rig.parents)
        moved = positions_from_bones(tried, rig.parents)
        new = (joints - moved).square().sum(dim=(-1, -2))
        better = new < cost
        gain = torch.where(better, cost.sqrt() - new.sqrt(), torch.zeros_like(cost))
        bones = torch.where(better[:, None, None], tried, bones)
        pose = torch.where(better[:, None, None], moved, pose)
        cost = torch.where(better, new, cost)
        damping = torch.where(better, damping * 0.2, damping * 10.0).clamp(1e-9, 1e6)
        if bool(better.all()) and float(gain.max()) < _CLOSE:
            break
    return pose


def _first_guess(joints: Tensor, rig: Rig) -> Tensor:
    """Return bones ``[T, J, 3]`` with the rig's lengths and the directions of the joints; the root's is its place."""
    given = bones_from_positions(joints, rig.parents)
    bones: Tensor = directions(given) * rig.offsets.norm(dim=-1, keepdim=True)
    for joint in range(rig.joints):
        children = [child for child, parent in enumerate(rig.parents) if parent == joint]
        if len(children) > 1:
            bones[:, children] = rig.offsets[children] @ steady_procrustes(given[:, children], rig.offsets[children]).mT
    bones[:, 0] = joints[:, 0]
    return bones


def _step(bones: Tensor, miss: Tensor, damping: Tensor, parents: tuple[int, ...]) -> Tensor:
    """Return bones after one step towards ``miss = wanted - reached``.

    Unknowns are the root's shift and a small turn of the bones below each joint. A turn w of bone b moves everything
    below by w x b, so the normal equations need only products of bones, weighted by how many joints hang on both.
    """
    frames, joints = bones.shape[:2]
    tree = ancestors(parents).to(bones)
    carriers = sorted({parent for parent in parents if parent >= 0})
    owner = bones.new_zeros(len(carriers), joints)
    for bone, parent in enumerate(parents):
        if parent >= 0:
            owner[carriers.index(parent), bone] = 1.0
    limbs = bones.clone()
    limbs[:, 0] = 0.0
    below = tree.T @ miss
    pull = torch.linalg.cross(limbs, below, dim=-1)
    eye = torch.eye(3, dtype=bones.dtype)
    dots = limbs @ limbs.mT
    shared = tree.T @ tree
    pairs = dots[..., None, None] * eye - limbs[:, None, :, :, None] * limbs[:, :, None, None, :]
    pairs = pairs * shared[..., None, None]
    turns = torch.einsum("ic,tcdxy,kd->tikxy", owner, pairs, owner)
    counts = shared.diagonal()
    skew = torch.linalg.cross((limbs * counts[:, None])[..., None, :], eye[None, None], dim=-1).mT
    mixed = torch.einsum("ic,tcxy->tixy", owner, skew)  # d(root shift) against d(turn): minus its transpose
    size = 3 * (1 + len(carriers))
    matrix = bones.new_zeros(frames, size, size)
    matrix[:, :3, :3] = eye * joints
    matrix[:, 3:, 3:] = turns.permute(0, 1, 3, 2, 4).reshape(frames, size - 3, size - 3)
    matrix[:, 3:, :3] = mixed.reshape(frames, size - 3, 3)
    matrix[:, :3, 3:] = matrix[:, 3:, :3].mT
    right = torch.cat([miss.sum(dim=1), (owner @ pull).flatten(1)], dim=1)
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
    matrix = matrix + (damping * scale)[:, None, None] * torch.eye(size, dtype=bones.dtype)
    step = torch.cholesky_solve(right[..., None], torch.linalg.cholesky(matrix))[..., 0]
    turn = roma.rotvec_to_rotmat(step[:, 3:].reshape(frames, -1, 3))
    index = [carriers.index(max(parent, 0)) for parent in parents]
    moved: Tensor = (turn[:, index] @ bones[..., None]).squeeze(-1)
    moved[:, 0] = bones[:, 0] + step[:, :3]
    return moved
