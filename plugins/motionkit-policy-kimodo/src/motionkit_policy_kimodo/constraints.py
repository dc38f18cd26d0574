"""Constraints of a motion, from Kimodo's JSON files: which features are given, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_rotvec, matrix_to_6d
from motionkit_policy_kimodo.representation import KimodoRepresentation, on_floor
from motionkit_policy_kimodo.skeletons import Body, as_soma30, require_array

PARTS = ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Hips")
"""What an ``end-effector`` constraint may name; ``left-hand`` and the like name one of them."""

_TYPES = ("root2d", "fullbody", "end-effector", "left-hand", "right-hand", "left-foot", "right-foot")
_MOST = 100_000  # frames


@dataclass(frozen=True, eq=False)
class Constraint:
    """Values of K frames."""

    type: str  # As in the file, such as ``root2d``
    frames: Tensor  # ``[K]`` int64, in any order
    path: Tensor  # ``[K, 2]`` metres: x and z of the smoothed root
    heading: Tensor | None  # ``[K]`` radians
    joints: Tensor | None = None  # ``[K, J, 3]`` metres; None for a path
    rotations: Tensor | None = None  # ``[K, J, 3, 3]`` in the world
    parts: tuple[str, ...] = ()  # Of `PARTS`; empty for a path and a full body


def read_constraints(path: Path, representation: KimodoRepresentation) -> list[Constraint]:
    """Read a file of constraints for a body.

    Raises:
        MotionkitError: An unknown type, a missing or misshapen field, another body.
    """
    entries = read_json(path, list, fix="copy it again.")
    return [_constraint(entry, f"{path}: constraint {number}", representation) for number, entry in enumerate(entries)]


def _constraint(entry: Any, origin: str, representation: KimodoRepresentation) -> Constraint:
    kind, body = entry.get("type") if isinstance(entry, dict) else entry, representation.body
    if kind not in _TYPES:
        raise MotionkitError(f"{origin} is of the type {kind!r:.80}.", fix=f"known are {', '.join(_TYPES)}.")

    def numbers(name: str, *shape: int) -> Tensor:
        """Return a field as float32; -1 in `shape` is any size."""
        try:
            values = torch.tensor(entry.get(name), dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            values = torch.tensor(torch.nan)
        return require_array(values, shape, f"{origin}: {name}", "see Kimodo's examples.")

    frames = numbers("frame_indices", -1)
    if bool(((frames != frames.round()) | (frames < 0) | (frames > _MOST)).any()):
        raise MotionkitError(f"{origin}: frame_indices are not frames.", fix="give whole numbers from 0 on.")
    count, frames = len(frames), frames.long()
    if kind == "root2d":
        path, heading = numbers("smooth_root_2d", count, 2), None
        if entry.get("global_root_heading") is not None:
            cos, sin = numbers("global_root_heading", count, 2).unbind(-1)
            heading = torch.atan2(sin, cos)
        return Constraint("root2d", frames, path, heading)
    vectors, root = as_soma30(numbers("local_joints_rot", count, -1, 3)), numbers("root_positions", count, 3)
    if vectors.shape[1] != len(body):
        raise MotionkitError(
            f"{origin} has rotations of {vectors.shape[1]} joints, the model's body {body.name} has {len(body)}.",
            why="it was made for another skeleton.",
            fix="give constraints of a motion of this model.",
        )
    parts = [] if kind == "fullbody" else [kind.title().replace("-", "")]
    if kind == "end-effector":
        parts = entry.get("joint_names")
        if not isinstance(parts, list) or not parts or not all(name in PARTS for name in parts):
            raise MotionkitError(f"{origin}: joint_names are {parts!r:.80}.", fix=f"choose from {', '.join(PARTS)}.")
    rotations = body.world(matrix_from_rotvec(vectors))
    joints = body.joints(rotations, root)
    path = root[:, [0, 2]] if entry.get("smooth_root_2d") is None else numbers("smooth_root_2d", count, 2)
    return Constraint(kind, frames, path, representation.facing(joints), joints, rotations, tuple(parts))


def observe(
    constraints: Sequence[Constraint],
    representation: KimodoRepresentation,
    frames: int,
    *,
    origin: str = "a constraint",
) -> tuple[Tensor, Tensor]:
    """Return the features that constraints give, ``[T, D]`` not normalised and 0 elsewhere, and a bool mask of them.

    Positions are relative to the given smoothed root. Where two constraints give one feature, the first counts, as
    Kimodo means it.

    Args:
        constraints: In the file's order.
        representation: Of the model.
        frames: T, of the motion.
        origin: Their file, for the message.

    Raises:
        MotionkitError: A constraint is of a frame past the end.
    """
    values = torch.zeros(frames, representation.width)
    mask = torch.zeros(frames, representation.width, dtype=torch.bool)
    for constraint in reversed(constraints):
        if (last := int(constraint.frames.max())) >= frames:
            raise MotionkitError(
                f"{origin} ({constraint.type}) is of frame {last}, the motion has {frames}.",
                why="frames count from 0.",
                fix=f"ask for a longer motion, at least {(last + 1) / representation.fps:.2f} s.",
            )
        columns, given = _given(constraint, representation)
        values[constraint.frames[:, None], columns] = given
        mask[constraint.frames[:, None], columns] = True
    return values, mask


def placed_joints(constraint: Constraint, body: Body) -> list[int]:
    """Return the joints whose places a constraint gives, all of them for a full body."""
    chains = [_chain(body, name) for name in constraint.parts]
    return sorted({joint for chain in chains for joint in chain}) if chains else list(range(len(body)))


def columns_of(representation: KimodoRepresentation, kind: str) -> Tensor:
    """Return the columns that a constraint gives: ``root2d`` (with a heading), ``fullbody``, or one of `PARTS`."""
    count = len(representation.body)
    one = torch.zeros(1)
    parts = (kind,) if kind in PARTS else ()
    whole = None if kind == "root2d" else torch.zeros(1, count, 3)
    turned = None if kind == "root2d" else torch.eye(3).expand(1, count, 3, 3)
    constraint = Constraint(kind, one.long(), torch.zeros(1, 2), one, whole, turned, parts)
    return _given(constraint, representation)[0]


def _given(constraint: Constraint, representation: KimodoRepresentation) -> tuple[Tensor, Tensor]:
    """Return columns ``[C]`` and their values ``[K, C]``."""
    body, parts = representation.body, representation.parts
    given = [(torch.tensor([0, 2]), constraint.path)]
    if constraint.heading is not None:
        heading = torch.stack([constraint.heading.cos(), constraint.heading.sin()], dim=-1)
        given.append((_columns(parts["heading"], [0], 2), heading))
    if constraint.joints is not None and constraint.rotations is not None:
        given.append((torch.tensor([1]), constraint.joints[:, 0, 1:2]))
        placed = placed_joints(constraint, body)
        positions = constraint.joints[:, placed] - on_floor(constraint.path)[:, None]
        given.append((_columns(parts["positions"], placed, 3), positions.flatten(1)))
        if turned := [_chain(body, name)[0] for name in constraint.parts]:
            six = matrix_to_6d(constraint.rotations[:, turned]).flatten(1)
            given.append((_columns(parts["rotations"], turned, 6), six))
    columns, values = zip(*given, strict=True)
    return torch.cat(columns), torch.cat(values, dim=1)


def _columns(part: slice, joints: Sequence[int], size: int) -> Tensor:
    first = torch.tensor(joints) * size + int(part.start)
    return (first[:, None] + torch.arange(size)).flatten()


def _chain(body: Body, name: str) -> tuple[int, ...]:
    """Return the joints of a part: a hand and what is fixed with it, a heel and its toe, or the hips."""
    half = len(body.feet) // 2
    return {
        "LeftHand": body.hands[0], "RightHand": body.hands[1],
        "LeftFoot": body.feet[:half], "RightFoot": body.feet[half:], "Hips": (0,),
    }[name]  # fmt: skip
