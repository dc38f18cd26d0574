"""Pickles that ask for more than they hold: refused, and no memory is taken for them."""

from __future__ import annotations

import collections
import contextlib
import io
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from motionkit.weights._admit import PlainUnpickler
from torch.serialization import MAGIC_NUMBER

from motionkit.errors import MotionkitError
from motionkit.weights import read, read_array

HUGE = 1 << 33


def call(module: str, name: str, *arguments: object) -> bytes:
    """A pickle that calls something."""
    body = b"".join(pickle.dumps(argument, protocol=2)[2:-1] for argument in arguments)
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + body + b"tR."


def state(pickled: bytes, contents: bytes) -> bytes:
    """The same, with what the object gets afterwards."""
    return pickled[:-1] + contents + b"b."


ARRAY = b"cnumpy\nndarray\n"
EMPTY = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(" + ARRAY + b"K\x00\x85U\x01btR."
OBJECTS = b"cnumpy\ndtype\n(U\x02O8K\x00K\x01tR"
SIZE = b"\x8a\x05" + HUGE.to_bytes(5, "little")

BOMBS = {
    "bytearray": call("builtins", "bytearray", HUGE),
    "complex": call("builtins", "bytearray", 3.0),
    "escaped": call("_codecs", "encode", "\\" * 100, "unicode_escape"),
    "codec": call("_codecs", "encode", "x", "no-such-codec"),
    "str of a list": call("builtins", "str", [1, 2]),
    "an array": b"\x80\x02" + ARRAY + b"(" + SIZE + b"\x85tR.",
    "a new array": b"\x80\x02" + ARRAY + b"(" + SIZE + b"\x85t\x81.",
    "reconstruct": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(" + ARRAY + SIZE + b"\x85U\x01btR.",
    "objects": state(EMPTY, b"(K\x01" + SIZE + b"\x85" + OBJECTS + b"\x89]t"),
    "scalar": b"\x80\x02cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(X\x0b\x00\x00\x00S2000000000tRtR.",
    "memo": b"\x80\x02Nr" + struct.pack("<I", 1 << 30) + b".",
    "copies": b"\x80\x02]q\x00(" + b"N" * 2000 + b"e0]q\x01(" + b"cbuiltins\nlist\n(h\x00tR" * 1500 + b"e.",
}
BYTES = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
COPY = EMPTY[2:-1] + b"(K\x01(M\xd0\x07t" + BYTES + b"\x89h\x00tb"
BOMBS["arrays"] = b"\x80\x02X\xd0\x07\x00\x00" + b"x" * 2000 + b"q\x000(" + COPY * 100 + b"t."


def as_npy(path: Path, payload: bytes) -> Path:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
    path.write_bytes(header.getvalue() + payload)
    return path


@pytest.mark.parametrize("name", [name for name in BOMBS if name != "memo"])
def test_bombs_are_refused(tmp_path, name):
    for reader, path in ((read_array, as_npy(tmp_path / "x.npy", BOMBS[name])), (read, tmp_path / "x.pkl")):
        (tmp_path / "x.pkl").write_bytes(BOMBS[name])
        with pytest.raises(MotionkitError) as caught:
            reader(path)
        assert "was not opened" not in caught.value.message, "it is admitted, and guarded"


def test_no_memory_is_taken_for_them(tmp_path):
    for name, payload in BOMBS.items():
        as_npy(tmp_path / f"{name}.npy", payload)
    code = (
        "import resource, sys; from pathlib import Path; from motionkit.weights import read_array\n"
        "from motionkit.errors import MotionkitError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try: read_array(path)\n"
        "    except MotionkitError: pass\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    result = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 100, "megabytes"


@pytest.mark.parametrize("protocol", range(6))
def test_what_programs_write_reads_as_before(protocol):
    value = {
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "objects": np.array([{"a": 1}, [2.5, "three"]], dtype=object),
        "texts": np.array(["ab", "c"]),
        "scalar": np.float32(2.5),
        "none": np.zeros((0, 3)),
        "bytes": b"\x00\xff",
        "bytearray": bytearray(b"\x00\xff"),
        "ordered": collections.OrderedDict(a=1, b=2),
        "set": {1, 2},
        "frozen": frozenset({3}),
        "complex": 1 + 2j,
        "nan": float("nan"),
        "large": 1 << 70,
        "long": np.zeros(5000),
        "long bytes": bytearray(b"\xff" * 5000),
    }
    data = pickle.dumps(value, protocol=protocol)
    found = PlainUnpickler(io.BytesIO(data), "x", len(data)).load()
    assert found.keys() == value.keys()
    for name, wanted in value.items():
        assert type(found[name]) is type(wanted), name
        np.testing.assert_equal(found[name], wanted)


def test_a_default_dict_forgets_its_function():
    data = pickle.dumps(collections.defaultdict(list, a=[1]))
    found = PlainUnpickler(io.BytesIO(data), "x", len(data)).load()
    assert dict(found) == {"a": [1]}
    assert found.default_factory is None


def test_anything_a_damaged_file_raises_is_one_error(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(10.0))
    whole = (tmp_path / "a.npz").read_bytes()
    for place in (8, 9, 30, 40, len(whole) - 70, len(whole) - 40, len(whole) - 12):
        for value in (0, 1, 99, 255):
            (tmp_path / "a.npz").write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])
            with contextlib.suppress(MotionkitError):
                read_array(tmp_path / "a.npz")
    for header in (b"{'descr': '<f8', 'fortran_order': (", b"{[]: 3, 'shape': ()}", b"{'descr': ("):
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        (tmp_path / "b.npy").write_bytes(data)
        with pytest.raises(MotionkitError, match="cannot be read as numpy data"):
            read_array(tmp_path / "b.npy")


def test_torch_files_that_make_a_bytearray_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("archive/data.pkl", BOMBS["bytearray"])
        archive.writestr("archive/version", "3\n")
    legacy = pickle.dumps(MAGIC_NUMBER, 2) + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + BOMBS["bytearray"]
    (tmp_path / "y.pt").write_bytes(legacy)
    for name in ("x.pt", "y.pt"):
        with pytest.raises(MotionkitError, match="makes a bytearray"):
            read(tmp_path / name)
