"""A motion predictor for other programs: weights as they are, with a runtime of numpy alone, or as ONNX."""

from __future__ import annotations

import importlib.util
import inspect
import json
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_6d, matrix_from_rotvec
from motionkit.rigs.roles import find_roles
from motionkit.runs import TENSORS, OutputFolder
from motionkit_predictor.export import bvh_file, known_frames, runtime
from motionkit_predictor.network.features import FEET, ROOT, pack
from motionkit_predictor.network.heads import POINT, Delta, OneShot
from motionkit_predictor.network.predictor import (
    ASTRAY,
    CURVE,
    GAIN,
    HELD,
    LEVEL,
    LONGER,
    MOST,
    NEARER,
    POWER,
    SHARE,
    step_once,
)
from motionkit_predictor.policy import MplPredictor, open_predictor
from motionkit_predictor.settings import MplOptions
from motionkit_predictor.states import MotionState

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

_RUNTIME = "predictor.py"
_SAMPLES = 5  # example of the free dimension; unlike any other size, which the exporter would identify it with
_ONNX_PARTS = ("onnx", "onnxscript")


class RowsHead(nn.Module):
    """A head as a function of frames as they are packed: ``[N, P, D]`` to ``[N, F, D]``."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, frames: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the frames that follow, packed."""
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

    ``range`` is None without a bound; ``mean`` and ``deviation`` are of the training frames.
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
    vectors: dict[str, Any] = {"arrays": {"input": {**_named(batch), "frames": frames, "path": _listed(path)}}}
    if network.settings.command != "none":
        output["path"] = _named(predictor.predict(batch, frames, command=path[None]))
    vectors["arrays"]["output"] = output
    width = len(_condition_columns(predictor))
    condition = torch.linspace(-0.9, 0.9, width)[None] if width else None
    for name, head in heads.items():
        rows = pack(known.part(known.frames - reach_of(head)), network.fps)[None]
        given = {"frames": _listed(rows[0])} | ({} if condition is None else {"condition": _listed(condition[0])})
        with torch.no_grad():
            following = RowsHead(head)(rows, condition)
        vectors[name] = {"input": given, "output": {"following": _listed(following[0])}}
    return vectors


def heads_of(predictor: MplPredictor) -> dict[str, Head]:
    """Return the networks that a predictor has, by name."""
    network = predictor.network
    heads: dict[str, Head | None] = {"delta": network.delta, "one-shot": network.shot}
    return {name: head for name, head in heads.items() if head is not None}


