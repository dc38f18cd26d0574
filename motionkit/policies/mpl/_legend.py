"""What goes into an exported predictor and comes out, column by column, and an example of both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from motionkit.geometry._rotations import matrix_from_6d
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._features import FEET, ROOT, pack
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.policies.mpl._roll_out import step_once
from motionkit.policies.mpl._trunk import POINT
from motionkit.rigs._roles import find_roles

Head = Delta | OneShot
Column = dict[str, Any]

_ROOT = (
    ("root: speed to its left", "m/s"),
    ("root: speed ahead", "m/s"),
    ("root: turn of the heading, to the left", "rad/s"),
    ("root: height above the floor", "m"),
)
_ARRAYS = {
    "rotations": {
        "shape": ["T", "J", 3, 3], "unit": "rotation matrices", "range": [-1, 1],
        "meaning": "relative to the parent joint; the root's relative to the heading",
    },
    "steps": {
        "shape": ["T", 3], "unit": ["m", "m", "rad"], "range": None,
        "meaning": "of the root from the frame before, seen in the heading of that frame: to its left, ahead, turn to "
        "the left",
    },
    "heights": {"shape": ["T"], "unit": "m", "range": None, "meaning": "of the root above the floor"},
    "contacts": {
        "shape": ["T", 2], "unit": "", "range": [0, 1],
        "meaning": "how much left and right foot stand; 0.5 where that is not known",
    },
    "path": {
        "shape": ["F", 3], "unit": ["m", "m", "rad"], "range": None,
        "meaning": "steps that the root is asked to take, from the last known frame on",
    },
}  # fmt: skip


class RowsHead(nn.Module):
    """A head as a function of frames as they are packed: ``[N, P, D]`` to ``[N, F, D]``."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, frames: Tensor, condition: Tensor | None = None) -> Tensor:
        head, six = self.head, 6 * self.head.joints
        rotations = matrix_from_6d(frames[..., :six].unflatten(-1, (head.joints, 6)))
        root = frames[..., six : six + ROOT]
        known = MotionState(rotations, root[..., :3] / head.fps, root[..., 3], frames[..., -FEET:])
        if isinstance(head, Delta):
            return pack(step_once(head, known, condition).state, head.fps)
        return pack(head(known, condition).state, head.fps)


def reach_of(head: Head) -> int:
    """Return P, the last frames that a network reads."""
    return max(max(head.lags) + 1, head.settings.window)


def legend(predictor: MplPredictor) -> dict[str, Any]:
    """Return the content of legend.json: the skeleton, and name, unit and range of all columns.

    ``range`` is None where there is no bound; ``mean`` and ``deviation`` are of the training frames.
    """
    network = predictor.network
    heads = heads_of(predictor)
    shares = {"delta": 1 - network.share, "one-shot": network.share}
    return {
        "schema": 1,
        "fps": network.fps,
        "past": network.past,
        "reach": max(reach_of(head) for head in heads.values()),
        "joints": list(predictor.names),
        "parents": list(predictor.parents),
        "offsets": predictor.offsets.tolist(),
        "roles": _roles(predictor),
        "shares": {name: shares[name] for name in heads},
        "arrays": _ARRAYS,
        "frames": _frame_columns(predictor),
        "condition": _condition_columns(predictor),
    }


def example(predictor: MplPredictor) -> dict[str, Any]:
    """Return an example of what goes in and comes out, of the arrays and of each network's rows.

    The motion is made up: joints swing about the mean pose of the training clips.
    """
    network, heads = predictor.network, heads_of(predictor)
    known = _example(predictor, max(network.past, *(reach_of(head) for head in heads.values())))
    frames = max(1, round(network.fps))
    path = torch.tensor([0.0, 1.0 / network.fps, 0.2 / network.fps]).repeat(frames, 1)
    batch = known.map(lambda values: values[None])
    output = {"free": _named(predictor.predict(batch, frames))}
    found: dict[str, Any] = {"arrays": {"input": {**_named(batch), "frames": frames, "path": _listed(path)}}}
    if network.settings.command != "none":
        output["path"] = _named(predictor.predict(batch, frames, command=path[None]))
    found["arrays"]["output"] = output
    width = len(_condition_columns(predictor))
    condition = torch.linspace(-0.9, 0.9, width)[None] if width else None
    for name, head in heads.items():
        rows = pack(known.part(known.frames - reach_of(head)), network.fps)[None]
        given = {"frames": _listed(rows[0])} | ({} if condition is None else {"condition": _listed(condition[0])})
        with torch.no_grad():
            following = RowsHead(head)(rows, condition)
        found[name] = {"input": given, "output": {"following": _listed(following[0])}}
    return found


