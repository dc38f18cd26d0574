"""Environment `pendulum`: the heavy half."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from motionkit_environment_pendulum import PendulumOptions
from motionkit_success.environments.base import Floats, Frames, Step
from motionkit_success.environments.canvas import Canvas

Values = NDArray[np.float64]

CAMERA = "camera"
GRAVITY = 9.81  # of a rod of one metre without weight: angular acceleration in rad/s² where it is level
FRICTION = 0.1  # of the pivot, 1/s
STEP, PARTS = 0.1, 10  # seconds of a step, and the parts that it is integrated in
SPEED = 8.0  # rad/s that the state vector calls 1: the bob passes its lowest place at 6.3 after a fall from the top

ROD, BOB, MARK = 0.72, 0.1, 0.14  # lengths in the picture, which is two wide
_WALL, _GREY, _GREEN, _YELLOW = (30, 32, 40), (150, 152, 160), (60, 190, 80), (240, 205, 60)
_START = 0.3  # largest angle at the start, radians


class Pendulum:
    """N pendulums on a wall; see `motionkit_success.environments.base.Environment`.

    The action is the torque of a motor in the pivot. Below 1 the motor cannot hold the pendulum level: a mark that is
    higher than it can lift is reached by swinging. With the angle a from the lowest place, counterclockwise, the
    torque u and friction f: ``a'' = -g sin(a) + g u - f a'``. Nothing but the start is random. The state vector is
    cosine and sine of the angle, its velocity as a share of `SPEED`, and cosine and sine of the mark's angle. A picture
    shows no velocity.

    Args:
        options: Settings.
        num_envs: Copies N.
    """

    state_size = 5

    def __init__(self, options: PendulumOptions, *, num_envs: int = 1) -> None:
        self.options, self.num_envs, self.max_steps = options, num_envs, options.max_steps
        self.spec: Mapping[str, object] = {"name": "pendulum", **options.model_dump(mode="json")}
        self.cameras = {CAMERA: (options.size, options.size)}
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self._canvas = Canvas(options.size)
        self._angle, self._speed, self._mark = (np.zeros(num_envs) for _ in range(3))
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes at rest; see `motionkit_success.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            draw = np.random.default_rng(seed)
            self._angle[copy] = draw.uniform(-_START, _START)
            self._mark[copy] = draw.uniform(self.options.min_angle, np.pi) * draw.choice([-1, 1])
        self._speed[copies], self._elapsed[copies], self._over[copies] = 0, 0, False

    def states(self) -> Floats:
        """Return ``[N, 5]``: cosine and sine of the angle, velocity, cosine and sine of the mark's angle."""
        parts = [
            np.cos(self._angle), np.sin(self._angle), self._speed / SPEED, np.cos(self._mark), np.sin(self._mark),
        ]  # fmt: skip
        return np.stack(parts, axis=1).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures, ``[N, size, size, 3]`` uint8."""
        bob, mark = _place(self._angle), _place(self._mark)
        pivot = np.zeros_like(bob)

        def draw(part: slice) -> Floats:
            canvas = self._canvas.blank(len(bob[part]), _WALL)
            self._canvas.disc(canvas, mark[part], MARK, _GREEN)
            self._canvas.lines(canvas, (pivot[part], bob[part]), 0.03, _GREY)
            self._canvas.disc(canvas, bob[part], BOB, _YELLOW)
            return canvas

        return {CAMERA: self._canvas.pictures(self.num_envs, draw)}

    def step(self, actions: NDArray[Any]) -> Step:
        """Turn the motors of the episodes that are not over for a tenth of a second."""
        torque = GRAVITY * self.options.motor * np.asarray(actions, np.float64)[:, 0].clip(-1, 1)
        angle, speed = self._angle, self._speed
        for _ in range(PARTS):
            speed = speed + (torque - GRAVITY * np.sin(angle) - FRICTION * speed) * (STEP / PARTS)
            angle = angle + speed * (STEP / PARTS)
        moving = ~self._over
        self._angle, self._speed = np.where(moving, angle, self._angle), np.where(moving, speed, self._speed)
        self._elapsed += moving
        distance = np.linalg.norm(_place(self._angle) - _place(self._mark), axis=1)
        success = distance < self.options.radius
        own = success.astype(np.float32) if self.options.reward == "sparse" else -distance
        terminated = success & self.options.terminate_on_success
        truncated = ~terminated & (self._elapsed >= self.max_steps)
        self._over |= terminated | truncated
        return Step(own.astype(np.float32), success, terminated, truncated, ({},) * self.num_envs)

    def scripted(self) -> Floats:
        """Return torques along the swing until its energy takes the bob to the mark's height, and then against it."""
        energy = _energy(self._angle, self._speed)
        missing = _energy(self._mark, 0.0) + 0.1 * GRAVITY - energy
        # A pendulum at rest is pushed to the side where the mark is.
        way = np.where(np.abs(self._speed) > 0.05, np.sign(self._speed), np.sign(self._mark))
        return (way * missing / (GRAVITY * 0.1)).clip(-1, 1).astype(np.float32)[:, None]

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything that changes."""
        return {
            "angle": self._angle.copy(), "speed": self._speed.copy(), "mark": self._mark.copy(),
            "elapsed": self._elapsed.copy(), "over": self._over.copy(),
        }  # fmt: skip

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Put it back."""
        self._angle, self._speed, self._mark = (np.array(state[name]) for name in ("angle", "speed", "mark"))
        self._elapsed[:], self._over[:] = state["elapsed"], state["over"]

    def close(self) -> None:
        """Nothing is open."""


def _place(angle: Values) -> Floats:
    """Return where in the picture ``[N, 2]`` a bob at an angle from the lowest place is."""
    return (ROD * np.stack([np.sin(angle), -np.cos(angle)], axis=1)).astype(np.float32)


def _energy(angle: Values, speed: Values | float) -> Values:
    """Return kinetic and potential energy of a bob of one kilogram, in joules above rest at the lowest place."""
    found: Values = np.square(speed) / 2 + GRAVITY * (1 - np.cos(angle))
    return found
