"""Hostile pickles, made by code; `hostile` puts files around them."""

from __future__ import annotations

import struct

EXECUTED = "executed"
"""The file that appears in the current folder when a pickle has run code."""

HUGE = 1 << 33


# Pieces of pickles.


def number(value: int) -> bytes:
    """An integer."""
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def text(value: str) -> bytes:
    """A text."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def raw(value: bytes) -> bytes:
    """Bytes."""
    return b"B" + struct.pack("<I", len(value)) + value


def items(*parts: bytes) -> bytes:
    """A tuple."""
    return b"(" + b"".join(parts) + b"t"


def name(full: str) -> bytes:
    """A function or class."""
    module, _, last = full.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def call(full: str, *arguments: bytes) -> bytes:
    """A call."""
    return name(full) + items(*arguments) + b"R"


def table(**entries: bytes) -> bytes:
    """A dict."""
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def dtype(code: str, *, order: str = "<", fields: bytes = b"NNN", sizes: bytes = b"", flags: int = 0) -> bytes:
    """A numpy dtype with a state."""
    made = call("numpy.dtype", text(code), b"\x89", b"\x88")
    return made + items(number(3), text(order), fields, sizes or number(-1) * 2, number(flags)) + b"b"


def array(shape: tuple[int, ...], kind: bytes, contents: bytes) -> bytes:
    """A numpy array."""
    empty = call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(0)), raw(b"b"))
    return empty + items(number(1), items(*map(number, shape)), kind, b"\x89", contents) + b"b"


def tensor(
    count: int, size: tuple[int, ...], stride: tuple[int, ...], *, at: int = 0, key: str = "0", kind: str = "Float"
) -> bytes:
    """A tensor of ``torch.save``."""
    storage = items(text("storage"), name(f"torch.{kind}Storage"), text(key), text("cpu"), number(count)) + b"Q"
    return call(
        "torch._utils._rebuild_tensor_v2",
        storage,
        number(at),
        items(*map(number, size)),
        items(*map(number, stride)),
        b"\x89",
        call("collections.OrderedDict"),
    )


RUNS = call("os.system", text(f"touch {EXECUTED}"))
OBJECTS = dtype("O8", order="|", flags=63)
FIELD = items(text("a")) + table(a=items(OBJECTS, number(0)))
POINTERS = raw(struct.pack("<Q", 0x4141414141))
TWINS = items(text("x")) + b"".join(
    b"r" + struct.pack("<I", place) + b"h" + bytes([place]) + b"\x86" for place in range(45)
)
"""A tuple of 2 ** 45 texts: each time a tuple of the last one and the last one."""

PICKLES: dict[str, bytes] = {
    # Names that run code, by every way of calling something.
    "reduce": RUNS,
    "argument": call("collections.OrderedDict", RUNS),
    "eval": call("builtins.eval", text(f"open('{EXECUTED}', 'w')")),
    "getattr": call("builtins.getattr", name("numpy.ndarray"), text("__class__")),
    "import": call("builtins.__import__", text("os")),
    "popen": call("subprocess.Popen", b"](" + text("touch") + text(EXECUTED) + b"e"),
    "inst": b"(" + text(f"touch {EXECUTED}") + b"ios\nsystem\n",
    "obj": b"(" + name("os.system") + text(f"touch {EXECUTED}") + b"o",
    "newobj": name("subprocess.Popen") + items(b"](" + text("touch") + text(EXECUTED) + b"e") + b"\x81",
    "newobj of a container": name("collections.OrderedDict") + b")\x81",
    "stack_global": text("os") + text("system") + b"\x93" + items(text(f"touch {EXECUTED}")) + b"R",
    "stack_global of numbers": number(1) + number(2) + b"\x93",
    "dotted": name("collections.OrderedDict.fromkeys") + items(text("ab")) + b"R",
    "extension": b"\x82\x01)R",
    "persistent id": b"Pos.system\n",
    "persistent module": items(text("module"), name("torch.Size"), text("a"), text("b")) + b"Q",
    "partial": call("functools.partial", name("os.system"), text(f"touch {EXECUTED}")),
    "reconstructor": call("copyreg._reconstructor", name("argparse.Namespace"), name("builtins.object"), b"N"),
    "numpy load": call("numpy.load", text(EXECUTED)),
    "torch load": call("torch.load", text(EXECUTED)),
    "load from bytes": call("torch.storage._load_from_bytes", raw(b"\x80\x02" + RUNS + b".")),
    "called twice": call("collections.OrderedDict") + b")R",
    # States for what should have none.
    "state of a class": name("numpy.ndarray") + table(x=number(1)) + b"b",
    "state of a dict": b"}" + table(x=number(1)) + b"b",
    "state that hides a method": call("collections.OrderedDict") + table(items=number(1)) + b"b",
    "state with numbers for names": name("argparse.Namespace") + b")\x81}" + number(1) + b"Nsb",
    "a class as a value": b"]" + name("numpy.ndarray") + b"a",
    "filled tuple": b"))a",
    # Lengths.
    "memo": b"Nr" + struct.pack("<I", (1 << 32) - 1),
    "frame": b"\x95" + struct.pack("<Q", HUGE),
    "frame beyond an opcode": b"\x95" + struct.pack("<Q", 3) + b"N\x8c\x04abcd\x86",
    # The unpickler drops what is left of the frame, and finds a dtype where the gate found the end of a text.
    "frame that hides opcodes": b"\x95"
    + struct.pack("<Q", 140_025)
    + text("p" * 140_000)
    + b"X"
    + struct.pack("<I", 200_000)
    + b"q" * 15
    + b"q" * 199_985
    + b"\x86.",
    "long4": b"\x8b" + struct.pack("<i", (1 << 31) - 1),
    "long text": b"L" + b"9" * 5000 + b"L\n",
    "bytes": b"B" + struct.pack("<I", (1 << 32) - 1),
    "bytes8": b"\x8e" + struct.pack("<Q", HUGE),
    "bytearray8": b"\x96" + struct.pack("<Q", 6 << 30),
    "unicode8": b"\x8d" + struct.pack("<Q", HUGE),
    "next buffer": b"\x97",
    "readonly buffer": raw(b"x") + b"\x98",
    "call bytearray": call("builtins.bytearray", number(HUGE)),
    "call bytes": call("builtins.bytes", number(HUGE)),
    "call list": call("builtins.list", items(number(1))),
    "call str": call("builtins.str", b"](" + number(1) + b"e"),
    "escaped": call("_codecs.encode", text("\\" * 100), text("unicode_escape")),
    "call ndarray": call("numpy.ndarray", items(number(HUGE))),
    "reconstruct": call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(HUGE)), raw(b"b")),
    "reconstruct of objects": call(
        "numpy.core.multiarray._reconstruct", name("numpy.ndarray"), items(number(0)), raw(b"O")
    ),
    "fewer objects": array((HUGE,), OBJECTS, b"]"),
    "fewer bytes": array((HUGE,), dtype("f8"), raw(b"")),
    "rows of nothing": array((1 << 40, 0), dtype("f8"), raw(b"")),
    "texts of nothing": array((1 << 40,), dtype("U0", sizes=number(0) + number(4), flags=8), raw(b"")),
    "scalar": call("numpy.core.multiarray.scalar", dtype("S2000000", order="|", sizes=number(2000000) + number(1))),
    "scalar object": call("numpy.core.multiarray.scalar", OBJECTS, b"]"),
    "texts of no characters": array((1,), dtype("U1", sizes=number(4) * 2, flags=8), raw(b"\xff\xff\xff\xff")),
    "array copies": b"]("
    + raw(b"x" * 2000)
    + b"q\x00"
    + b"".join(array((2000,), dtype("u1", order="|"), b"h\x00") for _ in range(100))
    + b"e",
    # Dtypes that take bytes for pointers, or change numpy's own.
    "forged fields": array((1,), dtype("V8", order="|", fields=b"N" + FIELD, sizes=number(8) + number(1)), POINTERS),
    "forged subarray": array(
        (1,),
        dtype("V8", order="|", fields=items(OBJECTS, items(number(1))) + b"NN", sizes=number(8) + number(1)),
        POINTERS,
    ),
    "objects without their flags": array((1,), dtype("O8", order="|"), POINTERS),
    "forged size": array((1,), dtype("S1", order="|", sizes=number(1 << 40) + number(1)), raw(b"x")),
    "forged order": array((1,), dtype("f8", order="O"), POINTERS),
    "not a copy": call("numpy.dtype", text("f8"), b"\x89", b"\x89")
    + items(number(3), text(">"), b"NNN", number(-1) * 2, number(0))
    + b"b",
    "dtype alone": call("numpy.dtype", text("f8")),
    "dtype of fields": call("numpy.dtype", text("i4,O"), b"\x89", b"\x88"),
    "dtype built twice": dtype("f8") + items(number(3), text(">"), b"NNN", number(-1) * 2, number(0)) + b"b",
    # Keys.
    "twins as a key": b"}" + TWINS + b"Ns",
    "twins as keys": b"}(" + TWINS + b"Nu",
    "twins in a set": call("builtins.set", b"](" + TWINS + b"e"),
    "twins in an ordered dict": call("collections.OrderedDict", b"]](" + TWINS + b"Nea"),
    "twins as a name": name("argparse.Namespace") + b")\x81}" + TWINS + b"Nsb",
    "twins": TWINS,
    "twin lists": b"]("
    + b"".join(b"](" + (b"h" + bytes([n - 1]) * 2 if n else b"N") + b"eq" + bytes([n]) for n in range(45))
    + b"e",
    "a list as a key": b"}]Ns",
    "a deep key": b"}N" + b"\x85" * 100_000 + b"Ns",
    "deep lists": b"]" * 30_000 + b"a" * 29_999,
    "collisions": b"}(" + b"".join(number(n * ((1 << 61) - 1)) + b"N" for n in range(20_000)) + b"u",
    "a list in itself": b"]q\x00h\x00a",
    "a dict in itself": b"}q\x00" + text("x") + b"h\x00s",
    "a list in its tuple": b"]q\x00(h\x00ta",
    # Damage.
    "nothing": b"",
    "two values": b"NN",
    "an open mark": b"N(",
    "no such opcode": b"\xff",
    "empty stack": b"a",
    "unknown memo": b"h\x07",
    "odd items": b"}(Nu",
    "name without end": b"cnumpy\nndarr",
}
"""Bodies of pickles, by what is wrong with them."""

TENSORS: dict[str, bytes] = {
    "more than is stored": tensor(1 << 20, (1 << 20,), (1,)),
    "beyond its storage": tensor(4, (4,), (1,), at=1),
    "before its storage": tensor(4, (4,), (1,), at=-4),
    "backwards": tensor(4, (4,), (-1,)),
    "one number 10 ** 12 times": tensor(4, (10**12,), (0,)),
    "rows of nothing": tensor(4, (1 << 40, 0), (1, 1)),
    "no such storage": tensor(4, (4,), (1,), key="../../etc/passwd"),
    "unknown storage": tensor(4, (4,), (1,), kind="QInt8"),
    "a storage": items(text("storage"), name("torch.FloatStorage"), text("0"), text("cpu"), number(4)) + b"Q",
    "an empty tensor": call("torch.FloatTensor", number(HUGE)),
    "a sparse tensor": call(
        "torch._utils._rebuild_sparse_tensor",
        call("torch.serialization._get_layout", text("torch.sparse_coo")),
        items(tensor(4, (1, 2), (2, 1)), tensor(4, (2,), (1,)), items(number(HUGE)), b"\x88"),
    ),
    "a tensor with a state": tensor(4, (4,), (1,)) + items(number(1)) + b"b",
    "hooks": tensor(4, (4,), (1,))[:-2] + b"}" + number(1) + name("builtins.complex") + b"stR",
    "a size of texts": call("torch.Size", items(text("x"))),
    "a tensor as a key": b"}" + tensor(4, (4,), (1,)) + b"Ns",
}
"""Bodies of pickles of tensors; there is one storage, ``0``, of four float32."""


def pickled(body: bytes) -> bytes:
    """The whole pickle."""
    return b"\x80\x04" + body + b"."
