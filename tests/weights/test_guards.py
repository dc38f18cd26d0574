"""What pickles, archives and headers may not hold is refused in a sentence, before anything is built.

The inputs are harmless to every program: a name that is in no table, one number too many, a length that is not there,
a limit that is lowered for the test.
"""

from __future__ import annotations

import builtins
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.weights import _arrays, _gate, read, read_array
from motionkit.weights import _pickles as _walk
from motionkit.weights._pickles import read_pickle

from ..made.weight_files import (
    archive,
    array,
    call,
    dtype,
    items,
    legacy_pt,
    name,
    npy,
    number,
    pickled,
    raw,
    safetensors,
    table,
    tensor,
    text,
    zip_pt,
)

CALLED: list[str] = []


def note(*words: str) -> None:
    """Note that a pickle called it; no other program has it."""
    CALLED.extend(words or ("called",))


NOTE = f"{__name__}.note"
OBJECTS = dtype("O8", order="|", flags=63)
ONE = tensor(4, (4,), (1,))
"""A sound tensor, of the storage ``0``."""

PICKLES: dict[str, tuple[bytes, str]] = {
    # Names outside the table, by every way of calling something.
    "reduce": (call(NOTE), "refers to tests.weights.test_guards.note"),
    "argument": (call("collections.OrderedDict", call(NOTE)), "refers to"),
    "a name that runs code": (call("os.getcwd"), "refers to os.getcwd"),
    "inst": (b"(i" + NOTE.rpartition(".")[0].encode() + b"\nnote\n", "not a pickle of current programs|opcode"),
    "obj": (b"(" + name("collections.OrderedDict") + b"o", "opcode"),
    "newobj": (name("collections.OrderedDict") + b")\x81", "makes an object that is not data"),
    "stack_global": (text(NOTE.rpartition(".")[0]) + text("note") + b"\x93" + b")R", "refers to"),
    "stack_global of numbers": (number(1) + number(2) + b"\x93", "not a text"),
    "dotted": (name("collections.OrderedDict.fromkeys") + items(text("ab")) + b"R", "refers to"),
    "extension": (b"\x82\x01)R", "opcode"),
    "persistent id": (b"Pid\n", "opcode"),
    "persistent module": (items(text("module"), name("torch.Size"), text("a"), text("b")) + b"Q", "outside itself"),
    "partial": (call("functools.partial", name("collections.OrderedDict")), "refers to functools.partial"),
    "reconstructor": (call("copyreg._reconstructor", name("argparse.Namespace"), name("builtins.object"), b"N"), ""),
    "numpy load": (name("numpy.load"), "refers to numpy.load"),
    "torch load": (name("torch.load"), "refers to torch.load"),
    "called twice": (call("collections.OrderedDict") + b")R", "calls something that is not a function"),
    # Calls and states that no program writes.
    "state of a class": (name("numpy.ndarray") + table(x=number(1)) + b"b", "a state that no program writes"),
    "state of a dict": (b"}" + table(x=number(1)) + b"b", "a state that no program writes"),
    "state of an ordered dict": (call("collections.OrderedDict") + table(note=number(1)) + b"b", "a state that no"),
    "state with numbers for names": (name("argparse.Namespace") + b")\x81}" + number(1) + b"Nsb", "a state that no"),
    "a class as a value": (b"]" + name("numpy.ndarray") + b"a", "a name that is only there to be called"),
    "filled tuple": (b"))a", "fills something that is not a container"),
    "call bytearray": (call("builtins.bytearray", number(8)), "arguments that no program writes"),
    "call bytes": (call("builtins.bytes", number(8)), "arguments that no program writes"),
    "call list": (call("builtins.list", items(number(1))), "arguments that no program writes"),
    "call str": (call("builtins.str", number(1)), "arguments that no program writes"),
    "escaped": (call("_codecs.encode", text("a"), text("unicode_escape")), "arguments that no program writes"),
    "call ndarray": (call("numpy.ndarray", items(number(2))), "arguments that no program writes"),
    "reconstruct": (
        call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(1)), raw(b"b")), "arguments that"
    ),
    "reconstruct of objects": (
        call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(0)), raw(b"O")), "arguments that"
    ),
    # Lengths that are not there.
    "memo": (b"Nr" + struct.pack("<I", 1002), "memo index 1002 after 0"),
    "frame": (b"\x95" + struct.pack("<Q", 100) + b"N", "more bytes than there are"),
    "frame beyond an opcode": (b"\x95" + struct.pack("<Q", 3) + b"N\x8c\x04abcd\x86", "more bytes than there are"),
    "frame in a frame": (2 * (b"\x95" + struct.pack("<Q", 10)) + b"N" * 8, "a frame in a frame"),
    "bytes": (b"B" + struct.pack("<I", 100), "more bytes than there are"),
    "bytes8": (b"\x8e" + struct.pack("<Q", 100), ""),
    "bytearray8": (b"\x96" + struct.pack("<Q", 100), "more bytes than there are"),
    "unicode8": (b"\x8d" + struct.pack("<Q", 100), ""),
    "long4": (b"\x8b" + struct.pack("<i", 100), ""),
    "long text": (b"L7L\n", "opcode"),
    "next buffer": (b"\x97", "opcode"),
    "readonly buffer": (raw(b"x") + b"\x98", "opcode"),
    "fewer objects": (array((2,), OBJECTS, b"]Na"), "other contents than its shape"),
    "fewer bytes": (array((3,), dtype("f8"), raw(b"\0" * 16)), "other bytes than its shape"),
    "scalar without bytes": (call("numpy.core.multiarray.scalar", dtype("f8")), "arguments that no program writes"),
    "a character too many": (
        array((1,), dtype("U1", sizes=number(4) * 2, flags=8), raw(struct.pack("<I", 0x110000))), "characters that do"
    ),
    "array copies": (
        b"](" + raw(b"x" * 2000) + b"q\x00"
        + b"".join(array((2000,), dtype("u1", order="|"), b"h\x00") for _ in range(100)) + b"e",
        "copies the same contents",
    ),
    # Types that are not those of numbers and texts.
    "fields": (name("numpy.dtype") + items(text("i4,f4"), b"\x89", b"\x88") + b"R", "arguments that no program writes"),
    "dates": (name("numpy.dtype") + items(text("M8[s]"), b"\x89", b"\x88") + b"R", "arguments that no program writes"),
    "another size": (dtype("S1", order="|", sizes=number(2) + number(1)), "a new dtype a state"),
    "another order": (dtype("f8", order="|"), "a new dtype a state"),
    "another flag": (dtype("f8", flags=8), "a new dtype a state"),
    "no copy": (call("numpy.dtype", text("f8"), b"\x89", b"\x89"), "arguments that no program writes"),
    "alone": (call("numpy.dtype", text("f8")), "arguments that no program writes"),
    "built twice": (
        dtype("f8") + items(number(3), text("<"), b"NNN", number(-1) * 2, number(0)) + b"b", "a dtype a state"
    ),
    # Keys.
    "a list as a key": (b"}]Ns", "keys other than texts and numbers"),
    "a deep key": (b"}N\x85\x85\x85Ns", "keys other than texts and numbers"),
    "a long key": (b"}" + items(*[b"N"] * 11) + b"Ns", "keys other than texts and numbers"),
    "a large key": (b"}" + number(1 << 60) + b"Ns", "keys other than texts and numbers"),
    "deep lists": (b"]" * 102 + b"a" * 101, "nests them more than 100 deep"),
    "a list in itself": (b"]q\x00h\x00a", "already part of something else|changes what"),
    # Damage.
    "nothing": (b"", ""),
    "two values": (b"NN", ""),
    "an open mark": (b"N(", ""),
    "no such opcode": (b"\xff", "opcode"),
    "empty stack": (b"a", ""),
    "unknown memo": (b"h\x07", ""),
    "odd items": (b"}(Nu", ""),
    "name without end": (b"cnumpy\nndarr", ""),
}  # fmt: skip
"""Bodies of pickles, by what is wrong with them, and a part of the refusal."""

