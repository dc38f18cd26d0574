"""Constant bones of moving joints, and the pose of such bones that is closest to given joints."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import (
    ancestors,
    bones_from_positions,
    matrix_from_rotvec,
    nearest_rotation,
    positions_from_bones,
)
from motionkit.motion.motion import JointMotion
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs.rest import RestRig, rest_rig

SHORT = 1e-4
"""Metres below which a bone has no direction."""

_FIRM = 0.3
"""Margin of a frame's rotation, relative to the rest pose's, below which neighbouring frames count too."""

_ROUNDS = 4
"""Alternations between rotations and shape; one is enough if the shape is constant."""


def fit_rig(motion: JointMotion) -> RestRig:
    """Fit a skeleton with constant bones to moving joints.

    A bone's length is its median over the frames, which is robust to a few bad frames. Joints with several bones
    (pelvis, chest) carry them rigidly: their relative places are the median over the aligned frames (generalised
    Procrustes). The rest pose is the T-pose of `rest_rig` for the 22 joints of HumanML3D and the 21 of KIT, the first
    frame for any other skeleton.

    Args:
        motion: Finite joints in metres.

    Returns:
        The rig: the motion's joints in its order, then the end sites of `rest_rig`.
    """
    check_joints(motion)
    joints = motion.joints.detach().double().cpu()
    skeleton = known_body(motion.names)
    bones = bones_from_positions(joints, motion.parents)
    lengths = bones.norm(dim=-1).median(dim=0).values
    if skeleton is None:
        rig = RestRig(motion.names, motion.parents, bones[0].clone())
    else:
        rig = rest_rig(skeleton, lengths)
    count = len(motion.names)
    offsets = rig.offsets.clone()
    offsets[1:count] = torch.nn.functional.normalize(offsets[1:count], dim=-1) * lengths[1:, None]
    for joint in range(count):
        children = [child for child, parent in enumerate(motion.parents) if parent == joint]
        if len(children) > 1:
            offsets[children] = _shape(bones[:, children], offsets[children])
    return RestRig(rig.names, rig.parents, offsets)


def check_joints(motion: JointMotion) -> None:
    """Refuse joints that cannot be solved."""
    count = len(motion.names)
    if motion.joints.ndim != 3 or motion.joints.shape[1:] != (count, 3) or len(motion.parents) != count or not count:
        raise MotionkitError(
            f"joints of shape {list(motion.joints.shape)} are not frames of {count} named joints.",
            fix="pass joints [T, J, 3] with J names and J parents.",
        )
    if not motion.frames:
        raise MotionkitError("the motion has no frames.")
    if motion.parents[0] >= 0 or not all(0 <= parent < joint for joint, parent in enumerate(motion.parents) if joint):
        raise MotionkitError(
            "the joints are not one tree with the root first and each parent before its children.",
            why=f"parents are {list(motion.parents)}.",
        )
    broken = ~torch.isfinite(motion.joints).all(dim=-1)
    if bool(broken.any()):
        frame, joint = (int(place) for place in broken.nonzero()[0])
        raise MotionkitError(
            f"joint {motion.names[joint]!r} has a value that is not finite (NaN or infinite) in frame {frame}.",
            why=f"{int(broken.any(dim=-1).sum())} of {motion.frames} frames have one; no rotation reaches them.",
            fix="cut the motion to its longest clean run: motionkit convert --fix.",
        )


def known_body(names: Sequence[str]) -> Skeleton | None:
    """Return the body whose joints these are by name and order, or None."""
    return next((body for body in (HUMANML, KIT) if body.joint_names == tuple(names)), None)


def directions(bones: Tensor) -> Tensor:
    """Return unit directions ``[T, J, 3]`` of bones.

    A bone without length takes its direction from the last frame before, else the next frame after, in which it has
    one; a bone that never has a length points up.
    """
    lengths = bones.norm(dim=-1, keepdim=True)
    short = lengths[..., 0] < SHORT
    unit: Tensor = bones / lengths.clamp_min(SHORT)
    if not bool(short.any()):
        return unit
    frames = torch.arange(len(bones))[:, None]
    before = torch.where(short, -1, frames).cummax(dim=0).values
    after = torch.where(short, len(bones), frames).flip(0).cummin(dim=0).values.flip(0)
    source = torch.where(before >= 0, before, after)
    never = (source == len(bones))[..., None]
    unit = unit.gather(0, source.clamp_max(len(bones) - 1)[..., None].expand_as(unit))
    return torch.where(never, unit.new_tensor([0.0, 1.0, 0.0]), unit)


def procrustes(vectors: Tensor, offsets: Tensor) -> Tensor:
    """Return the rotations ``[T, 3, 3]`` that bring `offsets` ``[C, 3]`` closest to `vectors` ``[T, C, 3]``."""
    return nearest_rotation(vectors.mT @ offsets)


def steady_procrustes(vectors: Tensor, offsets: Tensor) -> Tensor:
    """`procrustes`, but frames with an uncertain rotation stay near their neighbours.

    A rotation is uncertain if the vectors collapse onto a line or turn inside out: if the margin of the best rotation
    over the next best (the second singular value plus the signed third) is small compared with that of `offsets`.
    """
    rotations = procrustes(vectors, offsets)
    products = vectors.mT @ offsets  # [T, 3, 3] cross-covariances
    spread = torch.linalg.svdvals(products)
    margin = spread[:, 1] + torch.where(torch.linalg.det(products) < 0, -1.0, 1.0) * spread[:, 2]
    lack = _FIRM * torch.linalg.svdvals(offsets)[1:].square().sum() - margin
    firm = lack <= 0
    if bool(firm.all()) or not bool(firm.any()):
        return rotations
    first = int(firm.double().argmax())
    # From the first firm frame forwards, then backwards; each uncertain frame is pulled towards its neighbour.
    for order in (range(first + 1, len(vectors)), range(first - 1, -1, -1)):
        last = rotations[first].clone()
        for frame in order:
            if not firm[frame]:
                rotations[frame] = nearest_rotation(products[frame] + lack[frame] * last)
            last = rotations[frame]
    return rotations


def _shape(vectors: Tensor, rest: Tensor) -> Tensor:
    """Return the rigid shape ``[C, 3]`` of vectors ``[T, C, 3]``, rotated as close to `rest` as possible."""
    shape = rest
    for _ in range(_ROUNDS):
        turned = vectors @ procrustes(vectors, shape)  # rows times R are R^T times columns
        shape = turned.median(dim=0).values
    return shape @ procrustes(rest[None], shape)[0].T


_STEPS = 12
_CLOSE = 1e-7
"""Metres (root mean square over a frame's joints) at which the iteration has converged."""

_CHUNK = 256
"""Frames solved at once: bounds memory."""


def closest_pose(joints: Tensor, rig: RestRig) -> Tensor:
    """Return joints ``[T, J, 3]`` of the rig, as close to `joints` as its constant bones allow.

    Each frame minimises the sum of squared distances of all joints over the root's place and the rotation of every
    joint (Levenberg-Marquardt with analytic derivatives); a joint's bones keep their angles to each other.

    Args:
        joints: ``[T, J, 3]`` float64 metres.
        rig: The J joints.
    """
    return torch.cat([_solve(part, rig) for part in joints.split(_CHUNK)])


def _solve(joints: Tensor, rig: RestRig) -> Tensor:
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


def _first_guess(joints: Tensor, rig: RestRig) -> Tensor:
    """Return bones ``[T, J, 3]`` with the rig's lengths and the directions of the joints; the root's is its place."""
    target = bones_from_positions(joints, rig.parents)
    bones: Tensor = directions(target) * rig.offsets.norm(dim=-1, keepdim=True)
    for joint in range(rig.joints):
        children = [child for child, parent in enumerate(rig.parents) if parent == joint]
        if len(children) > 1:
            bones[:, children] = (
                rig.offsets[children] @ steady_procrustes(target[:, children], rig.offsets[children]).mT
            )
    bones[:, 0] = joints[:, 0]
    return bones


def _step(bones: Tensor, miss: Tensor, damping: Tensor, parents: tuple[int, ...]) -> Tensor:
    """Return bones after one step; ``miss = target - current``.

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
    # tree[j, b] = 1 where joint j hangs below bone b (or is its end), owner[i, b] = 1 where carrier i turns bone b.
    limbs = bones.clone()
    limbs[:, 0] = 0.0
    below = tree.T @ miss  # sum of the misses of all joints that a bone moves, [F, J, 3]
    pull = torch.linalg.cross(limbs, below, dim=-1)
    eye = torch.eye(3, dtype=bones.dtype)
    # J_c^T J_d of the turns of two bones: n_cd ((b_c.b_d) I - b_d b_c^T), with n_cd joints moved by both.
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
    # Levenberg-Marquardt: damping relative to the mean of the diagonal.
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
    matrix = matrix + (damping * scale)[:, None, None] * torch.eye(size, dtype=bones.dtype)
    step = torch.cholesky_solve(right[..., None], torch.linalg.cholesky(matrix))[..., 0]
    turn = matrix_from_rotvec(step[:, 3:].reshape(frames, -1, 3))
    index = [carriers.index(max(parent, 0)) for parent in parents]
    moved: Tensor = (turn[:, index] @ bones[..., None]).squeeze(-1)
    moved[:, 0] = bones[:, 0] + step[:, :3]
    return moved
