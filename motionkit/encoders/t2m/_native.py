"""Evaluator folders that motionkit writes: safetensors and one config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.encoders.t2m._layout import NETWORKS
from motionkit.encoders.t2m._model import T2MEvaluator, Tagger
from motionkit.encoders.t2m._words import WordTable
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.runs import write_bytes_atomic

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = "motionkit-t2m-evaluator"
_AGAIN = "train it again: motionkit pretrain t2m-evaluator"


def save_evaluator(
    folder: Path, model: T2MEvaluator, *, extra: Mapping[str, object] | None = None, half: bool = False
) -> None:
    """Write an evaluator folder: ``model.safetensors`` (weights, statistics, word vectors) and ``config.json``.

    Each file is written aside and renamed. Tensor names are those of the released checkpoint with their network in
    front.

    Args:
        folder: Created when absent.
        model: The model.
        extra: JSON-able additions to the config, such as the training settings.
        half: Store weights and word vectors as float16 (statistics stay float32).
    """
    from safetensors.torch import save

    tensors = {
        f"{name}.{key}": value for name in NETWORKS for key, value in getattr(model, name).state_dict().items()
    } | {"words.vectors": model.words.vectors}
    stored = {
        key: (value.half() if half else value).detach().cpu().contiguous().clone() for key, value in tensors.items()
    }
    stored |= {"stats.mean": model.mean.cpu().clone(), "stats.std": model.std.cpu().clone()}
    config = {"format": FORMAT, "schema": 1, "tagger": model.tagger, "words": model.words.rows, **dict(extra or {})}
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(folder / WEIGHTS, save(stored))
    # One line for the words, which are many; they stand before `extra`, where another "words" may be.
    words = f'"words": {json.dumps(config["words"])}'
    text = json.dumps({**config, "words": None}, indent=2).replace('"words": null', words, 1)
    write_bytes_atomic(folder / CONFIG, (text + "\n").encode())


class Stored(NamedTuple):
    """What a folder holds: tensors by network, statistics, vocabulary, tagger, the data it was trained on."""

    parts: dict[str, dict[str, Tensor]]
    mean: Tensor
    std: Tensor
    words: WordTable
    tagger: Tagger
    trained_on: DataRecord | None


def is_native(folder: Path) -> bool:
    """Whether `folder` was written by `save_evaluator`."""
    return (folder / WEIGHTS).is_file() and _config(folder).get("format") == FORMAT


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / CONFIG
    return read_json(path, dict, fix="copy it again.") if path.is_file() else {}


def read_native(folder: Path) -> Stored:
    """Read a folder.

    Raises:
        MotionkitError: A part is missing or damaged.
    """
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in (weights.find_tensors(weights.read(folder / WEIGHTS)) or {}).items():
        name, _, rest = key.partition(".")
        parts.setdefault(name, {})[rest] = value.float()
    stats, vectors = parts.pop("stats", {}), parts.pop("words", {})
    config = _config(folder)
    words = config.get("words")
    for what, there in (
        *((name, name in parts) for name in NETWORKS),
        ("statistics", {"mean", "std"} <= stats.keys()),
        ("word vectors", "vectors" in vectors),
    ):
        if not there:
            raise MotionkitError(f"{folder / WEIGHTS} has no {what}.", fix=_AGAIN)
    if not isinstance(words, dict) or not all(type(row) is int for row in words.values()):
        raise MotionkitError(f"{folder / CONFIG} has no list of words with their rows.", fix=_AGAIN)
    tagger: Tagger = "built-in" if config.get("tagger") == "built-in" else "auto"
    table = WordTable(vectors["vectors"], words, str(folder))
    return Stored(parts, stats["mean"], stats["std"], table, tagger, DataRecord.read(config))