def _roles(predictor: MplPredictor) -> dict[str, str]:
    """Return the joints that fix the heading and the foot contacts."""
    names = [f"{side} {joint}" for joint in ("hip", "shoulder", "ankle", "toe") for side in ("left", "right")]
    joints = find_roles(predictor.names, predictor.parents)
    return {role: predictor.names[joints[role]] for role in names if role in joints}


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
    joints, fps = len(predictor.names), predictor.network.fps
    mean = next(iter(heads_of(predictor).values())).mean.double().cpu()
    pose = matrix_from_6d(mean[: 6 * joints].unflatten(0, (joints, 6)))
    # A network that was never trained has a mean of zeros, which is not a rotation.
    pose = torch.where(pose.isfinite().all(-1).all(-1)[:, None, None], pose, torch.eye(3, dtype=torch.float64))
    time = torch.arange(frames, dtype=torch.float64) * (2 * torch.pi / fps)
    swing = torch.zeros(frames, joints, 3, dtype=torch.float64)
    for joint in range(joints):
        swing[:, joint, joint % 3] = 0.1 * torch.sin(time + joint)
    root = mean[6 * joints : 6 * joints + ROOT]
    contact = 0.5 + 0.4 * torch.sin(time)
    return MotionState(
        pose @ matrix_from_rotvec(swing), root[:3].expand(frames, -1) / fps, root[3].expand(frames),
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


def export_weights(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write policy.json and model.safetensors; see `motionkit.plugins.Component.exports`."""
    return _export(checkpoint, folder, "safetensors", lambda predictor, part: TENSORS, overwrite=overwrite)


def export_numpy(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write the same and predictor.py, which needs numpy and safetensors alone, with legend and test vector."""

    def write(predictor: MplPredictor, part: Path) -> str:
        (part / _RUNTIME).write_text(inspect.getsource(runtime), encoding="utf-8")
        _write_legend(predictor, part, ["arrays"])
        return _RUNTIME

    return _export(checkpoint, folder, "numpy", write, overwrite=overwrite)


def export_onnx(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write delta.onnx, one-shot.onnx or both, onnx.json, which names inputs and outputs, legend and test vector.

    Input ``frames`` ``[N, P, D]``: the last P frames, each 6D rotations, steps per second, height and contacts; input
    ``condition`` ``[N, 4 K + 1]``, if the predictor reads a path; output ``following`` ``[N, F, D]`` in the same units.
    ``joined`` in onnx.json says how the heads make one motion: ``share`` of it is the one-shot head's; the first
    ``first`` frames are of each head's own run, and from then on both go on from the joined motion after ``again``
    frames. Without a path, poses of a predictor with a one-shot head then go further from the last one, by 1 or more
    times in 6D: ``lively.share`` times the ratio of movement, known to newest, to the ``power``, at most ``gain``.
    Movement is the mean length by which a joint's 6D changes a frame, over the last ``lively.frames`` frames. The
    points of a condition lie ``ahead`` frames ahead, seen from where the root is, each no further away than one gets
    at ``steer.fastest`` metres a second, unless that is null; along a path no step is longer either. After the first
    shot each step of the root is pulled towards the ways that leave the joints ``stand.feet`` where they are: by the
    share ``held``, times the lesser contact of a foot in both frames, times its part of a softmax over both feet of
    their negative mean height by ``level``, along a path times 1 minus how far from it the step leads by ``astray``
    metres (0 at least). Along a path it is then brought nearer to that: by the share ``nearer`` a second of what it
    is off, at most by the share ``longer`` of the step, and by ``curve`` radians for each metre of the step. Both,
    and each, move the root by at most ``most`` metres.
    """
    if missing := [name for name in _ONNX_PARTS if importlib.util.find_spec(name) is None]:
        raise MotionkitError(
            f"{', '.join(missing)} is not installed.", why="ONNX files are written with it.",
            fix="pip install 'motionkit[onnx]'",
        )  # fmt: skip

    def write(predictor: MplPredictor, part: Path) -> str:
        network = predictor.network
        written = heads_of(predictor)
        files: dict[str, object] = {key: _write_onnx(head, part / f"{key}.onnx") for key, head in written.items()}
        joined: dict[str, object] = {
            "share": network.share, "first": network.first, "again": network.again, "most": MOST,
        }  # fmt: skip
        if network.shot is not None:
            joined["lively"] = {"frames": network.reach, "share": SHARE, "power": POWER, "gain": GAIN}
        if predictor.feet is not None:
            joined["stand"] = {"feet": list(predictor.feet), "held": HELD, "level": LEVEL, "astray": ASTRAY}
        if network.settings.command != "none":
            joined["ahead"] = list(network.settings.ahead_frames(network.fps))
            joined["steer"] = {"nearer": NEARER, "longer": LONGER, "curve": CURVE, "fastest": predictor.fastest}
        _write_json(part / "onnx.json", {**files, "joined": joined})
        _write_legend(predictor, part, list(written))
        return f"{next(iter(written))}.onnx"

    return _export(checkpoint, folder, "onnx", write, overwrite=overwrite)


def _export(
    checkpoint: str, folder: Path, to: str, write: Callable[[MplPredictor, Path], str], *, overwrite: bool
) -> tuple[Path, list[str]]:
    place = OutputFolder(folder, "export.json", "motionkit-export", overwrite=overwrite)
    place.claim()
    predictor = open_predictor(MplOptions(checkpoint=checkpoint))
    with place.beside() as part:
        predictor.save(part)
        name = write(predictor, part)
    place.settle(part, {"schema": 1, "to": to, "checkpoint": checkpoint})
    return folder / name, []


def _write_legend(predictor: MplPredictor, part: Path, examples: Sequence[str]) -> None:
    """Write legend.json, test_vector.json with the named examples, and the modules that read poses."""
    _write_json(part / "legend.json", legend(predictor))
    vectors = example(predictor)
    (part / "test_vector.json").write_text(json.dumps({name: vectors[name] for name in examples}), encoding="utf-8")
    for module in (known_frames, bvh_file):
        (part / Path(inspect.getfile(module)).name).write_text(inspect.getsource(module), encoding="utf-8")


def _write_json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_onnx(head: Delta | OneShot, path: Path) -> dict[str, object]:
    past = reach_of(head)
    width = 6 * head.joints + ROOT + FEET
    frames = torch.zeros(_SAMPLES, past, width)
    frames[..., : 6 * head.joints] = torch.tensor([1.0, 0, 0, 0, 1, 0]).repeat(head.joints)
    inputs: tuple[Tensor, ...] = (frames,)
    if head.settings.command != "none":
        inputs = (frames, torch.zeros(_SAMPLES, POINT * len(head.ahead) + 1))
    names = ["frames", "condition"][: len(inputs)]
    batch = torch.export.Dim("batch")
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter's own parts
            program = torch.onnx.export(
                RowsHead(head).eval(), inputs, dynamo=True, verbose=False, input_names=names,
                output_names=["following"], dynamic_shapes=tuple({0: batch} for _ in inputs),
            )  # fmt: skip
            assert program is not None
            program.save(str(path))
    finally:
        logger.setLevel(level)
    following = 1 if isinstance(head, Delta) else head.frames
    shapes = {name: ["N", *value.shape[1:]] for name, value in zip(names, inputs, strict=True)}
    return {"inputs": shapes, "outputs": {"following": ["N", following, width]}, "fps": head.fps}
