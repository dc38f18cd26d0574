"""Performs actions of the catalogue: from an order to joints, rotations and contacts of a clip, at any frame rate."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.starter._catalogue import actions, find
from motionkit.starter._solve import Array, Controls, joined, overreach, solve
from motionkit.starter._take import Take, smooth


@dataclass(frozen=True)
class Order:
    """An order for one clip."""

    name: str  # ``action/variant`` of the catalogue
    frames: int  # Length
    seed: int  # Seeds all randomness of the clip, together with the name
    tempo: float | None = None  # Speed of the movement, 1 = usual; drawn from 0.88 to 1.14 if None
    size: float | None = None  # Amplitude, 1 = usual; drawn from 0.86 to 1.14 if None
    scale: float = 1.0  # Size of the body; 1 is the HumanML3D target skeleton


@dataclass(frozen=True)
class StarterClip:
    """One generated clip."""

    joints: Array  # ``[T, 22, 3]`` metres, Y up, floor at 0, facing +Z and standing at the origin in frame 0
    # ``[T, 22, 3, 3]`` local rotation matrices relative to `motionkit.starter.OFFSETS`; joint 0 global.
    rotations: Array
    root: Array  # ``[T, 3]`` pelvis position, metres
    contacts: np.ndarray  # ``[T, 4]`` bool, ball and ankle on the floor: left ankle, left foot, right ankle, right foot
    fps: float  # Frames per second
    captions: tuple[str, ...]  # All captions of the movement
    action: str
    variant: str


def _controls(order: Order, fps: float) -> Controls:
    """Return the smoothed controls of an order, in which no planted foot is out of reach."""
    entry = find(order.name)
    if order.frames < 2:
        raise MotionkitError(f"a clip needs at least 2 frames, got {order.frames}.")
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(order.name.encode()), order.seed]))
    drawn = rng.uniform([0.88, 0.86], [1.14, 1.14])
    take = Take(
        t=np.arange(order.frames) / fps,
        duration=order.frames / fps,
        rng=rng,
        tempo=float(drawn[0] if order.tempo is None else order.tempo),
        size=float(drawn[1] if order.size is None else order.size),
    )
    controls = entry.make(take, **entry.options)
    for name, seconds in (
        ("hand", 0.05),
        ("elbow", 0.06),
        ("spine", 0.05),
        ("head", 0.05),
        ("knee", 0.05),
        ("foot", 0.025),
        ("turn", 0.04),
        ("pelvis", 0.03),
    ):
        setattr(controls, name, smooth(getattr(controls, name), fps, seconds))
    # Lower the pelvis before a planted foot is out of reach: by the maximum over a short window, smoothed.
    drop = overreach(controls)
    if drop.max() > 1e-4:
        wide = max(1, round(0.09 * fps))
        padded = np.pad(drop, wide, mode="edge")
        peak = np.lib.stride_tricks.sliding_window_view(padded, 2 * wide + 1).max(axis=-1)
        controls.pelvis[:, 1] -= smooth(peak, fps, 0.055)
    return controls.mirrored() if entry.mirrored else controls


def perform(orders: Sequence[Order], *, fps: float = 20.0) -> list[StarterClip]:
    """Perform many orders in one vectorised pass; a clip does not depend on the other orders.

    Example:
        >>> clip = perform([Order("wave/right", frames=60, seed=0)], fps=20.0)[0]
        >>> clip.joints.shape, clip.rotations.shape
        ((60, 22, 3), (60, 22, 3, 3))
    """
    if not orders:
        return []
    parts = [_controls(order, fps) for order in orders]
    joints, rotations = solve(joined(parts))
    clips, start = [], 0
    for order, part in zip(orders, parts, strict=True):
        stop, entry = start + order.frames, find(order.name)
        place = joints[start:stop].copy()
        place[..., [0, 2]] -= place[0, 0, [0, 2]]
        place[..., 1] -= place[..., 1].min()
        place *= order.scale
        planted = part.plant > 0.5
        flat = planted & (np.abs(part.foot[..., 1]) < 0.12)
        contacts = np.stack([flat[:, 0], planted[:, 0], flat[:, 1], planted[:, 1]], axis=-1)
        root, local = place[:, 0].copy(), rotations[start:stop]
        clips.append(StarterClip(place, local, root, contacts, fps, entry.captions, entry.action, entry.variant))
        start = stop
    return clips


def generate(
    action: str,
    *,
    variant: str = "",
    fps: float = 20.0,
    frames: int = 80,
    seed: int = 0,
    tempo: float | None = None,
    size: float | None = None,
    scale: float = 1.0,
) -> StarterClip:
    """Perform one action.

    Args:
        action: Name from `actions`, or ``action/variant``.
        variant: Variant of the action; by default the first one.
        fps: Frames per second, any.
        frames: Length.
        seed: Same seed, same clip.
        tempo: Speed of the movement, 1 = usual; drawn by seed if None.
        size: Amplitude, 1 = usual; drawn by seed if None.
        scale: Size of the body.
    """
    if "/" not in action:
        variants = actions()
        if action not in variants:
            raise MotionkitError(
                f"the starter has no action {action!r}.", fix=f"one of: {', '.join(variants)}", choices=variants
            )
        action = f"{action}/{variant or variants[action][0]}"
    return perform([Order(action, frames, seed, tempo, size, scale)], fps=fps)[0]
