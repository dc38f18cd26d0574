"""Baselines without any training: the last pose held, or moved on at the last speed."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.motion.prediction._state import MotionState

DAMPED = 0.8
"""Speed kept from each frame to the next by the damped baseline."""


class Extrapolation:
    """Goes on from the last frame at a speed that shrinks by a factor from frame to frame.

    Rotations move on in 6D and are made orthonormal again: less wrong after a second than turning on about a fixed
    axis. Contacts stay as they are; with a command the root follows it.

    Args:
        names: Joint names.
        fps: Frames per second.
        keep: Factor: 0 holds the last pose, where it is; 1 keeps the speed; between them the speed dies away.
    """

    past = 2

    def __init__(self, names: tuple[str, ...], fps: float, *, keep: float) -> None:
        self.names, self.fps, self._keep = names, fps, keep

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit.policies.base.Predictor`."""
        last = known.part(known.frames - 1)
        speeds = self._keep ** torch.arange(1, frames + 1).to(known.heights)  # of each frame, in that of the last
        ways = speeds.cumsum(0)
        six = matrix_to_6d(known.rotations[:, -2:])
        moved = six[:, 1:] + (six[:, 1:] - six[:, :1]) * ways[:, None, None]
        heights = last.heights + known.heights[:, -2:].diff(dim=1) * ways
        steps = last.steps * speeds[:, None] if command is None else command[:, :frames]
        return MotionState(matrix_from_6d(moved), steps, heights, last.contacts.expand(-1, frames, -1))