def heads_of(predictor: MplPredictor) -> dict[str, Head]:
    """Return the networks that a predictor has, by name."""
    network = predictor.network
    found: dict[str, Head | None] = {"delta": network.delta, "one-shot": network.shot}
    return {name: head for name, head in found.items() if head is not None}


def _roles(predictor: MplPredictor) -> dict[str, str]:
    """Return the joints that tell where a body faces and stands."""
    wanted = [f"{side} {joint}" for joint in ("hip", "shoulder", "ankle", "toe") for side in ("left", "right")]
    found = find_roles(predictor.names, predictor.parents)
    return {role: predictor.names[found[role]] for role in wanted if role in found}


def _frame_columns(predictor: MplPredictor) -> list[Column]:
    """Return the columns of a row of the networks, as `pack` makes it."""
    names: list[tuple[str, str, list[int] | None]] = [
        (f"{joint}: {axis} axis, {part}", "", [-1, 1]) for joint in predictor.names for axis in "xy" for part in "xyz"
    ]
    names += [(name, unit, None) for name, unit in _ROOT]
    names += [(f"{side} foot stands", "", [0, 1]) for side in ("left", "right")]
    mean = next(iter(heads_of(predictor).values())).mean
    columns = zip(names, mean.tolist(), predictor.network.pose_std.tolist(), strict=True)
    return [
        {"column": place, "name": name, "unit": unit, "range": bounds, "mean": mean, "deviation": deviation}
        for place, ((name, unit, bounds), mean, deviation) in enumerate(columns)
    ]


def _condition_columns(predictor: MplPredictor) -> list[Column]:
    """Return the columns of the condition, as `Course` makes it; none for a predictor that reads no path."""
    network = predictor.network
    if network.settings.command == "none":
        return []
    columns: list[Column] = []
    for frames in network.settings.ahead_frames(network.fps):
        there = f"path in {frames / network.fps:.3g} s"
        point = [
            (f"{there}: to the left", "m", None), (f"{there}: ahead", "m", None),
            (f"{there}: sine of its heading", "", [-1, 1]), (f"{there}: cosine of its heading", "", [-1, 1]),
        ]  # fmt: skip
        assert len(point) == POINT, "the condition has other columns than this legend"
        columns += [{"name": name, "unit": unit, "range": bounds} for name, unit, bounds in point]
    columns.append({"name": "1 along a path; 0 without, as all of these are", "unit": "", "range": [0, 1]})
    return [{"column": place, **column} for place, column in enumerate(columns)]


def _example(predictor: MplPredictor, frames: int) -> MotionState:
    """Return made-up known frames: joints swing by a tenth of a radian about the mean pose of the training clips."""
    import roma

    joints, fps = len(predictor.names), predictor.network.fps
    mean = next(iter(heads_of(predictor).values())).mean.double().cpu()
    pose = matrix_from_6d(mean[: 6 * joints].unflatten(0, (joints, 6)))
    # A network that was never trained has a mean of zeros, which is no rotation.
    pose = torch.where(pose.isfinite().all(-1).all(-1)[:, None, None], pose, torch.eye(3, dtype=torch.float64))
    time = torch.arange(frames, dtype=torch.float64) * (2 * torch.pi / fps)
    swing = torch.zeros(frames, joints, 3, dtype=torch.float64)
    for joint in range(joints):
        swing[:, joint, joint % 3] = 0.1 * torch.sin(time + joint)
    root = mean[6 * joints : 6 * joints + ROOT]
    contact = 0.5 + 0.4 * torch.sin(time)
    return MotionState(
        pose @ roma.rotvec_to_rotmat(swing), root[:3].expand(frames, -1) / fps, root[3].expand(frames),
        torch.stack([contact, 1 - contact], dim=-1),
    ).map(Tensor.float)  # fmt: skip


def _named(state: MotionState) -> dict[str, Any]:
    """Return a motion ``[1, T, ...]`` as lists of numbers by the names of the arrays."""
    values = {
        "rotations": state.rotations, "steps": state.steps, "heights": state.heights, "contacts": state.contacts,
    }  # fmt: skip
    return {name: _listed(value[0]) for name, value in values.items()}


def _listed(values: Tensor) -> Any:
    """Return numbers as lists, with the seven digits that float32 has."""
    return (values.double() * 1e7).round().div(1e7).tolist()
