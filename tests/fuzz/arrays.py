"""Mutations of ``.npy``: the header, the type and shape of what is in it, and the pickle of object arrays."""

from __future__ import annotations

import ast
import io
import json
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .chance import Chance
from .documents import spoil_string
from .opcodes import spoil_pickle
from .raw import spoil_bytes

MAGIC = b"\x93NUMPY"
_TYPES = (
    "'<f8'", "'>f8'", "'|O'", "'|V8'", "'|S0'", "'<U1000'", "'<U5'", "'?'", "'<M8[ns]'", "'<c16'", "'<f2'", "''",
    "[('a', '<f8')]", "[('a', '<f8', (4,))]", "None", "1", "'<i8'", "'|u1'", "('<f8', (10,))", "'<f16'", "'x'",
)  # fmt: skip
_SHAPES = (
    "()", "(0,)", "(1,)", "(-1,)", "(100000,)", "(0, 1000)", "(1, -1)", "(2, 2, 2)", "(1.5,)", "('a',)", "[3]", "3",
    "None", "(True,)", "(" + "1," * 70 + ")", "(((((())))))", "(10, 22, 3)", "(3, 263)",
)  # fmt: skip


def spoil_npy(data: bytes, chance: Chance) -> bytes:
    """Change a sound ``.npy`` file."""
    roll = chance.random()
    if roll < 0.15:
        return spoil_bytes(data, chance)
    header, body = _split(data)
    if roll < 0.5:
        return _header(_spoil_header(header, chance), chance) + body
    if "'|O'" in header:
        return _header(header, chance) + (spoil_pickle(body, chance) if roll < 0.85 else _spoil_object(body, chance))
    file = io.BytesIO()
    np.save(file, spoil_array(np.load(io.BytesIO(data), allow_pickle=False), chance), allow_pickle=True)
    return file.getvalue()


def spoil_array(array: np.ndarray[Any, Any], chance: Chance) -> np.ndarray[Any, Any]:
    """Give an array another type, shape or content."""
    flat = array.copy()
    if flat.dtype.kind == "U" and flat.size == 1 and str(flat.reshape(-1)[0]).startswith("{") and chance.random() < 0.7:
        # numpy ends a text at its last character that is not NUL; a document has braces there.
        return np.array(spoil_string(str(flat.reshape(-1)[0]), chance)).reshape(flat.shape)
    if flat.size and flat.dtype.kind == "f" and chance.random() < 0.5:
        values = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-38, 1e38, -1e38] + [1e300] * (flat.dtype == np.float64)
        places = [chance.randrange(flat.size) for _ in range(chance.choice((1, 3, flat.size)))]
        with np.errstate(over="ignore"):
            flat.reshape(-1)[places] = np.asarray(chance.choice(values)).astype(flat.dtype)
        return flat
    number = flat if flat.dtype.kind in "fiu" else np.zeros(3)
    with np.errstate(all="ignore"):
        changes: list[Callable[[], np.ndarray[Any, Any]]] = [
            lambda: flat[..., None], lambda: flat.reshape(-1)[:0], lambda: flat.T, lambda: flat.reshape(-1),
            lambda: flat[: len(flat) // 2] if flat.ndim else flat, lambda: flat[:1] if flat.ndim else flat,
            lambda: np.array(chance.choice((0.0, -1.0, np.nan, 1e9))), lambda: np.concatenate([flat.reshape(-1)] * 2),
            lambda: number.astype("U"), lambda: np.array([b"x"]), lambda: np.zeros((2, 3), bool), lambda: np.zeros((3,
            0)),
            lambda: np.array({"a": 1}, dtype=object), lambda: number.astype("f2"), lambda: number.astype("c8"),
            lambda: number.astype(">f8"), lambda: -number, lambda: np.zeros(2, [("a", "f8")]),
            lambda: number.astype("i1"),
            lambda: np.array(["é\0\x1b" * 3, "\ud800"]), lambda: np.zeros(3, "M8[s]"),
            lambda: number * 0 + chance.choice((0, 7)),
            lambda: np.resize(number.reshape(-1)[:1], (min(500_000, 10**chance.randrange(7)),)),
        ]  # fmt: skip
        return chance.choice(changes)()


def _spoil_object(body: bytes, chance: Chance) -> bytes:
    """Change a value of the dictionary that an object array holds; it is sound, so it may be unpickled."""
    content = pickle.loads(body)
    if content.ndim or not isinstance(table := content.item(), dict):
        return spoil_pickle(body, chance)
    key = chance.choice(list(table))
    value = table[key]
    odd = (
        None, -1, 2**70, float("nan"), "", "x", [], {}, [[]], [None], (1, (2, 3)), {1: 2}, {None: []}, True, b"x",
        {1, 2},
    )  # fmt: skip
    if isinstance(value, np.ndarray) and chance.random() < 0.7:
        table[key] = spoil_array(value, chance)
    elif chance.random() < 0.2:
        del table[key]
    else:
        table[key] = chance.choice(odd)
    return pickle.dumps(np.array(table, dtype=object), protocol=chance.choice((2, 3, 4, 5)))


def _split(data: bytes) -> tuple[str, bytes]:
    """Return header and body."""
    start = 10 if data[6] == 1 else 12
    length = int.from_bytes(data[8:start], "little")
    return data[start : start + length].decode("latin-1"), data[start + length :]


def _spoil_header(header: str, chance: Chance) -> str:
    shown = {name: repr(value) for name, value in ast.literal_eval(header.strip()).items()}
    match chance.randrange(8):
        case 0 | 1:
            shown["descr"] = chance.choice(_TYPES)
        case 2 | 3:
            shown["shape"] = chance.choice(_SHAPES)
        case 4:
            shown["fortran_order"] = chance.choice(("True", "None", "1", "'x'"))
        case 5:
            shown[chance.choice(("x", "descr ", ""))] = shown.pop(chance.choice(list(shown)))
        case 6:
            return json.dumps(header) if chance.random() < 0.5 else chance.choice(("(" * 20, "{}", "[]", "--1", "x()"))
        case _:
            return spoil_bytes(header.encode("latin-1"), chance).decode("latin-1")
    return "{" + ", ".join(f"'{key}': {value}" for key, value in shown.items()) + ", }"


def _header(text: str, chance: Chance) -> bytes:
    """Write a header in some version of the format, mostly with its true length."""
    version = chance.choice((1, 1, 1, 1, 2, 3, 0, 255))
    raw = text.rstrip().encode("latin-1", "replace")
    raw += b" " * (-(len(raw) + 11) % 64) + b"\n"
    length = len(raw) if chance.random() < 0.9 else chance.choice((0, 1, len(raw) + 1, 65535, 2**31))
    packed = struct.pack("<H", length % 65536) if version == 1 else struct.pack("<I", length)
    return MAGIC + bytes((version, 0)) + packed + raw
