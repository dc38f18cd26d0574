"""What the foot that stands says of the way of the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.geometry._yaw import rotate_yaw
from motionkit.motion.prediction._state import MotionState, state_positions
from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._roll_out import stepped

HELD, LEVEL = 0.3, 0.01
"""The part of its way along the ground that a foot is kept from, if it stands for certain and is by far the lower one,
and the metres by which a foot must be lower than the other to count e times as much.

A foot of a real clip is not held: in its stand toes roll, and skeletons that were fitted to markers tremble.
"""

NEARER, LONGER, CURVE, MOST = 3.0, 0.25, 0.3, 0.02
"""How the root of a run along a path is brought nearer to it in each frame: by this share of what it is off per second,
at most by this share of its step, and by at most so many radians for each metre of its step. What stands is not moved.

The feet and the path together move a root by at most so many metres a frame.
"""

ASTRAY = 0.5
"""Metres from its path at which feet do not keep a root any more, nearer to it evenly more: legs that do not walk where
a path leads would keep it from going there."""


class Standing:
    """Says by how much the steps of a root must change so that the foot that stands slides less.

    Root and pose are two predictions. Over seconds they come apart: a root that goes faster than its legs glides, and
    goes faster and faster.

    Args:
        offsets: ``[J, 3]`` metres from the parent.
        parents: Parent of each joint, -1 for joint 0.
        feet: The joint of the left foot that stands longest, and of the right one.
    """

    def __init__(self, offsets: Tensor, parents: Sequence[int], feet: tuple[int, int]) -> None:
        joints = {0}
        for foot in feet:
            while foot > 0:
                joints.add(foot)
                foot = parents[foot]
        # Only the joints between root and feet, each after its parent.
        self._joints = sorted(joints)
        self._parents = [-1, *(self._joints.index(parents[joint]) for joint in self._joints[1:])]
        self._feet = [self._joints.index(foot) for foot in feet]
        self._offsets = offsets[self._joints].float()

    def pull(self, last: MotionState, state: MotionState) -> Tensor:
        """Return what to add to the steps of frames ``[N, F, ...]``, given the one before: ``[N, F, 2]`` metres."""
        whole = last.then(state)
        rotations, still = whole.rotations[:, :, self._joints], torch.zeros_like(whole.steps)
        legs = MotionState(rotations, still, torch.zeros_like(whole.heights), whole.contacts)
        feet = state_positions(legs, self._offsets.to(rotations), self._parents)[:, :, self._feet]
        before, now = feet[:, :-1], rotate_yaw(feet[:, 1:], state.steps[:, :, None, 2].expand(-1, -1, 2))
        # A root that goes this way leaves the foot where it is.
        way = (before - now)[..., ::2]
        lower = torch.softmax((feet[:, 1:, :, 1] + feet[:, :-1, :, 1]) / (-2 * LEVEL), dim=-1)
        stands = HELD * lower * torch.minimum(whole.contacts[:, 1:], whole.contacts[:, :-1])
        pull: Tensor = (stands[..., None] * (way - state.steps[:, :, None, :2])).sum(2)
        return pull


def steered(state: MotionState, pull: Tensor | None, course: Course | None, fps: float) -> MotionState:
    """Return frames whose root is pulled by the foot that stands, and comes a little nearer to the path with each step.

    Args:
        state: ``[N, F, ...]``.
        pull: As `Standing.pull` returns it; None: feet are not heeded.
        course: The path from where the first frame begins, along which no step is longer than its fastest; None: the
            root goes freely.
        fps: Frames per second.
    """
    if pull is None and course is None:
        return state
    said = state.steps[..., :2]
    drawn = torch.zeros_like(said) if pull is None else _at_most(pull, MOST)
    if course is None:
        return replace(state, steps=torch.cat([said + drawn, state.steps[..., 2:]], dim=-1))
    place, yaw = said.new_zeros(len(said), 2), said.new_zeros(len(said))
    found = []
    for frame in range(state.frames):
        step, missed = state.steps[:, frame], course.missed(place, yaw, frame + 1)
        off = (missed - step)[:, :2].norm(dim=-1, keepdim=True)
        kept = step[:, :2] + (1 - off / ASTRAY).clamp_min(0.0) * drawn[:, frame]
        far = kept.norm(dim=-1, keepdim=True)
        nearer = kept + _at_most(NEARER / fps * (missed[:, :2] - kept), LONGER * far)
        moved = step[:, :2] + _at_most(nearer - step[:, :2], MOST)
        moved = moved if course.fastest is None else _at_most(moved, course.fastest)
        turn = (NEARER / fps * (missed - step)[:, 2:]).clamp(-CURVE * far, CURVE * far)
        step = torch.cat([moved, step[:, 2:] + turn], dim=-1)
        place, yaw = stepped(place, yaw, step)
        found.append(step)
    return replace(state, steps=torch.stack(found, dim=1))


def _at_most(way: Tensor, most: float | Tensor) -> Tensor:
    """Return ways ``[..., 2]``, those shortened that are longer than `most`."""
    shorter: Tensor = way * (most / way.norm(dim=-1, keepdim=True).clamp_min(1e-9)).clamp_max(1.0)
    return shorter