TENSORS: dict[str, tuple[bytes, str]] = {
    "more than is stored": (tensor(4, (5,), (1,)), "larger than its storage"),
    "beyond its storage": (tensor(4, (4,), (1,), at=1), "larger than its storage"),
    "before its storage": (tensor(4, (4,), (1,), at=-4), "larger than its storage"),
    "backwards": (tensor(4, (4,), (-1,)), "an invalid shape"),
    "a storage of more than there is": (tensor(5, (5,), (1,)), ""),
    "no such storage": (tensor(4, (4,), (1,), key="1"), ""),
    "unknown storage": (tensor(4, (4,), (1,), kind="QInt8"), "refers to torch.QInt8Storage"),
    "a storage": (items(text("storage"), name("torch.FloatStorage"), text("0"), text("cpu"), number(4)) + b"Q", ""),
    "a tensor class": (name("torch.FloatTensor"), "refers to torch.FloatTensor"),
    "a sparse tensor": (name("torch._utils._rebuild_sparse_tensor"), "refers to torch._utils._rebuild_sparse_tensor"),
    "a tensor with a state": (ONE + items(number(1)) + b"b", "a tensor a state"),
    "hooks": (ONE.replace(call("collections.OrderedDict"), b"}"), "arguments that no program writes"),
    "a size of texts": (call("torch.Size", items(text("x"))), "an invalid shape"),
    "a tensor as a key": (b"}" + ONE + b"Ns", "keys other than texts and numbers"),
}
"""Bodies of pickles of tensors; there is one storage, ``0``, of four float32."""


