"""The commanded path ahead, seen from where a roll-out stands."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from motionkit.geometry._yaw import rotate_yaw
from motionkit.motion.prediction._state import follow


class Course:
    """Follows a roll-out along a commanded path.

    The condition is where the path leads from here, so that a roll-out that has left the path is led back to it.

    Args:
        command: ``[N, F, 3]`` steps as in `MotionState`; after its end the path goes on as its last step.
        ahead: Frames ahead of the K points that are read.
        given: ``[N]`` bool: samples that are told the path; None for all.
        fastest: Metres a frame that a root goes at most: points that are further away than it gets so are told in their
            direction, as far as it gets. None: no limit.

    A course begins where the path does; `after` gives the course of a roll-out that begins later, and elsewhere.
    """

    def __init__(
        self, command: Tensor, ahead: Sequence[int], given: Tensor | None = None, fastest: float | None = None
    ) -> None:
        longest = command.shape[1] + max(ahead)
        steps = torch.cat([command, command[:, -1:].expand(-1, longest - command.shape[1], -1)], dim=1)
        start = steps.new_zeros(len(steps), 1, 2)
        place, yaw = follow(steps)
        # Row t is where the path is after t steps.
        self._place, self._yaw = torch.cat([start, place], dim=1), torch.cat([start[..., 0], yaw], dim=1)
        self._ahead = torch.tensor(list(ahead), device=command.device)
        self._given = None if given is None else given[:, None]
        self.fastest = fastest
        self._most = None if fastest is None else (fastest * self._ahead)[:, None]
        self._start = start[:, 0], start[:, 0, 0], 0

    def after(self, steps: Tensor) -> Course:
        """Return the same path for a roll-out that begins after steps ``[N, F, 3]`` of the root, wherever they led."""
        place, yaw = follow(steps)
        later = copy(self)
        later._start = *self._from_start(place[:, -1], yaw[:, -1]), self._start[2] + steps.shape[1]
        return later

    def off(self, away: Tensor, frames: int) -> Course:
        """Return a path that begins elsewhere and comes back to this one.

        Args:
            away: ``[N, 3]`` metres x and z and radians from this path at its start.
            frames: After so many it is this path again; how far it is away falls evenly.
        """
        time = torch.arange(self._yaw.shape[1], device=away.device) / frames
        left = away[:, None] * (1 - time).clamp_min(0.0)[:, None]
        other = copy(self)
        other._place, other._yaw = self._place + left[..., :2], self._yaw + left[..., 2]
        return other

    def at(self, place: Tensor, yaw: Tensor, frame: int | Tensor) -> Tensor:
        """Return the condition ``[N, ..., 4 K + 1]``: x, z, sine and cosine of the K points, and 1 for a known path.

        Args:
            place: ``[N, ..., 2]`` metres, where the root is, seen from where the roll-out began.
            yaw: ``[N, ...]`` radians, where it faces.
            frame: Steps made since then; a tensor ``[F]`` where place has a dimension of frames.
        """
        near, turn = self._seen(place, yaw, torch.as_tensor(frame, device=yaw.device)[..., None] + self._ahead)
        if self._most is not None:
            near = near * (self._most / near.norm(dim=-1, keepdim=True).clamp_min(1e-9)).clamp_max(1.0)
        points = torch.cat([near, turn.sin()[..., None], turn.cos()[..., None]], dim=-1).flatten(-2)
        condition = torch.cat([points, torch.ones_like(points[..., :1])], dim=-1)
        if self._given is None:
            return condition
        given = self._given.view(-1, *(1 for _ in condition.shape[1:]))
        return torch.where(given, condition, torch.zeros_like(condition))

    def missed(self, place: Tensor, yaw: Tensor, frame: int) -> Tensor:
        """Return the step ``[N, 3]`` from a root ``[N, 2]``, ``[N]`` to where the path is after `frame` steps."""
        near, turn = self._seen(place, yaw, torch.tensor([frame], device=yaw.device))
        return torch.cat([near[:, 0], turn], dim=-1)

    def _seen(self, place: Tensor, yaw: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the path after ``[..., K]`` steps as one sees it: ``[N, ..., K, 2]`` and ``[N, ..., K]``."""
        place, yaw = self._from_start(place, yaw)
        rows = (self._start[2] + frames).clamp_max(self._yaw.shape[1] - 1)
        there, facing = self._place[:, rows], self._yaw[:, rows]
        away = there - place[..., None, :]
        flat = torch.stack([away[..., 0], torch.zeros_like(facing), away[..., 1]], dim=-1)
        near = rotate_yaw(flat, -yaw[..., None].expand_as(facing))[..., ::2]
        return near, facing - yaw[..., None]

    def _from_start(self, place: Tensor, yaw: Tensor) -> tuple[Tensor, Tensor]:
        """Return place and heading as the path has them, of those seen from where the roll-out began."""
        one = (1,) * (yaw.ndim - 1)
        start, facing = self._start[0].view(-1, *one, 2), self._start[1].view(-1, *one)
        flat = torch.stack([place[..., 0], torch.zeros_like(yaw), place[..., 1]], dim=-1)
        return start + rotate_yaw(flat, facing.expand_as(yaw))[..., ::2], facing + yaw
