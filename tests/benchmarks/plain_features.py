"""HumanML3D features the way its formulas read: quaternions, one joint after the other, all frames of a clip at once.

It knows nothing of motionkit but the skeleton's tables. Whatever one joint needs is vectorised over the frames, and
nothing is computed twice on purpose; only joints, chains and clips are loops, as in the published pipeline.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from motionkit.motion import Skeleton

Array = NDArray[np.float64]


def multiply(a: Array, b: Array) -> Array:
    """Product of quaternions ``[..., 4]``, w first."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def inverse(q: Array) -> Array:
    """Inverse of unit quaternions."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def rotate(q: Array, v: Array) -> Array:
    """Vectors ``[..., 3]`` turned by quaternions."""
    axis = q[..., 1:]
    twice = 2.0 * np.cross(axis, v)
    return v + q[..., :1] * twice + np.cross(axis, twice)


def between(u: Array, v: Array) -> Array:
    """Smallest turn from `u` to `v`."""
    w = np.sqrt((u**2).sum(-1, keepdims=True) * (v**2).sum(-1, keepdims=True)) + (u * v).sum(-1, keepdims=True)
    q = np.concatenate([w, np.cross(u, v)], axis=-1)
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def columns(q: Array) -> Array:
    """First two columns of the matrices of quaternions, ``[..., 6]``."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    first = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
    second = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))
    return np.stack([*first, *second], axis=-1)


def forward(joints: Array, right_hip: int, left_hip: int, right_shoulder: int, left_shoulder: int) -> Array:
    """Where a body looks, ``[T, 3]``; shorter than 1 where it leans to the side."""
    across = joints[:, right_hip] - joints[:, left_hip] + joints[:, right_shoulder] - joints[:, left_shoulder]
    across = across / np.linalg.norm(across, axis=-1, keepdims=True)
    return np.cross(np.array([[0.0, 1.0, 0.0]]), across)


def smoothed(values: Array, sigma: float = 20.0) -> Array:
    """Gaussian filter along the frames, ends held."""
    radius = int(4.0 * sigma + 0.5)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    padded = np.pad(values, ((radius, radius), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, weights / weights.sum(), mode="valid") for column in padded.T], axis=-1)


def solve(joints: Array, skeleton: Skeleton, *, smooth: bool) -> tuple[Array, Array]:
    """Inverse kinematics: quaternions ``[T, J, 4]`` down the chains, and the root's."""
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    # The hips are swapped here, and only here, in every public feature.
    ahead = forward(joints, left_hip, right_hip, right_shoulder, left_shoulder)
    if smooth:
        ahead = smoothed(ahead)
    target = np.repeat(np.array([[0.0, 0.0, 1.0]]), len(joints), axis=0)
    root = between(ahead, target)
    root[0] = [1.0, 0.0, 0.0, 0.0]
    raw = np.array(skeleton.raw_offsets)
    quaternions = np.zeros((*joints.shape[:2], 4))
    quaternions[:, 0] = root
    for chain in skeleton.chains:
        above = root
        for parent, joint in itertools.pairwise(chain):
            bone = joints[:, joint] - joints[:, parent]
            bone = bone / np.linalg.norm(bone, axis=-1, keepdims=True)
            rest = np.repeat(raw[joint][None], len(joints), axis=0)
            local = multiply(inverse(above), between(rest, bone))
            quaternions[:, joint] = local
            above = multiply(above, local)
    return quaternions, root


def uniform(joints: Array, skeleton: Skeleton) -> Array:
    """The motion on the target bones: inverse, then forward kinematics."""
    target = np.array(skeleton.target_offsets)
    a, b = skeleton.leg_joints
    parents = skeleton.parents
    old = sum(np.linalg.norm(joints[0, joint] - joints[0, parents[joint]]) for joint in (a, b))
    scale = (np.abs(target[a]).max() + np.abs(target[b]).max()) / old
    quaternions, _ = solve(joints, skeleton, smooth=False)
    out = np.zeros_like(joints)
    out[:, 0] = joints[:, 0] * scale
    for chain in skeleton.chains:
        turn = quaternions[:, 0]
        for parent, joint in itertools.pairwise(chain):
            turn = multiply(turn, quaternions[:, joint])
            out[:, joint] = rotate(turn, np.repeat(target[joint][None], len(joints), axis=0)) + out[:, parent]
    return out


def plain_features(joints: Array, skeleton: Skeleton) -> Array:
    """Features ``[T - 1, D]`` of one clip ``[T, J, 3]``."""
    joints = uniform(joints, skeleton)
    joints[..., 1] -= joints[..., 1].min()
    joints = joints - joints[0, 0] * np.array([1.0, 0.0, 1.0])
    first = forward(joints[:1], *skeleton.face_joints)
    turn = between(first, np.array([[0.0, 0.0, 1.0]]))
    joints = rotate(np.broadcast_to(turn, (*joints.shape[:2], 4)), joints)
    feet = list(skeleton.feet)
    contacts = ((joints[1:, feet] - joints[:-1, feet]) ** 2).sum(-1) < skeleton.contact_threshold
    quaternions, root = solve(joints, skeleton, smooth=True)
    rotations = columns(quaternions)[:, 1:].reshape(len(joints), -1)
    velocity = rotate(root[1:], joints[1:, 0] - joints[:-1, 0])
    yaw = np.arcsin(multiply(root[1:], inverse(root[:-1]))[:, 2:3])
    local = joints.copy()
    local[..., 0] -= joints[:, :1, 0]
    local[..., 2] -= joints[:, :1, 2]
    every = np.repeat(root[:, None], joints.shape[1], axis=1)
    local = rotate(every, local)
    moved = rotate(every[:-1], joints[1:] - joints[:-1])
    return np.concatenate(
        [
            yaw,
            velocity[:, [0, 2]],
            local[:-1, 0, 1:2],
            local[:-1, 1:].reshape(len(joints) - 1, -1),
            rotations[:-1],
            moved.reshape(len(joints) - 1, -1),
            contacts.astype(np.float64),
        ],
        axis=-1,
    )
