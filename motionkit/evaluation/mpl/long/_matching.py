"""Motion matching as a baseline for long runs, freely and along a path."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import StateClip
from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.geometry._yaw import rotate_yaw
from motionkit.motion.prediction._state import MotionState, follow, path_points

SEARCH = 0.3
"""Seconds between two searches of motion matching, and between the points of the path that it compares."""

_POINTS = 3
_STRIDE = 2
"""Every second frame of the training clips can be jumped to."""


class Matching:
    """Motion matching: plays the training clips, and every `SEARCH` goes on where one fits best.

    What is compared is the pose, its change since the frame before, the height, and where the path leads in the next
    `SEARCH` x 3 seconds from where the root is; each divided by its deviation over the training clips, so that the
    groups count alike. At a jump what differs is added to the new frames and fades until the next search
    (Bollo, "Inertialization", GDC 2018, with a smooth step). The root goes as it went in the clip: nothing drags it.

    Args:
        names: Joint names.
        fps: Frames per second.
        clips: Clips of one skeleton; those shorter than the points of the path need are not used.
    """

    past = 2

    def __init__(self, names: tuple[str, ...], fps: float, clips: list[StateClip]) -> None:
        self.names, self.fps = names, fps
        self._every = max(1, round(SEARCH * fps))
        reach = _POINTS * self._every
        used = [clip.state for clip in clips if clip.state.frames > reach + 1]
        self._frames = MotionState.joined(used).map(Tensor.double)
        self._six = matrix_to_6d(self._frames.rotations).flatten(1)
        starts, begin = [], 0
        for state in used:
            starts.append(torch.arange(begin + 1, begin + state.frames - reach, _STRIDE))
            begin += state.frames
        self._starts = torch.cat(starts)
        ahead = self._starts[:, None] + torch.arange(1, reach + 1)
        points = path_points(self._frames.steps[ahead], self._every)
        poses = self._pose(self._six[self._starts], self._six[self._starts - 1], self._frames.heights[self._starts])
        self._scales = tuple(float(part.var(0).sum().sqrt().clamp_min(1e-6)) for part in (*poses, points))
        self._keys = self._key((*poses, points)).float()

    @staticmethod
    def enough(clips: list[StateClip], fps: float) -> bool:
        """Whether a clip is long enough to be played."""
        return any(clip.state.frames > _POINTS * max(1, round(SEARCH * fps)) + 1 for clip in clips)

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit.policies.base.Predictor`."""
        known = known.map(Tensor.double)
        six, before = (matrix_to_6d(known.rotations[:, -1 - lag]).flatten(1) for lag in (0, 1))
        heights = known.heights[:, -1]
        path = None if command is None else _longer(command.double(), frames + _POINTS * self._every)
        made: list[MotionState] = []
        for done in range(0, frames, self._every):
            parts = self._pose(six, before, heights)
            if path is not None:
                steps = torch.cat([part.steps for part in made], dim=1) if made else known.steps[:, :0]
                parts = (*parts, self._ahead(path, steps, done))
            key = self._key(parts).float()
            row = self._starts[torch.cdist(key, self._keys[:, : key.shape[1]]).argmin(1)]
            played, six_played = self._played(row, six, heights)
            made.append(played)
            heights = played.heights[:, -1]
            before, six = (six_played[:, -2] if self._every > 1 else six), six_played[:, -1]
        return MotionState.joined(made).part(0, frames)

    def _played(self, row: Tensor, six: Tensor, heights: Tensor) -> tuple[MotionState, Tensor]:
        """Return the frames after `row` with what differs from the pose at hand added, and their 6D."""
        time = torch.arange(1, self._every + 1)
        rows = row[:, None] + time
        part = time.double() / self._every
        left = 1.0 - part * part * (3.0 - 2.0 * part)
        raw = self._six[rows] + left[:, None] * (six - self._six[row])[:, None]
        rotations = matrix_from_6d(raw.unflatten(-1, (-1, 6)))
        height = self._frames.heights[rows] + left * (heights - self._frames.heights[row])[:, None]
        state = MotionState(rotations, self._frames.steps[rows], height, self._frames.contacts[rows])
        return state, matrix_to_6d(rotations).flatten(2)

    def _ahead(self, path: Tensor, steps: Tensor, done: int) -> Tensor:
        """Return where the path leads from where the root is, as `path_points`."""
        still = path.new_zeros(len(path), 1, 3)
        place, yaw = (values[:, -1:] for values in follow(torch.cat([still, steps], dim=1)))
        there, facing = follow(torch.cat([still, path[:, : done + _POINTS * self._every]], dim=1))
        rows = done + self._every * torch.arange(1, _POINTS + 1)
        away, turn = there[:, rows] - place, facing[:, rows] - yaw
        flat = torch.stack([away[..., 0], torch.zeros_like(turn), away[..., 1]], dim=-1)
        near = rotate_yaw(flat, -yaw.expand_as(turn))[..., ::2]
        return torch.cat([near, turn.sin()[..., None], turn.cos()[..., None]], dim=-1).flatten(-2)

    @staticmethod
    def _pose(six: Tensor, before: Tensor, heights: Tensor) -> tuple[Tensor, ...]:
        return six, six - before, heights[:, None]

    def _key(self, parts: tuple[Tensor, ...]) -> Tensor:
        return torch.cat([part / scale for part, scale in zip(parts, self._scales, strict=False)], dim=1)


def _longer(path: Tensor, frames: int) -> Tensor:
    """Return a path that goes on as its last step where it is shorter."""
    missing = max(0, frames - path.shape[1])
    return torch.cat([path, path[:, -1:].expand(-1, missing, -1)], dim=1)
