"""What programs write as pickles reads as it was, and what is damaged is one error."""

from __future__ import annotations

import argparse
import collections
import contextlib
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.weights import read_array, read_numbers
from motionkit.weights._gate import Gate
from motionkit.weights._pickles import read_pickle, walk

PROTOCOLS = (2, 3, 4, 5)
"""0 and 1 have other opcodes, and are written by nothing that saves arrays."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_programs_write_reads_as_it_was(protocol):
    shared = np.ones(3)
    value = {
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "turned": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
        "swapped": np.arange(3, dtype=">i2"),
        "bytes of an array": np.array([b"ab", b"c"]),
        "nothing": np.zeros(0, "U"),
        "one": np.array(2.5),
        "truth": np.bool_(True),
        "word": np.str_("é"),
        "no word": np.str_(""),
        "shared": [shared, shared, (shared,)],
        "keys": {1: "a", 2.5: "b", None: "c", ("d", 1): "e", np.str_("f"): "g", np.int64(7): "h", b"i": "j"},
        "deep": [[[[[{"x": ({"y": [1, (2, 3)]},)}]]]]],
        "counter": collections.Counter("abca"),
        "arguments": argparse.Namespace(lr=0.1, layers=[1, 2], inner=argparse.Namespace(x=None)),
        "dtype": np.dtype(">f4"),
        "negative": [-1, -300, -70000, -(1 << 40), 255, 65535, 65536],
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
    found = read_pickle(data, "x")
    assert found.keys() == value.keys()
    for name, wanted in value.items():
        assert type(found[name]) is type(wanted), name
        np.testing.assert_equal(found[name], wanted)
    assert found["shared"][0] is found["shared"][1], "one array stays one"
    found["array"][0, 0] = 7


def test_a_default_dict_forgets_its_function():
    data = pickle.dumps(collections.defaultdict(list, a=[1]))
    found = read_pickle(data, "x")
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


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
KEYS = st.none() | st.booleans() | st.integers(-(1 << 59), 1 << 59) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner, inner, inner)
        | st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
    ),
)


@settings(max_examples=50)
@given(VALUES, st.sampled_from(PROTOCOLS))
def test_plain_things_of_any_kind_read_as_they_were(value, protocol):
    found = read_pickle(pickle.dumps(value, protocol), "x")
    # Texts are compared, as NaN is not itself.
    assert pickle.dumps(found, protocol) == pickle.dumps(pickle.loads(pickle.dumps(value, protocol)), protocol)


@settings(max_examples=50)
@given(VALUES, st.sampled_from(PROTOCOLS), st.data())
def test_the_gate_and_the_unpickler_agree_where_a_pickle_ends(value, protocol, data):
    whole = pickle.dumps(value, protocol)
    assert walk(Gate(memoryview(whole + b"more"), "x")) == len(whole)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises((MotionkitError, EOFError, ValueError)):
        walk(Gate(memoryview(whole[:cut]), "x"))


def test_numbers(tmp_path):
    np.save(tmp_path / "Mean.npy", np.arange(3))
    assert read_numbers(tmp_path / "Mean.npy").tolist() == [0, 1, 2]
    for name, value, said in (
        ("texts", np.array(["a"]), "<U1 values, not numbers"),
        ("dict", np.array({"a": 1}, dtype=object), "a dict, not numbers"),
    ):
        np.save(tmp_path / f"{name}.npy", value, allow_pickle=True)
        with pytest.raises(MotionkitError, match=f"holds {said}"):
            read_numbers(tmp_path / f"{name}.npy")
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with pytest.raises(MotionkitError, match="holds a dict, not numbers"):
        read_numbers(tmp_path / "a.npz")
    with pytest.raises(MotionkitError, match="at most 0 MB are read"):
        read_numbers(tmp_path / "Mean.npy", limit=100)
