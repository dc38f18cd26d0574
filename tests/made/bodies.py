"""Synthetic walkers and a slow, loop-by-loop reading of the feature formulas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from motionkit.motion import HUMANML, Skeleton, feature_layout


def walker(
    frames: int = 60, seed: int = 0, *, turn: float = 0.0, skeleton: Skeleton = HUMANML, sway: float = 0.5
) -> Tensor:
    """Return ``[frames, J, 3]`` float64 of a swaying body with constant bones; it walks, turning `turn` rad a frame."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames)[:, None, None] / 20.0
    rest = np.array(skeleton.raw_offsets)
    lengths = np.linalg.norm(skeleton.target_offsets or rest * 300.0, axis=1) * rng.uniform(0.9, 1.1, skeleton.joints)
    phase, speed = rng.uniform(0, 6.28, (2, skeleton.joints, 3))
    noise = sway * np.sin(phase + (1 + speed) * time)
    direction = rest + noise
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    bones = direction * lengths[:, None]
    joints = np.zeros((frames, skeleton.joints, 3))
    root = np.stack([0.01 * np.arange(frames), 0.9 + 0.05 * np.sin(time[:, 0, 0] * 5), 0.05 * np.arange(frames)], 1)
    joints[:, 0] = root * (1.0 if skeleton is HUMANML else 600.0)
    for joint, parent in enumerate(skeleton.parents):
        if parent >= 0:
            joints[:, joint] = joints[:, parent] + bones[:, joint]
    angle = 0.3 + turn * np.arange(frames)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x, z = joints[..., 0] * cos + joints[..., 2] * sin, joints[..., 2] * cos - joints[..., 0] * sin
    return torch.from_numpy(np.stack([x, joints[..., 1], z], -1) * skeleton.unit)


def turn_about_y(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]])


def smallest_rotation(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rodrigues' formula."""
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    c, axis = float(u @ v), np.cross(u, v)
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + k + k @ k / (1 + c)


def slow_features(joints: np.ndarray, skeleton: Skeleton) -> np.ndarray:
    """Features of joints that are in place already, one frame and one joint at a time."""
    frames = len(joints)
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    forward = np.zeros((frames, 3))
    for t in range(frames):
        across = joints[t, left_hip] - joints[t, right_hip] + joints[t, right_shoulder] - joints[t, left_shoulder]
        forward[t] = np.cross([0.0, 1.0, 0.0], across / np.linalg.norm(across))
    weights = np.exp(-0.5 * (np.arange(-80, 81) / 20.0) ** 2)
    weights /= weights.sum()
    angles = [0.0]
    for t in range(1, frames):
        smooth = sum(weights[k + 80] * forward[min(max(t + k, 0), frames - 1)] for k in range(-80, 81))
        angles.append(-math.atan2(smooth[0], smooth[2]))
    rows = []
    for t in range(frames - 1):
        heading, ahead = turn_about_y(angles[t]), turn_about_y(angles[t + 1])
        difference = angles[t + 1] - angles[t]
        rate = 0.5 * math.atan2(math.sin(difference), math.cos(difference))
        velocity = ahead @ (joints[t + 1, 0] - joints[t, 0])
        ground = joints[t, 0] * [1.0, 0.0, 1.0]
        row = [rate, velocity[0], velocity[2], joints[t, 0, 1]]
        for joint in range(1, skeleton.joints):
            row.extend(heading @ (joints[t, joint] - ground))
        sixes: dict[int, np.ndarray] = {}
        for chain in skeleton.chains:
            above = heading
            for parent, joint in itertools.pairwise(chain):
                world = smallest_rotation(np.array(skeleton.raw_offsets[joint]), joints[t, joint] - joints[t, parent])
                local = above.T @ world
                sixes[joint] = np.concatenate([local[:, 0], local[:, 1]])
                above = world
        for joint in range(1, skeleton.joints):
            row.extend(sixes[joint])
        for joint in range(skeleton.joints):
            row.extend(heading @ (joints[t + 1, joint] - joints[t, joint]))
        for foot in skeleton.feet:
            row.append(float(((joints[t + 1, foot] - joints[t, foot]) ** 2).sum() < skeleton.contact_threshold))
        rows.append(row)
    return np.array(rows)


def mirror_features(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the features of the mirrored motion.

    Exactly what `joints_to_features` gives for the mirrored joints when left and right bones have one length. On
    HumanML3D's target body, whose sides differ by up to 1 cm, mirror the joints before extracting them to keep
    its bones (as HumanML3D did for its ``M`` files).

    Args:
        features: ``[..., T, D]``, not normalised.
        skeleton: Body of the features.
    """
    layout, order = feature_layout(skeleton), list(skeleton.mirror_order)
    rest = [joint - 1 for joint in order[1:]]
    flip = features.new_tensor([-1.0, 1.0, 1.0])
    # A rotation R becomes F R F with F = diag(-1, 1, 1): entries that touch x once change sign.
    six = features.new_tensor([1.0, -1.0, -1.0, -1.0, 1.0, 1.0])
    result = features.clone()
    result[..., layout.yaw_rate] *= -1.0
    result[..., layout.root_velocity] *= flip[:2]
    positions = features[..., layout.positions].reshape(*features.shape[:-1], -1, 3)
    result[..., layout.positions] = (positions[..., rest, :] * flip).flatten(-2)
    rotations = features[..., layout.rotations].reshape(*features.shape[:-1], -1, 6)
    result[..., layout.rotations] = (rotations[..., rest, :] * six).flatten(-2)
    velocities = features[..., layout.velocities].reshape(*features.shape[:-1], -1, 3)
    result[..., layout.velocities] = (velocities[..., order, :] * flip).flatten(-2)
    result[..., layout.contacts] = features[..., layout.contacts][..., [2, 3, 0, 1]]
    return result
