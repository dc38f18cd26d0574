"""How much joints move in a free run: as much as in the known frames."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.motion.prediction._state import MotionState

SHARE, POWER, GAIN = 0.9, 2.0, 1.5
"""The share of the known movement that is aimed at, the power of its ratio to the newest by which ways are lengthened,
and the most that they are.

A prediction is a mean of what may follow, and a mean moves less: what reads its own frames comes to rest.
"""


def movement(state: MotionState) -> Tensor:
    """Return how much the joints of states ``[N, T, ...]`` move: mean length of a frame's change in 6D, ``[N]``."""
    moved: Tensor = matrix_to_6d(state.rotations).diff(dim=1).norm(dim=-1).mean((1, 2))
    return moved


def livelier(state: MotionState, newest: MotionState, known: Tensor) -> MotionState:
    """Return frames whose poses go further from the last one, where joints have come to move less than they did.

    Root and contacts stay. Nothing is slowed down.

    Args:
        state: ``[N, F, ...]``.
        newest: ``[N, P, ...]`` the frames before them.
        known: ``[N]`` `movement` of the known frames.
    """
    gain = (SHARE * known / movement(newest).clamp_min(1e-9)).clamp_min(1.0).pow(POWER).clamp_max(GAIN)
    last = matrix_to_6d(newest.rotations[:, -1:])
    further = last + gain[:, None, None, None] * (matrix_to_6d(state.rotations) - last)
    return replace(state, rotations=matrix_from_6d(further))