def refused(path: Path, data: bytes, said: str) -> None:
    """Have a file read by what reads its suffix; it is refused with these words, and nothing is called."""
    path.write_bytes(data)
    CALLED.clear()
    for reader in (read, read_array)[: 1 + (path.suffix in (".npy", ".npz"))]:
        with pytest.raises(MotionkitError) as caught:
            reader(path)
        words = f"{caught.value.message} {caught.value.why}"
        assert caught.value.code == 2
        assert not said or any(part in words for part in said.split("|")), words
    assert CALLED == []


@pytest.mark.parametrize("wrong", PICKLES)
def test_pickles(wrong: str, tmp_path: Path) -> None:
    body, said = PICKLES[wrong]
    files = {
        "a.npy": npy(pickled(body)), "a.npz": archive({"poses.npy": npy(pickled(body))}), "zip.pt": zip_pt(body),
        "legacy.pt": legacy_pt(body), "a.pkl": pickled(body),
    }  # fmt: skip
    for file, data in files.items():
        refused(tmp_path / file, data, said if file in ("a.npy", "a.pkl") else "")


@pytest.mark.parametrize("wrong", TENSORS)
def test_tensors(wrong: str, tmp_path: Path) -> None:
    body, said = TENSORS[wrong]
    refused(tmp_path / "zip.pt", zip_pt(body), said)
    refused(tmp_path / "legacy.pt", legacy_pt(body), "")
    refused(tmp_path / "a.pkl", pickled(body), "")


def test_the_pickles_do_call_when_they_are_opened_carelessly() -> None:
    for wrong in ("reduce", "inst", "stack_global"):
        CALLED.clear()
        pickle.loads(pickled(PICKLES[wrong][0]))
        assert CALLED == ["called"]


@pytest.mark.parametrize("size", [(2, 2), (4,)])
def test_the_tensors_are_read_if_they_are_sound(size: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(zip_pt(tensor(4, size, (2, 1)[-len(size) :])))
    assert tuple(read(tmp_path / "a.pt").shape) == size


def test_a_refused_type_changes_nothing() -> None:
    with pytest.raises(MotionkitError):
        read_pickle(pickled(PICKLES["no copy"][0]), "x")
    assert np.frombuffer(b"\0\0\0\0\0\0\xf0\x3f", np.dtype("f8"))[0] == 1


HEADERS: dict[str, tuple[str, str]] = {
    "one too many": ("'<f8', 'fortran_order': False, 'shape': (9,)", "announced"),
    "negative": ("'<f8', 'fortran_order': False, 'shape': (-1,)", "announced"),
    "no numbers": ("'<f8', 'fortran_order': False, 'shape': ('a',)", ""),
    "many axes": (f"'<f8', 'fortran_order': False, 'shape': ({'1, ' * 70})", ""),
    "a call": ("'<f8', 'fortran_order': False, 'shape': note('x')", ""),
    "fields": ("[('a', '<f8')], 'fortran_order': False, 'shape': (1,)", "numbers or texts belong"),
    "subarray": ("('<f8', (2,)), 'fortran_order': False, 'shape': (1,)", ""),
    "void": ("'V8', 'fortran_order': False, 'shape': (1,)", "numbers or texts belong"),
    "none": ("None, 'fortran_order': False, 'shape': (1,)", ""),
    "nested": ("(((((())))))), 'fortran_order': False, 'shape': (1,)", ""),
    "a character too many": ("'<U1', 'fortran_order': False, 'shape': (1,)", "characters that do not exist"),
}


@pytest.mark.parametrize("wrong", HEADERS)
def test_headers(wrong: str, tmp_path: Path) -> None:
    header, said = HEADERS[wrong]
    body = struct.pack("<I", 0x110000) if wrong == "a character too many" else b"\0" * 64
    path = tmp_path / "a.npy"
    path.write_bytes(npy(body, "{'descr': " + header + ", }"))
    with pytest.raises(MotionkitError) as caught:
        read_array(path)
    assert said in f"{caught.value.message} {caught.value.why}"


def test_the_length_of_a_header(tmp_path: Path) -> None:
    for data, said in (
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 10_001) + b" " * 10_001, "larger than that of any array"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 1000) + b" " * 100, ""),
        (b"\x93NUMPY\x09\x09" + b"\0" * 64, ""),
    ):
        (tmp_path / "a.npy").write_bytes(data)
        with pytest.raises(MotionkitError) as caught:
            read_array(tmp_path / "a.npy")
        assert said in caught.value.why


