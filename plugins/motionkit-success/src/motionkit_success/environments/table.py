"""The pushing task: N tables stepped together, the mechanics of pushing, and the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit_success.environments.base import Floats, Frames, Step
from motionkit_success.environments.canvas import CAMERA, Canvas, Drawn, Painted
from motionkit_success.environments.tasks import PushSettings

Values = NDArray[np.float64]

HALF = 0.16
"""Half of the block's side."""

FINGER = 0.08
"""Radius of the finger."""

SPREAD = 0.3826 * 2 * HALF
"""Largest frictional moment over largest frictional force of a square under even pressure, a length."""

TABLE = 0.8
"""Half of the side of the table, whose middle is that of the picture."""

_FLOOR, _TABLE = (14, 15, 19), (52, 56, 68)
_GREEN, _BLUE, _FALLEN, _YELLOW = (60, 190, 80), (90, 130, 235), (40, 52, 84), (240, 205, 60)
_DISC = 0.24
_AWAY = 9.0  # where a block is in no picture

STEP, EDGE = 0.2, 0.92
_PARTS = 5  # of a step, so that each is much shorter than the finger
_BLOCK, _GOAL = 0.45, 0.5  # where they begin at most, from the middle of the table along each axis
_APART, _NEAR = 1.5 * HALF + FINGER, 0.5  # distances from the finger to the block at the start


