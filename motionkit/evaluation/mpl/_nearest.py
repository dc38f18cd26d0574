"""Motion matching as a baseline: what followed the most similar moment of the training clips."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.datasets.motions._windows import Windows
from motionkit.geometry._rotations import matrix_to_6d
from motionkit.motion.prediction._state import MotionState, path_points

_SPEED = 2.0
"""Weight of how the pose changed, beside the pose: on CMU clips 2 to 10 do alike, 0 is worse by a fifth."""

_AT_ONCE = 512


class Nearest:
    """The nearest training window by pose and its change over one and four frames; its future, moved onto this pose.

    Rotations and height go on from the last known frame by the neighbour's changes, so that nothing jumps; steps and
    contacts are the neighbour's. With a command five points of the path count for the distance, and the root follows
    the command.

    Args:
        names: Joint names.
        fps: Frames per second.
        windows: What to search; windows that are filled up are not used.
        command: Whether there will be a command.
    """

    def __init__(self, names: tuple[str, ...], fps: float, windows: Windows, *, command: bool = False) -> None:
        self.names, self.fps, self.past = names, fps, min(5, windows.past)
        self._windows, self._index = windows, windows.whole()
        self._every = max(1, windows.future // 5) if command else 0
        keys = [
            self._key(windows.known(index), windows.following(index).steps) for index in self._index.split(_AT_ONCE)
        ]
        self._keys = torch.cat(keys)

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit.policies.base.Predictor`."""
        best = self._index[torch.cdist(self._key(known, command), self._keys).argmin(1)]
        start = self._windows.known(best).part(self._windows.past - 1)
        future = self._windows.following(best).part(0, frames)
        turned = known.rotations[:, -1:] @ start.rotations.transpose(-1, -2) @ future.rotations
        heights = known.heights[:, -1:] + future.heights - start.heights
        steps = future.steps if command is None else command[:, :frames]
        return MotionState(turned, steps, heights, future.contacts)

    def _key(self, known: MotionState, command: Tensor | None) -> Tensor:
        six = matrix_to_6d(known.rotations[:, -self.past :]).flatten(2)
        key = [six[:, -1], _SPEED * (six[:, -1] - six[:, -2]), _SPEED / 2 * (six[:, -1] - six[:, 0])]
        if self._every and command is not None:
            key.append(path_points(command, self._every))
        return torch.cat(key, dim=1)
