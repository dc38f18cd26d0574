"""TMR folders that motionkit writes: safetensors and one config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.encoders.tmr._model import TMR
from motionkit.errors import MotionkitError
from motionkit.nn import stock_keys
from motionkit.runs import write_bytes_atomic
from motionkit.text import TextRecord

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = "motionkit-tmr"
_COMPONENTS = ("text_encoder", "motion_encoder", "motion_decoder")


def save_tmr(folder: Path, model: TMR, *, extra: Mapping[str, object] | None = None, half: bool = False) -> None:
    """Write a TMR folder: ``model.safetensors`` (weights and statistics) and ``config.json``.

    Each file is written aside and renamed. Tensor names are those of the released three files with their component
    in front.

    Args:
        folder: Created when absent.
        model: The model; its decoder is kept when it has one.
        extra: JSON-able additions to the config, such as the training settings.
        half: Store weights as float16 (statistics stay float32).
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    for name in _COMPONENTS:
        module = getattr(model, name)
        if module is not None:
            for key, value in stock_keys(module.state_dict()).items():
                tensors[f"{name}.{key}"] = (value.half() if half else value).detach().cpu().contiguous().clone()
    tensors["stats.mean"], tensors["stats.std"] = model.mean.cpu().clone(), model.std.cpu().clone()
    config = {
        "format": FORMAT,
        "schema": 1,
        "heads": model.motion_encoder.sizes.heads,
        "dropout": model.motion_encoder.sizes.dropout,
        "text": None
        if model.text_model is None
        else {**TextRecord.of(model.text_model).model_dump(), "width": model.text_model.width},
        **dict(extra or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(folder / WEIGHTS, save(tensors))
    write_bytes_atomic(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def is_native(folder: Path) -> bool:
    """Whether `folder` was written by `save_tmr`."""
    return (folder / WEIGHTS).is_file() and read_config(folder / CONFIG).get("format") == FORMAT


def read_config(path: Path) -> Mapping[str, Any]:
    """Read a config.json; empty when there is none.

    Raises:
        MotionkitError: It is not a JSON object.
    """
    return read_json(path, dict, fix="copy it again.") if path.is_file() else {}


def text_record(config: Mapping[str, Any], origin: str) -> TextRecord:
    """Return the record of the text model in a config.json that motionkit wrote.

    Raises:
        MotionkitError: It is damaged.
    """
    try:
        return TextRecord.model_validate(config.get("text") or {})
    except ValidationError as error:
        raise MotionkitError(f"{origin}: text is no text model.", fix="copy the folder again.") from error


def read_native(folder: Path) -> tuple[dict[str, dict[str, Tensor]], Mapping[str, Any]]:
    """Return the tensors by component (``stats`` among them) and the config."""
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in (weights.find_tensors(weights.read(folder / WEIGHTS)) or {}).items():
        name, _, rest = key.partition(".")
        parts.setdefault(name, {})[rest] = value.float()
    for name in ("text_encoder", "motion_encoder", "stats"):
        if name not in parts:
            raise MotionkitError(f"{folder / WEIGHTS} has no {name}.", fix="train it again: motionkit pretrain tmr")
    if not {"mean", "std"} <= parts["stats"].keys():
        raise MotionkitError(f"{folder / WEIGHTS} has no statistics.", fix="train it again: motionkit pretrain tmr")
    return parts, read_config(folder / CONFIG)
