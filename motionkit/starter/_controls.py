"""The output of an action: goals for pelvis, feet and hands. The solver turns them into joint rotations."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from motionkit.starter._body import Array


@dataclass
class Controls:
    """Goals of one clip, one row per frame. Sides are indexed 0 = left, 1 = right; angles in radians.

    Attributes:
        pelvis: ``[T, 3]`` pelvis position in metres. The solver lowers it when a planted foot is out of reach.
        turn: ``[T, 3]`` pelvis yaw (left positive), pitch (forward positive), roll (towards the right positive).
        spine: ``[T, 3]`` bend forward, bend to the right, twist to the left, spread over three joints.
        head: ``[T, 3]`` nod down, tilt right, turn left, relative to the chest.
        hand: ``[T, 2, 3]`` wrist relative to its shoulder in the chest's frame, in arm lengths: outward, up, forward.
        elbow: ``[T, 2, 3]`` direction the elbow points to, same frame.
        toe: ``[T, 2, 3]`` ball of the foot, in metres.
        foot: ``[T, 2, 2]`` yaw and pitch (heel up positive) of the foot.
        knee: ``[T, 2, 3]`` direction the knee points to in the pelvis frame: outward, up, forward.
        plant: ``[T, 2]`` 1 while the ball of the foot must stay where it is.
    """

    pelvis: Array
    turn: Array
    spine: Array
    head: Array
    hand: Array
    elbow: Array
    toe: Array
    foot: Array
    knee: Array
    plant: Array

    def mirrored(self) -> Controls:
        """Return the same movement with left and right exchanged."""
        swap = {field.name: getattr(self, field.name).copy() for field in fields(self)}
        for name in ("hand", "elbow", "toe", "foot", "knee", "plant"):
            swap[name] = swap[name][:, ::-1].copy()
        swap["pelvis"][:, 0] *= -1
        swap["toe"][..., 0] *= -1
        swap["foot"][..., 0] *= -1
        swap["turn"][:, [0, 2]] *= -1
        swap["spine"][:, [1, 2]] *= -1
        swap["head"][:, [1, 2]] *= -1
        return Controls(**swap)


def joined(parts: list[Controls]) -> Controls:
    """Concatenate along time, so that many clips are solved in one pass."""
    return Controls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Controls)})