NUMBERS = npy(b"\0" * 16, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }")
ARCHIVES: dict[str, tuple[bytes, str]] = {
    "keys.pt": (legacy_pt(ONE, b"]" + text("1") + b"a"), ""),
    "keys that call.pt": (legacy_pt(ONE, call(NOTE)), "refers to"),
    "keys without end.pt": (legacy_pt(ONE, PICKLES["bytearray8"][0]), ""),
    "first.pt": (pickled(call(NOTE)) + legacy_pt(b"N"), "refers to"),
    "cut.pt": (legacy_pt(ONE)[:-1], ""),
    "zip huge pickle.pt": (archive({"a/data.pkl": b""}, size=1 << 20), ""),
    "zip two pickles.pt": (
        archive([("a/data.pkl", pickled(ONE)), ("a/data.pkl", pickled(b"N")), ("a/data/0", b"")]), ""
    ),
    "zip two folders.pt": (archive({"a/data.pkl": pickled(ONE), "b/data.pkl": pickled(b"N"), "a/data/0": b""}), ""),
    "zip no folder.pt": (archive({"data.pkl": pickled(ONE), "data/0": b"\0" * 16}), ""),
    "zip encrypted.pt": (archive({"a/data.pkl": pickled(ONE), "a/data/0": b"\0" * 16}, flags=1), ""),
    "zip later.pt": (archive({"a/data.pkl": pickled(ONE), "a/data/0": b"\0" * 16}, version=255), ""),
    "zip names.pt": (archive({"a/data.pkl": pickled(ONE), "a/\udcff\udcfe": b""}, flags=0x800), ""),
    "zip beyond itself.pt": (archive({"a/data.pkl": pickled(ONE), "a/data/0": b"\0" * 16}, offset=1 << 20), ""),
    "zip overlapping.pt": (
        archive([("a/data.pkl", pickled(ONE)), *((f"a/data/{key}", b"") for key in range(3))], size=400), ""
    ),
    "zip cut.pt": (zip_pt(ONE)[:-30], ""),
    "later.npz": (archive({"poses.npy": NUMBERS}, version=255), ""),
    "encrypted.npz": (archive({"poses.npy": NUMBERS}, flags=1), ""),
    "names.npz": (archive({"\udcff.npy": NUMBERS}, flags=0x800), ""),
    "deep.safetensors": (safetensors(b'{"a":' * 200 + b"1" + b"}" * 200), ""),
    "beyond.safetensors": (safetensors(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'), ""),
    "shape.safetensors": (safetensors(b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,0]}}'), ""),
    "cut.safetensors": (safetensors(b'{"a":', size=1000), ""),
    "a.tar": (b"", "a tar archive"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", ARCHIVES)
def test_archives(wrong: str, tmp_path: Path) -> None:
    data, said = ARCHIVES[wrong]
    if wrong == "a.tar":
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as file:
            file.addfile(tarfile.TarInfo("weights.txt"))
        data, said = out.getvalue(), ""
    refused(tmp_path / wrong, data, said)


def test_the_list_of_members_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "_DIRECTORY", 1000)
    for count, fits in ((10, True), (30, False)):
        (tmp_path / "a.npz").write_bytes(archive({f"{index}.npy": NUMBERS for index in range(count)}))
        if fits:
            assert len(read_array(tmp_path / "a.npz")) == count
        else:
            refused(tmp_path / "a.npz", (tmp_path / "a.npz").read_bytes(), "list of members")


@pytest.mark.parametrize("body", [b"]", b"(", b")", b"}", b"N\x94", b"K\x01", b"U\x00"])
def test_opcodes_are_counted(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    for module in (_gate, _walk):
        monkeypatch.setattr(module, "OBJECTS", 1000)
    with pytest.raises(MotionkitError, match="more than 1000 opcodes"):
        read_pickle(pickled(body * 1000), "x")


def test_keys_that_are_no_texts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gate, "_HASHED", 1000)
    for value in (dict.fromkeys(range(1000)), {float(n) for n in range(1000)}, {(n, "x"): 0 for n in range(90)}):
        assert read_pickle(pickle.dumps(value), "x") == value
    for value in (dict.fromkeys(range(1001)), frozenset(map(float, range(1001))), {(n, 1): 0 for n in range(91)}):
        with pytest.raises(MotionkitError, match="keys that are not texts"):
            read_pickle(pickle.dumps(value), "x")


def test_shared_parts_are_allowed_as_long_as_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    part = list(range(50))
    assert read_pickle(pickle.dumps([part] * 100), "x") == [part] * 100
    for module in (_gate, _walk):
        monkeypatch.setattr(module, "OBJECTS", 1000)
    twins: tuple[object, ...] = ("x",)
    for _ in range(10):
        twins = (twins, twins)
    for value in ([part] * 100, twins):
        with pytest.raises(MotionkitError, match="1000 objects"):
            read_pickle(pickle.dumps(value), "x")


def test_rows_without_contents_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape such as (10 ** 12, 0) needs no bytes, and a loop over its rows has no end."""
    monkeypatch.setattr(_gate, "_SPREAD", 100)
    for rows, fits in ((100, True), (101, False)):
        empty = pickle.dumps(np.zeros((rows, 0)))
        (tmp_path / "a.npy").write_bytes(
            npy(b"", f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 0), }}")
        )
        if fits:
            assert read_pickle(empty, "x").shape == read_array(tmp_path / "a.npy").shape == (rows, 0)
        else:
            with pytest.raises(MotionkitError, match="other bytes than its shape"):
                read_pickle(empty, "x")
            with pytest.raises(MotionkitError) as caught:
                read_array(tmp_path / "a.npy")
            assert "announced" in caught.value.why
        for name_, body in (("one number again and again", tensor(4, (rows,), (0,))),
                            ("rows of nothing", tensor(4, (rows, 0), (1, 1)))):  # fmt: skip
            (tmp_path / "a.pt").write_bytes(zip_pt(body))
            if fits:
                assert len(read(tmp_path / "a.pt")) == rows, name_
            else:
                refused(tmp_path / "a.pt", zip_pt(body), "larger than its storage")


def test_members_of_npz_share_one_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _arrays._LARGE == 64 << 20
    monkeypatch.setattr(_arrays, "_LARGE", 8 << 20)
    zeros = npy(bytes(1 << 20), "{'descr': '|i1', 'fortran_order': False, 'shape': (1048576,), }")
    for count in (7, 9):
        with zipfile.ZipFile(tmp_path / f"{count}.npz", "w", zipfile.ZIP_DEFLATED) as file:
            for number_ in range(count):
                file.writestr(f"{number_}.npy", zeros)
    assert len(read_array(tmp_path / "7.npz")) == 7
    with pytest.raises(MotionkitError, match=r"9\.npz"):
        read_array(tmp_path / "9.npz")
    assert len(read_array(tmp_path / "9.npz", wanted=lambda name: name < "7")) == 7, "only what is read counts"


def test_a_packed_pickle_has_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "_PICKLE", 1000)
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", npy(pickled(b"N" + raw(b"\0" * 200_000) + b"0")))
    with pytest.raises(MotionkitError, match="unpacks"):
        read_array(tmp_path / "a.npz")


def test_no_name_of_the_table_is_one_of_builtins_that_runs_code() -> None:
    given = {full.rpartition(".")[2] for full in _gate.NAMES if full.startswith("builtins.")}
    assert not given & {"eval", "exec", "getattr", "__import__", "open", "compile", "print"}
    assert given <= set(dir(builtins))
