"""Damaged files of every format: readers read them or refuse them, and raise nothing else; so does a conversion."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.motion import ReadOptions
from motionkit.motion.convert import FeatureTarget, FileSource, FileTarget
from motionkit.motion.convert._work import Job, work
from motionkit.motion.formats._table import FORMATS, recognise

from ..samples import write_sample

ROUNDS = 100
ODD = (
    0, 1, -1, 2**31, 2**63, -(2**63) - 1, 1e-9, 1e308, -1e308, float("nan"), float("inf"), "", "x", "1e400", None,
    True, [], {}, [[]], [0.0] * 6, {"a": 1},
)  # fmt: skip


def spoil_bytes(path: Path, chance: random.Random) -> None:
    """Cut, repeat, overwrite or swap a piece, mostly near the beginning, where headers are."""
    data = path.read_bytes()
    reach = len(data) if chance.random() < 0.4 else min(len(data), 300)
    place, length = chance.randrange(reach), chance.choice((1, 1, 2, 8, 64))
    noise = bytes(chance.randrange(256) for _ in range(length))
    new = chance.choice((b"", noise, data[place : place + length] * 2, b"9" * length, b"-1e308 ", b"nan ", b"{", b"}"))
    rest = b"" if chance.random() < 0.1 else data[place + length :]
    path.write_bytes(data[:place] + new + rest)


def spoil_array(array: np.ndarray[Any, Any], chance: random.Random) -> np.ndarray[Any, Any]:
    """Give an array another type, shape or content."""
    flat = array.copy()
    if flat.size and flat.dtype.kind == "f" and chance.random() < 0.5:
        count = chance.choice((1, 3, flat.size))
        values = (np.nan, np.inf, 0.0, 1e38, -1e38, 1e300) if flat.dtype == np.float64 else (np.nan, np.inf, 0.0, 1e38)
        flat.reshape(-1)[[chance.randrange(flat.size) for _ in range(count)]] = chance.choice(values)
        return flat
    number = flat if flat.dtype.kind in "fiu" else np.zeros(3)
    changes: list[Callable[[], np.ndarray[Any, Any]]] = [
        lambda: flat[..., None], lambda: flat.reshape(-1)[:0], lambda: flat.T, lambda: flat.reshape(-1),
        lambda: flat[: len(flat) // 2] if flat.ndim else flat,
        lambda: np.array(chance.choice((0.0, -1.0, np.nan, 1e9))),
        lambda: flat.astype("U"), lambda: np.array([b"x"]), lambda: np.zeros((2, 3), bool), lambda: np.zeros((3, 0)),
        lambda: np.array({"a": 1}, dtype=object), lambda: number.astype("f2"), lambda: number.astype("c8"),
        lambda: number.astype(">f8"), lambda: -number,
    ]  # fmt: skip
    return chance.choice(changes)()


def spoil_value(value: Any, chance: random.Random) -> Any:
    """Change something somewhere in a document."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(list(value))
        return {**value, key: spoil_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.85:
        place = chance.randrange(len(value))
        return [*value[:place], spoil_value(value[place], chance), *value[place + 1 :]]
    return chance.choice(ODD)


def spoil(path: Path, chance: random.Random) -> None:
    """Damage a file as a whole, or what is in it."""
    if path.suffix == ".bvh" or chance.random() < 0.4:
        spoil_bytes(path, chance)
    elif path.suffix == ".json":
        path.write_text(json.dumps(spoil_value(json.loads(path.read_text()), chance)))
    elif path.suffix == ".npz":
        with np.load(path) as archive:
            arrays = dict(archive)
        key = chance.choice(list(arrays))
        if chance.random() < 0.15:
            del arrays[key]
        elif arrays[key].dtype.kind == "U" and arrays[key].size == 1 and str(arrays[key]).startswith("{"):
            arrays[key] = np.array(json.dumps(spoil_value(json.loads(str(arrays[key])), chance)))
        else:
            arrays[key] = spoil_array(arrays[key], chance)
        np.savez(path, **arrays)
    else:
        content = np.load(path, allow_pickle=True)
        if content.dtype.hasobject:
            table = content.item()
            key = chance.choice(list(table))
            array = isinstance(table[key], np.ndarray)
            table[key] = spoil_array(table[key], chance) if array and chance.random() < 0.7 else chance.choice(ODD)
            content = np.array(table, dtype=object)
        else:
            content = spoil_array(content, chance)
        np.save(path, content, allow_pickle=True)


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    """The seeds are fixed: what is found here is found everywhere."""
    sound = write_sample(tmp_path, name, 45).read_bytes()
    path = tmp_path / f"a{FORMATS[name].suffix}"
    refused = 0
    for seed in range(ROUNDS):
        path.write_bytes(sound)
        spoil(path, random.Random(f"{name} {seed}"))
        try:
            found = recognise(path) or FORMATS[name]
            for clip in found.read(path, ReadOptions(fps=60.0)):
                clip.motion.positions()
        except MotionkitError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}: a reader raised {error!r}") from error
    assert 0 < refused < ROUNDS, "some of it matters, some of it does not"


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_never_stops_a_conversion(tmp_path: Path, name: str) -> None:
    sound = write_sample(tmp_path, name, 45).read_bytes()
    path = tmp_path / f"a{FORMATS[name].suffix}"
    (tmp_path / "out").mkdir()
    targets = (FeatureTarget(), FileTarget("npz"), FileTarget("bvh"), FileTarget("mpl"), None)
    for seed in range(20):
        path.write_bytes(sound)
        spoil(path, random.Random(f"{name} {seed}"))
        source = FileSource(path, f"a{seed}", name, ReadOptions(fps=60.0))
        outcome = work(Job(source, targets[seed % len(targets)], tmp_path / "out", fix=bool(seed % 2)))
        assert all("unexpected" not in reason for reason in outcome.problems.values()), (seed, outcome.problems)
