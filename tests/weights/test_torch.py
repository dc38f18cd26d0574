"""Files of ``torch.save`` and pickles read as what wrote them reads them."""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.weights import read, read_numbers
from motionkit.weights._gate import STORAGES, TYPES, Gate
from motionkit.weights._pickles import read_pickle, walk

from ..made.weight_files import archive, pickled, tensor, zip_pt


def lightning() -> dict[str, Any]:
    """What a training program saves: weights, optimiser, schedule and settings."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    return {
        "epoch": 3,
        "pytorch-lightning_version": "1.9.0",
        "state_dict": network.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [schedule.state_dict()],
        "hyper_parameters": {
            "model": {"layers": [1, 2, {"x": None}], "type": torch.float16},
            "args": argparse.Namespace(a=1),
        },
        "callbacks": {"best": {"score": torch.tensor(0.5), "path": "x"}},
    }


def contents() -> dict[str, Any]:
    """Objects by what is special about them."""
    base = torch.arange(12.0).reshape(3, 4)
    return {
        "lightning": lightning(),
        "one tensor": base,
        "parameter": torch.nn.Parameter(base.clone()),
        "parameters": collections.OrderedDict(a=torch.nn.Parameter(base.clone(), requires_grad=False)),
        "types": [torch.ones(3).to(dtype) for dtype in TYPES.values()],
        "views": {"whole": base, "row": base[1], "column": base[:, 2], "turned": base.T, "cut": base[1:, 1:3]},
        "repeated": torch.ones(1).expand(5, 4),
        "empty": {"none": torch.zeros(0), "rows": torch.zeros(0, 3), "one": torch.tensor(3)},
        "requires grad": torch.ones(2, requires_grad=True),
        "arrays": {"a": np.arange(3.0), "b": np.array(["x"]), "c": np.float32(2), "d": np.int64(3), "e": b"\x00\xff"},
        "random": {"torch": torch.get_rng_state(), "numpy": np.random.RandomState(0).get_state()},
        "sizes": [torch.Size([1, 2]), torch.device("cpu"), torch.device("cuda", 1), torch.float32],
        "plain": [1, 1 << 70, -5, 2.5, float("inf"), None, True, "é", (1, (2,)), {3, "x"}, {1: {2: 3}}, 1j],
        "nothing": {},
    }  # fmt: skip


def same(found: Any, wanted: Any) -> None:
    """Compare everything: types, values, and how tensors lie in memory."""
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        for name in ("dtype", "shape", "requires_grad", "is_leaf"):
            assert getattr(found, name) == getattr(wanted, name)
        assert (found.stride(), found.storage_offset()) == (wanted.stride(), wanted.storage_offset())
        stored, expected = (torch.empty(0, dtype=torch.uint8).set_(one.untyped_storage()) for one in (found, wanted))
        assert torch.equal(stored, expected)
        assert found.data_ptr() % 64 == wanted.data_ptr() % 64, "aligned as torch's own"
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, argparse.Namespace):
        same(vars(found), vars(wanted))
    else:
        np.testing.assert_equal(found, wanted)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_saves(tmp_path: Path, zipped: bool, protocol: int) -> None:
    for name, content in contents().items():
        path = tmp_path / f"{name}.pt"
        torch.save(content, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
        found = read(path)
        # Of its newer types, torch does not read what it writes in the old format.
        same(found, content if name == "types" and not zipped else torch.load(path, weights_only=False))
        if name == "views":
            found["whole"][1, 2] = 77
            assert found["row"][2] == found["column"][1] == found["turned"][2, 1] == 77, "views of one storage"
        if name == "lightning":
            assert found["state_dict"]._metadata["1"] == {"version": 2}


def test_recorded_checkpoints(shared: Path) -> None:
    paths = [
        path
        for kind in ("mdm", "tmr")
        for path in (shared / "fixtures" / kind).rglob("*")
        if path.suffix in (".pt", ".ckpt")
    ]
    assert len(paths) > 10
    for path in paths:
        same(read(path), torch.load(path, weights_only=False, map_location="cpu"))


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_names_of_storages() -> None:
    for name, dtype in STORAGES.items():
        if name.count(".") == 1:
            assert getattr(torch, name.removeprefix("torch."))(0).dtype == dtype
    for name, dtype in TYPES.items():
        assert getattr(torch, name.removeprefix("torch.")) == dtype


def test_the_hostile_tensors_would_be_read_if_they_were_sound(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(zip_pt(tensor(4, (2, 2), (2, 1))))
    assert read(tmp_path / "x.pt").tolist() == [[0, 0], [0, 0]]


def other_machine() -> bytes:
    torch.save({}, out := io.BytesIO(), _use_new_zipfile_serialization=False)
    return out.getvalue().replace(pickle.dumps(True, 2)[2:3], pickle.dumps(False, 2)[2:3])


def twice() -> bytes:
    """Two members of one name: torch reads the one, zipfile the other."""
    first, second = pickled(tensor(4, (4,), (1,))), pickled(tensor(4, (2,), (1,)))
    return archive([("a/data.pkl", first), ("a/data.pkl", second), ("a/data/0", b"\0" * 16)])


def repacked() -> bytes:
    torch.save({"w": torch.zeros(100)}, made := io.BytesIO())
    packed = io.BytesIO()
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: zip_pt(tensor(4, (4,), (1,)), **{"a/byteorder": b"big"}), "byte order"),
        (other_machine, "byte order"),
        (twice, "overlap"),
        (repacked, "packed"),
    ],
)
def test_files_that_others_wrote_are_refused(tmp_path: Path, make: Callable[[], bytes], word: str) -> None:
    (tmp_path / "x.pt").write_bytes(make())
    with pytest.raises(MotionkitError, match=word):
        read(tmp_path / "x.pt")


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
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    np.save(tmp_path / "texts.npy", np.array(["a"]))
    np.save(tmp_path / "dict.npy", np.array({"a": 1}, dtype=object), allow_pickle=True)
    for name, options, word in (
        ("texts.npy", {}, "<U1"),
        ("dict.npy", {}, "a dict"),
        ("a.npz", {}, "a dict"),
        ("Mean.npy", {"limit": 100}, "0 MB"),
    ):
        with pytest.raises(MotionkitError, match=word):
            read_numbers(tmp_path / name, **options)
