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
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import Body, soma30_rows

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
    if not isinstance(entry, dict) or entry.get("type") not in _TYPES:
        found = entry.get("type") if isinstance(entry, dict) else entry
        raise MotionkitError(f"{origin} is of the type {found!r:.80}.", fix=f"known are {', '.join(_TYPES)}.")
    frames = _numbers(entry, "frame_indices", (-1,), origin)
    count = len(frames)
    if not count or bool(((frames != frames.round()) | (frames < 0) | (frames > _MOST)).any()):
        raise MotionkitError(f"{origin}: frame_indices are not frames.", fix="give whole numbers from 0 on.")
    frames = frames.long()
    if entry["type"] == "root2d":
        heading = None
        if entry.get("global_root_heading") is not None:
            cos, sin = _numbers(entry, "global_root_heading", (count, 2), origin).unbind(-1)
            heading = torch.atan2(sin, cos)
        return Constraint("root2d", frames, _numbers(entry, "smooth_root_2d", (count, 2), origin), heading)
    body = representation.body
    rotations = body.world(_local(_numbers(entry, "local_joints_rot", (count, -1, 3), origin), body, origin))
    root = _numbers(entry, "root_positions", (count, 3), origin)
    joints = body.joints(rotations, root)
    given = entry.get("smooth_root_2d") is not None
    path = _numbers(entry, "smooth_root_2d", (count, 2), origin) if given else root[:, [0, 2]]
    return Constraint(
        entry["type"], frames, path, representation.facing(joints), joints, rotations, _parts(entry, origin)
    )


def _local(vectors: Tensor, body: Body, origin: str) -> Tensor:
    if body.name == "soma30" and vectors.shape[1] == 77:
        vectors = vectors[:, soma30_rows()]
    if vectors.shape[1] != len(body):
        raise MotionkitError(
            f"{origin} has rotations of {vectors.shape[1]} joints, the model's body {body.name} has {len(body)}.",
            why="it was made for another skeleton.",
            fix="give constraints of a motion of this model.",
        )
    return matrix_from_rotvec(vectors)


def _parts(entry: dict[str, Any], origin: str) -> tuple[str, ...]:
    kind = entry["type"]
    if kind == "fullbody":
        return ()
    names = entry.get("joint_names") if kind == "end-effector" else [kind.title().replace("-", "")]
    if not isinstance(names, list) or not names or not all(name in PARTS for name in names):
        raise MotionkitError(f"{origin}: joint_names are {names!r:.80}.", fix=f"choose from {', '.join(PARTS)}.")
    return tuple(names)


def _numbers(entry: dict[str, Any], name: str, shape: tuple[int, ...], origin: str) -> Tensor:
    """Return a field as float32; -1 in `shape` is any size."""
    try:
        values = torch.tensor(entry.get(name), dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        values = torch.tensor(torch.nan)
    fits = values.ndim == len(shape) and all(size in (-1, had) for size, had in zip(shape, values.shape, strict=False))
    if not fits or not bool(values.isfinite().all()):
        wanted = ", ".join("any" if size < 0 else str(size) for size in shape)
        raise MotionkitError(f"{origin}: {name} is not an array [{wanted}] of numbers.", fix="see Kimodo's examples.")
    return values


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
        for columns, given in _given(constraint, representation):
            rows = constraint.frames[:, None].expand(-1, len(columns))
            values[rows, columns.expand_as(rows)] = given
            mask[rows, columns.expand_as(rows)] = True
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
    return torch.cat([columns for columns, _ in _given(constraint, representation)])


def _given(constraint: Constraint, representation: KimodoRepresentation) -> list[tuple[Tensor, Tensor]]:
    """Return columns ``[C]`` and their values ``[K, C]``."""
    body, parts = representation.body, representation.parts
    given = [(torch.tensor([0, 2]), constraint.path)]
    if constraint.heading is not None:
        heading = torch.stack([constraint.heading.cos(), constraint.heading.sin()], dim=-1)
        given.append((_columns(parts["heading"], [0], 2), heading))
    if constraint.joints is None or constraint.rotations is None:
        return given
    given.append((torch.tensor([1]), constraint.joints[:, 0, 1:2]))
    placed = placed_joints(constraint, body)
    root = torch.stack([constraint.path[:, 0], torch.zeros(len(constraint.path)), constraint.path[:, 1]], dim=-1)
    positions = constraint.joints[:, placed] - root[:, None]
    given.append((_columns(parts["positions"], placed, 3), positions.flatten(1)))
    if turned := [_chain(body, name)[0] for name in constraint.parts]:
        six = matrix_to_6d(constraint.rotations[:, turned]).flatten(1)
        given.append((_columns(parts["rotations"], turned, 6), six))
    return given


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
