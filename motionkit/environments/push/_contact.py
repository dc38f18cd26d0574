"""How a block moves that a round finger pushes over a table, so slowly that friction stops it at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

HALF = 0.16
"""Half of the block's side."""

FINGER = 0.08
"""Radius of the finger."""

SPREAD = 0.3826 * 2 * HALF
"""Largest frictional moment over largest frictional force of a square under even pressure, a length."""


def push(block: Values, finger: Values, way: Values, friction: float, held: NDArray[np.bool_]) -> Values:
    """Move fingers by a short way and return the blocks ``[N, 3]`` that they touch, pushed out of the way.

    Quasi-static pushing (Lynch, Maekawa and Tanie 1992, "Manipulation and active sensing by pushing using tactile
    feedback"): friction on the table is an ellipsoid, so that a force f at the place r from the middle moves the block
    along f and turns it by ``r x f / SPREAD**2``. The contact sticks where the force that gives the block's place of
    contact the finger's motion lies inside the friction cone; else it slides along the cone's edge. A block that
    nothing pushes stands still.

    Args:
        block: ``[N, 3]`` middle and angle in radians.
        finger: ``[N, 2]`` the finger before.
        way: ``[N, 2]`` how it moves, shorter than its radius.
        friction: Coefficient between finger and block.
        held: ``[N]`` blocks that are not touched.
    """
    place = finger + way
    normal, depth, touch = contact(block, place)
    touched = (depth > 0) & ~held
    along = np.stack([-normal[:, 1], normal[:, 0]], axis=1)
    arm = touch - block[:, :2]
    # The block's place of contact moves by `need`: out of the finger, and with it.
    side = (way * along).sum(axis=1)
    need = depth[:, None] * normal + side[:, None] * along
    force = _solve(arm, need)
    across, pressed = (force * along).sum(axis=1), (force * normal).sum(axis=1)
    edge = normal + friction * np.sign(across)[:, None] * along
    slides = np.abs(across) > friction * pressed
    reached = (_moves(arm, edge) * normal).sum(axis=1)
    force = np.where(slides[:, None], edge * (depth / reached)[:, None], force)
    turn = (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0]) / SPREAD**2
    moved: Values = block + np.concatenate([force, turn[:, None]], axis=1) * touched[:, None]
    # The turn is finite, so a little depth may be left: the block gives way along the normal.
    normal, depth, _ = contact(moved, place)
    moved[:, :2] += normal * (np.maximum(depth, 0) * touched)[:, None]
    return moved


def contact(block: Values, finger: Values) -> tuple[Values, Values, Values]:
    """Return where a finger touches a block.

    Args:
        block: ``[N, 3]`` middle and angle.
        finger: ``[N, 2]``.

    Returns:
        The normal ``[N, 2]`` from finger to block, the depth ``[N]`` of one in the other, below 0 for a gap, and the
        block's place ``[N, 2]`` that is nearest to the finger.
    """
    own = _turned(finger - block[:, :2], -block[:, 2])
    nearest = own.clip(-HALF, HALF)
    way = nearest - own
    length = np.linalg.norm(way, axis=1)
    inside = length < 1e-12
    # A finger whose middle is in the block leaves it by the nearest side.
    axis = np.abs(own).argmax(axis=1)
    rows = np.arange(len(own))
    sign = np.where(own[rows, axis] < 0, -1.0, 1.0)
    out = np.zeros_like(own)
    out[rows, axis] = -sign
    edge = own.copy()
    edge[rows, axis] = sign * HALF
    normal = np.where(inside[:, None], out, way / np.maximum(length, 1e-12)[:, None])
    nearest = np.where(inside[:, None], edge, nearest)
    depth = np.where(inside, FINGER + HALF - np.abs(own).max(axis=1), FINGER - length)
    return _turned(normal, block[:, 2]), depth, block[:, :2] + _turned(nearest, block[:, 2])


def _moves(arm: Values, force: Values) -> Values:
    """Return how the place `arm` from the middle moves under a force there, ``[N, 2]``."""
    turn = (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0]) / SPREAD**2
    return force + turn[:, None] * np.stack([-arm[:, 1], arm[:, 0]], axis=1)


def _solve(arm: Values, motion: Values) -> Values:
    """Return the force ``[N, 2]`` under which `_moves` is a motion."""
    x, y, c = arm[:, 0], arm[:, 1], SPREAD**2
    whole = c + x * x + y * y
    first = ((c + x * x) * motion[:, 0] + x * y * motion[:, 1]) / whole
    second = (x * y * motion[:, 0] + (c + y * y) * motion[:, 1]) / whole
    return np.stack([first, second], axis=1)


def _turned(vector: Values, angle: Values) -> Values:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * vector[:, 0] - sin * vector[:, 1], sin * vector[:, 0] + cos * vector[:, 1]], axis=1)
