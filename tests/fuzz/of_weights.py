"""Readers of weights and arrays."""

from __future__ import annotations

import argparse
import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from motionkit import weights

from .reader import Reader


def _content() -> dict[str, Any]:
    """What checkpoints hold: tensors of several types, some of one storage, and plain things beside them."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 3, generator=generator)
    return {
        "state_dict": collections.OrderedDict(
            {"layer.weight": weight, "layer.bias": weight[0], "half": weight.half(), "count": torch.tensor(3)}
        ),
        "array": np.arange(6.0, dtype="f4").reshape(2, 3),
        "names": np.array(["a", "b"]),
        "scalar": np.float64(2.5),
        "arguments": argparse.Namespace(lr=0.1, name="x"),
        "more": [1, "two", (3.0, None, True), {"k": b"v"}],
        "epoch": 3,
    }


def _numpy() -> dict[str, Any]:
    table = {
        "motion": np.zeros((2, 3)),
        "text": ["a walk", "é"],
        "lengths": np.array([3, 2]),
        "n": 2,
        "f": np.float32(1),
    }
    return {**table, "names": np.array(["x", None], dtype=object), "inner": {"a": (1, 2.5, None, True, b"b")}}


def _torch(scratch: Path, *, zipped: bool) -> None:
    contents = {"whole": _content(), "bare": dict(_content()["state_dict"])}
    for name, content in contents.items():
        (scratch / name).mkdir()
        torch.save(content, scratch / name / "a.pt", _use_new_zipfile_serialization=zipped)


def _pickles(scratch: Path) -> None:
    (scratch / "arrays").mkdir()
    arrays = {"layer.weight": np.ones((3, 2), "f4"), "layer.bias": np.ones(3, ">f8"), "count": np.array(3)}
    (scratch / "arrays" / "a.pkl").write_bytes(pickle.dumps(arrays, protocol=4))
    for protocol in (2, 3, 4, 5):
        (scratch / str(protocol)).mkdir()
        (scratch / str(protocol) / "a.pkl").write_bytes(pickle.dumps(_numpy(), protocol=protocol))


def _npy(scratch: Path) -> None:
    arrays = {
        "float": np.linspace(0, 1, 24).reshape(2, 3, 4), "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
        "text": np.array(["a", "ß"]), "bytes": np.array([b"a"]), "object": np.array(_numpy(), dtype=object),
        "rows": np.array([{"a": 1}, [2], None], dtype=object), "nothing": np.zeros(0), "one": np.float64(3),
    }  # fmt: skip
    for name, array in arrays.items():
        (scratch / name).mkdir()
        np.save(scratch / name / "a.npy", array, allow_pickle=True)


def _npz(scratch: Path) -> None:
    for name, save in {"packed": np.savez_compressed, "plain": np.savez}.items():
        (scratch / name).mkdir()
        save(
            scratch / name / "a.npz",
            poses=np.zeros((30, 4)),
            text=np.array('{"a": 1}'),
            x=np.array(_numpy(), dtype=object),
        )


def _safetensors(scratch: Path) -> None:
    tensors = {f"layer.{index}.weight": torch.full((3, 2), float(index)) for index in range(4)}
    tensors |= {"half": torch.ones(2, dtype=torch.float16), "count": torch.tensor([1, 2]), "empty": torch.zeros(0)}
    for name, metadata in {"plain": None, "metadata": {"format": "pt"}}.items():
        (scratch / name).mkdir()
        (scratch / name / "a.safetensors").write_bytes(safetensors.torch.save(tensors, metadata=metadata))


def _read(folder: Path) -> None:
    (path,) = folder.iterdir()
    content = weights.read(path)
    weights.describe(content)
    weights.find_tensors(content)
    touch(content)


def _read_array(folder: Path) -> None:
    (path,) = folder.iterdir()
    touch(weights.read_array(path))


def touch(value: Any, depth: int = 0) -> None:
    """Look at some of every part: a forged array is a fault of the process only when it is looked at."""
    if depth > 30:
        return
    if isinstance(value, np.ndarray):
        repr(value.reshape(-1)[:3].tolist())
        value.copy()
    elif isinstance(value, torch.Tensor):
        value.reshape(-1)[:3].tolist()
    elif isinstance(value, dict):
        for key, item in list(value.items())[:50]:
            repr(key)
            touch(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value[:50]:
            touch(item, depth + 1)


READERS = (
    Reader("torch-zip", lambda scratch: _torch(scratch, zipped=True), _read),
    Reader("torch-legacy", lambda scratch: _torch(scratch, zipped=False), _read),
    Reader("pickle", _pickles, _read),
    Reader("npy", _npy, _read_array),
    Reader("npz", _npz, _read_array),
    Reader("safetensors", _safetensors, _read),
)
