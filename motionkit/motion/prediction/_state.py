"""The state of a motion relative to where the body faces, and the way back to joint positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.geometry._kinematics import positions_from_bones, rotations_above
from motionkit.geometry._yaw import rotate_yaw, yaw_matrix


@dataclass(frozen=True)
class MotionState:
    """Motion as a predictor knows it: no place and no direction in the world.

    Attributes:
        rotations: ``[..., T, J, 3, 3]`` relative to the parent joint; the root's (joint 0) to the heading.
        steps: ``[..., T, 3]``: how the root came here from the frame before, seen in that frame's heading: metres to
            its left (x) and ahead (z), and the turn of the heading in radians.
        heights: ``[..., T]`` metres of the root above the floor of its file.
        contacts: ``[..., T, 2]`` left and right foot in [0, 1]; 0.5 where they are not known.
    """

    rotations: Tensor
    steps: Tensor
    heights: Tensor
    contacts: Tensor

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return self.heights.shape[-1]

    @classmethod
    def joined(cls, states: Sequence[MotionState]) -> MotionState:
        """Return the frames of states one after another."""
        return cls(
            torch.cat([state.rotations for state in states], dim=-4),
            torch.cat([state.steps for state in states], dim=-2),
            torch.cat([state.heights for state in states], dim=-1),
            torch.cat([state.contacts for state in states], dim=-2),
        )

    def map(self, change: Callable[..., Tensor], *others: MotionState) -> MotionState:
        """Return the state with each of its tensors changed; `change` also gets that of `others`."""
        every = [(one.rotations, one.steps, one.heights, one.contacts) for one in (self, *others)]
        return MotionState(*map(change, *every))

    def part(self, start: int, stop: int | None = None) -> MotionState:
        """Return frames ``start:stop``."""
        span = slice(start, stop)
        return MotionState(
            self.rotations[..., span, :, :, :], self.steps[..., span, :], self.heights[..., span],
            self.contacts[..., span, :],
        )  # fmt: skip

    def then(self, other: MotionState) -> MotionState:
        """Return this state with the frames of another after it."""
        return MotionState.joined([self, other])


def follow(steps: Tensor) -> tuple[Tensor, Tensor]:
    """Add up steps from the origin, facing +Z.

    Args:
        steps: ``[..., T, 3]`` as in `MotionState`.

    Returns:
        ``[..., T, 2]`` metres x and z, and ``[..., T]`` radians, after each step.

    Example:
        >>> place, yaw = follow(torch.tensor([[0.0, 1.0, torch.pi / 2], [0.0, 1.0, 0.0]]))
        >>> place[-1].round(decimals=3).tolist()
        [1.0, 1.0]
    """
    yaw = steps[..., 2].cumsum(-1)
    before = torch.cat([torch.zeros_like(yaw[..., :1]), yaw[..., :-1]], dim=-1)
    moved = torch.stack([steps[..., 0], torch.zeros_like(yaw), steps[..., 1]], dim=-1)
    return rotate_yaw(moved, before).cumsum(-2)[..., ::2], yaw


def path_points(steps: Tensor, every: int) -> Tensor:
    """Return where a path leads, seen from its start: ``[..., 4 K]``, x, z (metres), sine and cosine of the yaw.

    Args:
        steps: ``[..., T, 3]`` as in `MotionState`.
        every: Frames between the K points; the first is that many frames after the start.
    """
    place, yaw = follow(steps)
    points = torch.cat([place, yaw.sin()[..., None], yaw.cos()[..., None]], dim=-1)
    return points[..., every - 1 :: every, :].flatten(-2)


def state_positions(state: MotionState, offsets: Tensor, parents: Sequence[int], *, pose_only: bool = False) -> Tensor:
    """Return joint positions ``[..., T, J, 3]`` in metres, Y up.

    The frame before the first stands at the origin and faces +Z.

    Args:
        state: The motion.
        offsets: ``[..., J, 3]`` metres from the parent; joint 0 is not used.
        parents: Parent of each joint, -1 for joint 0.
        pose_only: Leave root motion and root rotation out: the root is at the origin in every frame, unturned.
    """
    rotations = state.rotations
    root = rotations[..., :1, :, :]
    if pose_only:
        root = torch.eye(3).to(root).expand_as(root)
        start = torch.zeros_like(root[..., 0])
    else:
        place, yaw = follow(state.steps)
        root = yaw_matrix(yaw)[..., None, :, :] @ root
        start = torch.stack([place[..., 0], state.heights, place[..., 1]], dim=-1)[..., None, :]
    above = rotations_above(torch.cat([root, rotations[..., 1:, :, :]], dim=-3), parents)
    bones = (above @ offsets[..., None, 1:, :, None]).squeeze(-1)
    return positions_from_bones(torch.cat([start, bones], dim=-2), parents)