def push(block: Values, finger: Values, way: Values, friction: float, held: NDArray[np.bool_]) -> Values:
    """Move fingers by a short way and return the blocks ``[N, 3]`` that they touch, pushed out of the way.

    Quasi-static pushing (Lynch, Maekawa and Tanie 1992, "Manipulation and active sensing by pushing using tactile
    feedback"): friction on the table is an ellipsoid, so that a force f at the offset r from the middle moves the block
    along f and turns it by ``r x f / SPREAD**2``. The contact sticks if the force that moves the contact point with the
    finger lies inside the friction cone; else it slides along the cone's edge. A block that is not pushed stands still.

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
    # The contact point moves by `need`: out of the finger, and with it.
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
    # As the turn is finite, some depth may be left: the block is moved out along the normal.
    normal, depth, _ = contact(moved, place)
    moved[:, :2] += normal * (np.maximum(depth, 0) * touched)[:, None]
    return moved


def contact(
    block: Values,  # [N, 3] middle and angle
    finger: Values,  # [N, 2]
) -> tuple[Values, Values, Values]:
    """Return normal ``[N, 2]`` to the block, depth ``[N]``, below 0 for a gap, and the nearest point ``[N, 2]``."""
    local = _turned(finger - block[:, :2], -block[:, 2])
    nearest = local.clip(-HALF, HALF)
    way = nearest - local
    length = np.linalg.norm(way, axis=1)
    inside = length < 1e-12
    # A finger whose middle is inside the block leaves it by the nearest side.
    axis = np.abs(local).argmax(axis=1)
    rows = np.arange(len(local))
    sign = np.where(local[rows, axis] < 0, -1.0, 1.0)
    out = np.zeros_like(local)
    out[rows, axis] = -sign
    edge = local.copy()
    edge[rows, axis] = sign * HALF
    normal = np.where(inside[:, None], out, way / np.maximum(length, 1e-12)[:, None])
    nearest = np.where(inside[:, None], edge, nearest)
    depth = np.where(inside, FINGER + HALF - np.abs(local).max(axis=1), FINGER - length)
    return _turned(normal, block[:, 2]), depth, block[:, :2] + _turned(nearest, block[:, 2])


def _moves(arm: Values, force: Values) -> Values:
    """Return the motion ``[N, 2]`` of the point at offset `arm` under a force there."""
    turn = (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0]) / SPREAD**2
    return force + turn[:, None] * np.stack([-arm[:, 1], arm[:, 0]], axis=1)


def _solve(arm: Values, motion: Values) -> Values:
    """Return the force ``[N, 2]`` for a motion: the inverse of `_moves`."""
    x, y, c = arm[:, 0], arm[:, 1], SPREAD**2
    determinant = c + x * x + y * y
    first = ((c + x * x) * motion[:, 0] + x * y * motion[:, 1]) / determinant
    second = (x * y * motion[:, 0] + (c + y * y) * motion[:, 1]) / determinant
    return np.stack([first, second], axis=1)


def _turned(vector: Values, angle: Values) -> Values:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * vector[:, 0] - sin * vector[:, 1], sin * vector[:, 0] + cos * vector[:, 1]], axis=1)


class Camera:
    """Draws the table from above, `size` pixels wide and high."""

    def __init__(self, size: int) -> None:
        self._canvas = Canvas(size)
        self._table = self._canvas.blank(1, _FLOOR)
        middle = np.zeros((1, 2), np.float32)
        self._canvas.square(self._table, middle, middle[:, 0], TABLE, _TABLE)

    def __call__(
        self,
        block: Floats,  # [N, 3] middle and angle
        finger: Floats,  # [N, 2]
        goal: Floats,  # [N, 2]
        fallen: NDArray[np.bool_],  # [N] blocks that lie on the floor
    ) -> NDArray[np.uint8]:
        """Return pictures ``[N, H, W, 3]`` uint8 RGB."""
        shapes = self._canvas

        def still(some: NDArray[np.int64]) -> Floats:
            canvas = np.repeat(self._table, len(some), axis=0)
            shapes.disc(canvas, goal[some], _DISC, _GREEN)
            for place, copy in enumerate(some.tolist()):
                if fallen[copy]:
                    canvas[place] = self._with_fallen(block[copy], goal[copy])
            return canvas

        def paint(canvas: Floats, part: slice) -> Sequence[Painted]:
            pushed = shapes.square(canvas, middle[part], block[part, 2], HALF, _BLUE)
            return pushed, shapes.disc(canvas, finger[part], FINGER, _YELLOW)

        lies = fallen[:, None]
        middle = np.where(lies, np.float32(_AWAY), block[:, :2])  # what lies on the floor stands still
        return shapes.pictures_over(np.concatenate([goal, lies, np.where(lies, block, 0)], axis=1), still, paint)

    def _with_fallen(self, block: Floats, goal: Floats) -> Floats:
        """Draw a block on the floor, partly hidden by the table."""
        shapes, middle = self._canvas, np.zeros((1, 2), np.float32)
        canvas = shapes.blank(1, _FLOOR)
        shapes.square(canvas, block[None, :2], block[None, 2], HALF, _FALLEN)
        shapes.square(canvas, middle, middle[:, 0], TABLE, _TABLE)
        shapes.disc(canvas, goal[None], _DISC, _GREEN)
        picture: Floats = canvas[0]
        return picture


class Push(Drawn):
    """N tables with a block each; see `motionkit_success.environments.base.Environment`.

    An action moves a round finger by up to `STEP` along each axis, inside ``[-EDGE, EDGE]^2``. The block moves only
    while the finger pushes it. A block whose middle is beyond the edge of the table has fallen, and the episode ends.
    The state vector is the block, the vectors from finger to block and from block to goal, each ``(x, y)``, and the
    cosine and sine of four times the block's angle, which a quarter turn does not change.
    """

    state_size = 8

    def __init__(self, options: PushSettings, *, num_envs: int = 1) -> None:
        super().__init__(options, num_envs)
        self.spec: Mapping[str, object] = {"name": "push", **options.model_dump(mode="json")}
        self._camera = Camera(options.size)
        self._finger, self._goal = np.zeros((num_envs, 2)), np.zeros((num_envs, 2))
        self._block = np.zeros((num_envs, 3))

    def _begin(self, copy: int, seed: int) -> None:
        draw = np.random.default_rng(seed)
        while True:
            block = draw.uniform(-_BLOCK, _BLOCK, 2)
            far = draw.uniform(self.options.min_distance, self.options.max_distance)
            near = draw.uniform(_APART, _NEAR)
            first, second, angle = draw.uniform(-np.pi, np.pi, 3)
            goal = block + far * np.array([np.cos(first), np.sin(first)])
            finger = block + near * np.array([np.cos(second), np.sin(second)])
            if np.abs(goal).max() <= _GOAL and np.abs(finger).max() <= TABLE:
                self._finger[copy], self._block[copy], self._goal[copy] = finger, np.append(block, angle), goal
                return

    @property
    def _fallen(self) -> NDArray[np.bool_]:
        fallen: NDArray[np.bool_] = np.abs(self._block[:, :2]).max(axis=1) > TABLE
        return fallen

    def states(self) -> Floats:
        """Return ``[N, 8]``: block, vectors from finger to block and from block to goal, and the block's angle."""
        block, turned = self._block[:, :2], 4 * self._block[:, 2:]
        parts = [block, block - self._finger, self._goal - block, np.cos(turned), np.sin(turned)]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures, ``[N, size, size, 3]`` uint8."""
        block, finger, goal = (values.astype(np.float32) for values in (self._block, self._finger, self._goal))
        return {CAMERA: self._camera(block, finger, goal, self._fallen)}

    def step(self, actions: NDArray[Any]) -> Step:
        """Move the fingers of the episodes that are not over, and what they push."""
        moving = ~self._over
        end = (self._finger + np.asarray(actions, np.float64).clip(-1, 1) * STEP).clip(-EDGE, EDGE)
        way = np.where(moving[:, None], end - self._finger, 0) / _PARTS
        for _ in range(_PARTS):
            self._block = push(self._block, self._finger, way, self.options.friction, self._fallen | self._over)
            self._finger = self._finger + way
        return self._stepped(np.linalg.norm(self._block[:, :2] - self._goal, axis=1), self._fallen)

    def scripted(self) -> Floats:
        """Return actions that go round the block until it is between finger and goal, and then push."""
        block = self._block[:, :2]
        left = self._goal - block
        distance = np.linalg.norm(left, axis=1)
        ahead = left / np.maximum(distance, 1e-9)[:, None]
        relative = self._finger - block
        far = np.maximum(np.linalg.norm(relative, axis=1), 1e-9)
        # Angle of the finger around the block, from the place that is behind it.
        angle = np.arctan2(
            -ahead[:, 0] * relative[:, 1] + ahead[:, 1] * relative[:, 0], -(relative * ahead).sum(axis=1)
        )
        turned = np.arctan2(relative[:, 1], relative[:, 0]) - np.clip(angle, -0.35, 0.35)
        orbit = np.maximum(1.5 * HALF + FINGER + 0.02, far - STEP)
        around = block + orbit[:, None] * np.stack([np.cos(turned), np.sin(turned)], axis=1) - self._finger
        aside = relative - (relative * ahead).sum(axis=1)[:, None] * ahead
        onward = ahead * np.minimum(STEP, far - HALF - FINGER + distance)[:, None] * 0.7 - 1.0 * aside
        move = np.where((np.abs(angle) < 0.3)[:, None], onward, around)
        move = np.where((distance < self.options.radius / 2)[:, None], 0, move)
        return (move / STEP).clip(-1, 1).astype(np.float32)

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything that changes."""
        return {
            "finger": self._finger.copy(), "block": self._block.copy(), "goal": self._goal.copy(),
            "elapsed": self._elapsed.copy(), "over": self._over.copy(),
        }  # fmt: skip

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back."""
        self._finger, self._block, self._goal = (
            np.array(state[name], np.float64) for name in ("finger", "block", "goal")
        )
        self._elapsed[:], self._over[:] = state["elapsed"], state["over"]
