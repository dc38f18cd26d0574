"""Clips of the starter: one action performed once, at any frame rate."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.starter._body import Array
from motionkit.starter._catalogue_place import PLACE
from motionkit.starter._catalogue_travel import TRAVEL
from motionkit.starter._controls import Controls, joined
from motionkit.starter._entry import CatalogueEntry
from motionkit.starter._solve import overreach, solve
from motionkit.starter._timing import Take, smooth

CATALOGUE: tuple[CatalogueEntry, ...] = (*TRAVEL, *PLACE)
"""Every class of movements of the starter, in a fixed order."""

_BY_NAME = {entry.name: entry for entry in CATALOGUE}


@dataclass(frozen=True)
class Order:
    """What to perform.

    Attributes:
        name: ``action/variant`` of the catalogue.
        frames: Length.
        seed: Seeds all randomness of the clip, together with the name.
        tempo: Speed of the movement, 1 = usual; drawn from 0.88 to 1.14 when None.
        size: Amplitude, 1 = usual; drawn from 0.86 to 1.14 when None.
        scale: Size of the body; 1 is the HumanML3D target skeleton.
    """

    name: str
    frames: int
    seed: int
    tempo: float | None = None
    size: float | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class StarterClip:
    """One generated clip.

    Attributes:
        joints: ``[T, 22, 3]`` metres, Y up, floor at 0, facing +Z and standing at the origin in frame 0.
        rotations: ``[T, 22, 3, 3]`` local rotation matrices relative to `motionkit.starter.OFFSETS`; joint 0 global.
        root: ``[T, 3]`` pelvis position, metres.
        contacts: ``[T, 4]`` bool, ball and ankle on the floor: left ankle, left foot, right ankle, right foot.
        fps: Frames per second.
        captions: All captions of the movement.
        action: What is done.
        variant: Which way.
    """

    joints: Array
    rotations: Array
    root: Array
    contacts: np.ndarray
    fps: float
    captions: tuple[str, ...]
    action: str
    variant: str


def actions() -> dict[str, tuple[str, ...]]:
    """Return the variants of every action."""
    found: dict[str, list[str]] = {}
    for entry in CATALOGUE:
        found.setdefault(entry.action, []).append(entry.variant)
    return {action: tuple(variants) for action, variants in found.items()}


def find(name: str) -> CatalogueEntry:
    """Return the catalogue's entry called ``action/variant``.

    Raises:
        MotionkitError: The catalogue has no such entry.
    """
    if name not in _BY_NAME:
        raise MotionkitError(f"the starter has no movement {name!r}.", fix="motionkit.starter.actions() lists them.")
    return _BY_NAME[name]


def _controls(order: Order, fps: float) -> Controls:
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
    # Lower the pelvis before a planted foot is out of reach: the maximum over a short window, smoothed.
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
        variant: Which way; the action's first variant when empty.
        fps: Frames per second, any.
        frames: Length.
        seed: Same seed, same clip.
        tempo: Speed of the movement, 1 = usual; drawn by seed when None.
        size: Amplitude, 1 = usual; drawn by seed when None.
        scale: Size of the body.

    Raises:
        MotionkitError: Unknown action or variant, or fewer than two frames.
    """
    if "/" not in action:
        known = actions()
        if action not in known:
            raise MotionkitError(
                f"the starter has no action {action!r}.", fix=f"one of: {', '.join(known)}", choices=known
            )
        action = f"{action}/{variant or known[action][0]}"
    return perform([Order(action, frames, seed, tempo, size, scale)], fps=fps)[0]
