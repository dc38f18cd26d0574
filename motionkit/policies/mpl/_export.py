"""A motion predictor for other programs: weights as they are, with a runtime of numpy alone, or as ONNX."""

from __future__ import annotations

import importlib.util
import inspect
import json
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.policies.mpl import MplOptions, bvh_file, known_frames, runtime
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._factory import open_predictor
from motionkit.policies.mpl._features import FEET, ROOT
from motionkit.policies.mpl._legend import RowsHead, example, heads_of, legend, reach_of
from motionkit.policies.mpl._lively import GAIN, POWER, SHARE
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._policy import MplPredictor
from motionkit.policies.mpl._standing import ASTRAY, CURVE, HELD, LEVEL, LONGER, MOST, NEARER
from motionkit.policies.mpl._trunk import POINT
from motionkit.runs import TENSORS, OutputFolder

_RUNTIME = "predictor.py"
_SAMPLES = 5  # an example of the free dimension; like no other size, which the exporter would take it for
_ONNX_PARTS = ("onnx", "onnxscript")


def export_weights(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write policy.json and model.safetensors; see `motionkit.plugins.Component.exports`.

    Raises:
        MotionkitError: The checkpoint cannot be read, or `folder` is in use.
    """
    return _export(checkpoint, folder, "safetensors", lambda predictor, part: TENSORS, overwrite=overwrite)


def export_numpy(checkpoint: str, folder: Path, *, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Write the same and predictor.py, which needs numpy and safetensors alone, with legend and test vector.

    Raises:
        MotionkitError: As `export_weights`.
    """

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
    at ``steer.fastest`` metres a second, if that is no null; along a path no step is longer either. After the first
    shot each step of the root is pulled towards the ways that leave the joints ``stand.feet`` where they are: by the
    share ``held``, times the lesser contact of a foot in both frames, times its part of a softmax over both feet of
    their negative mean height by ``level``, along a path times 1 minus how far from it the step leads by ``astray``
    metres (0 at least). Along a path it is then brought nearer to that: by the share ``nearer`` a second of what it
    is off, at most by the share ``longer`` of the step, and by ``curve`` radians for each metre of the step. Both,
    and each, move the root by at most ``most`` metres.

    Raises:
        MotionkitError: As `export_weights`, or the packages of the extra ``onnx`` are missing.
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
    found = example(predictor)
    (part / "test_vector.json").write_text(json.dumps({name: found[name] for name in examples}), encoding="utf-8")
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
    said = logging.getLogger("torch.onnx")
    level = said.level
    said.setLevel(logging.ERROR)
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
        said.setLevel(level)
    following = 1 if isinstance(head, Delta) else head.frames
    shapes = {name: ["N", *value.shape[1:]] for name, value in zip(names, inputs, strict=True)}
    return {"inputs": shapes, "outputs": {"following": ["N", following, width]}, "fps": head.fps}
