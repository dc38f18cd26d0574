"""The gate for pickles: it walks the opcodes of a pickle and refuses it before any object is built.

A pickle is a program for a small stack machine. The gate runs that program on stand-ins (`Node`) that have a kind and a
size but no contents, so a refused pickle costs no memory. It refuses:

- Code. A name outside `NAMES`; a call with other arguments than real programs write; a state for anything but an array,
  its dtype, an ``OrderedDict`` or a ``Namespace``; opcodes that current programs do not write.
- Forged dtypes. With fields, subarrays, dates or foreign flags, a dtype makes numpy interpret bytes of the file as
  pointers; one that is not a copy changes numpy's ``float64`` for the whole process.
- Lengths. An opcode, an array or a tensor that needs more bytes than the file has; a memo index far beyond the last,
  for which the unpickler allocates memory.
- Frames. After an opcode that crosses the end of a frame, the C unpickler continues at another position than a byte
  reader.
- Sharing. A tuple of itself and itself, 45 times over, is 2 ** 45 objects for a function that hashes, prints or copies
  it: each object counts as often as it is referenced. An object that is part of another cannot get new items, so no
  object contains itself.
- Depth. Containers nested deeper than recursive functions can go.
- Hashes. Keys of dicts and sets are texts, numbers and flat tuples of them; all but texts can be made to collide, so
  their number is limited.
- Number. Each opcode may create an object of a hundred bytes.

After the gate, the C unpickler builds the objects. It interprets opcodes as the gate does; its weak points, memory for
announced lengths and memo indices, are checked above.

`Gate` has the state of the walk. `NAMES` are the names that a pickle may use, with the function that builds each;
`call`, `build` and `storage` check their uses. The walk itself is in `motionkit.weights._pickles`.
"""

from __future__ import annotations

import argparse
import codecs
import collections
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError

OBJECTS = 4_000_000
"""Most opcodes, and most objects counted as often as they are referenced; 80 000 composite prompts have that many."""

_DEPTH = 100
_HASHED = 100_000
_INT_KEY = 1 << 60
"""Integers below this have different hashes."""

_LONGEST = 100  # characters of a name in a message
_RUN_CODE = {"os", "posix", "nt", "subprocess", "builtins", "__builtin__", "sys", "shutil", "socket", "runpy"}

_CODE = re.compile(r"[<>|=]?(?:[?bhilqBHILQefdgFDGO]|[biufcO]\d{1,2}|[SU]\d{0,6})")
"""Codes of dtypes: numbers, texts, objects; no fields, and no dates."""

_SPREAD = 1 << 20
_LAST_CHARACTER = 0x10FFFF


class Node:
    """A stand-in for an object on the stack that is not a number, text or bytes."""

    __slots__ = ("data", "depth", "held", "kind", "value", "weight")

    def __init__(self, kind: str, value: Any = None, *, data: bool = True) -> None:
        # tuple, list, dict, ordered dict, set, namespace, array and dtype (new array and new dtype until their state is
        # set), tensor, number (numpy's), object (any other), storage, name
        self.kind = kind
        # Known content: the items of a tuple or list, the keys of a dict, a name's text, a numpy dtype, a storage's
        # number of elements and their size in bytes.
        self.value = value
        self.weight = 1  # Objects in it, each counted as often as it is referenced
        self.depth = 0  # Levels of containers in it
        self.data = data  # Whether a finished object may contain it; names and storages are only arguments of calls
        self.held = False  # Whether another object contains it; then no items may be added


class Gate:
    """One walk over one pickle.

    Args:
        data: Bytes that hold the pickle.
        origin: Name of the file for messages.
        start: Its position in `data`.
        tensors: Whether it may refer to bytes outside itself, as the pickles of ``torch.save`` do.
    """

    def __init__(self, data: memoryview, origin: str, start: int = 0, *, tensors: bool = False) -> None:
        self.data = self.whole = data  # `data` ends with the current frame
        self.origin = origin
        self.at = start  # Current position
        self.tensors = tensors
        self.stack: list[Any] = []  # Above the last mark: numbers, texts, bytes (as memoryview) and nodes
        self.marks: list[list[Any]] = []  # The stack below each mark
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, tuple[int, int]] = {}  # Storages outside the pickle: number of elements, bytes of each
        self._hashed = _HASHED
        self._copied = 4 * (len(data) - start)

    def refuse(self, what: str) -> NoReturn:
        """Raise the error for a pickle that does `what`."""
        raise MotionkitError(
            f"{self.origin} was not opened: {what}.",
            why="no program that saves motions or weights writes that; nothing of it was built.",
            fix="do not use this file, or save it again as plain arrays: np.savez.",
        )

    def add(self, node: Node, values: Iterable[Any]) -> Node:
        """Count `values` as parts of `node`, and return it."""
        weight, depth, data = node.weight, node.depth, node.data
        for value in values:
            if type(value) is Node:
                value.held = True
                weight += value.weight
                if value.depth >= depth:
                    depth = value.depth + 1
                data = data and value.data
            else:
                weight += 1
        if node.held:
            self.refuse("it changes what is already part of something else")
        if weight > OBJECTS or depth > _DEPTH:
            self.refuse(f"it makes more than {OBJECTS} objects, or nests them more than {_DEPTH} deep")
        if not data and node.kind != "tuple":
            self.refuse("it stores a name that is only there to be called")
        node.weight, node.depth, node.data = weight, depth, data
        return node

    def charge(self, size: int) -> None:
        """Count bytes that a call copies; the total is limited to a few times the file's size."""
        self._copied -= size
        if self._copied < 0:
            self.refuse("it copies the same contents again and again")

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Refuse keys that are expensive to hash or to compare."""
        for key in keys:
            if type(key) is not str:
                self._hashed -= self._price(key)
        if self._hashed < 0:
            self.refuse(f"it has more than {_HASHED} keys that are not texts")

    def _price(self, key: Any) -> int:
        if key is None or isinstance(key, bool | float | memoryview) or (type(key) is int and abs(key) < _INT_KEY):
            return 1
        if type(key) is Node and key.kind == "number":
            return 1
        if type(key) is Node and key.kind == "tuple" and len(key.value) <= 10 and key.depth < 2:
            return 10 + sum(self._price(item) for item in key.value if type(item) is not str)
        self.refuse("it uses keys other than texts and numbers")


def refusal(name: str, origin: str) -> MotionkitError:
    """Return the error for a pickle that refers to `name`, which is not in `NAMES`."""
    name = name[:_LONGEST]
    module = name.rpartition(".")[0]
    runs = module.split(".")[0] in _RUN_CODE
    return MotionkitError(
        f"{origin} was not opened: it refers to {name}.",
        why="a pickle can call what it names, and this name runs code; nothing was executed."
        if runs
        else "only tensors, numpy arrays and plain containers are read from pickles; nothing was executed.",
        fix="do not use this file."
        if runs
        else "in the program that made it, save the bare weights: torch.save(model.state_dict(), path), "
        "or for TMR extract the last_weights folder.",
    )


def _default_dict(*_: Any) -> Any:
    """Return an empty ``defaultdict`` without its factory."""
    return collections.defaultdict(None)


def _from_buffer(data: bytes, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Any:
    """Return a writable array from its bytes, as pickle protocol 5 writes it."""
    flat = np.frombuffer(bytearray(data), dtype=dtype)
    if order == "K" and axes is not None:
        return flat.reshape(shape).transpose(axes)
    return flat.reshape(shape, order=order)


def _rebuilt_tensor(
    storage: tuple[torch.UntypedStorage, torch.dtype],
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool = False,
    _hooks: Any = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a tensor that is a view of a storage."""
    tensor = torch.empty(0, dtype=dtype or storage[1])
    tensor.set_(storage[0], offset, tuple(size), tuple(stride))
    return tensor.requires_grad_(requires_grad)


def _parameter(data: Tensor, requires_grad: bool, _hooks: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(data, requires_grad)


_BUILTINS = (set, frozenset, complex, bytes, bytearray, dict, list, int, float, str)

TYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128, torch.bool,
        torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    )
}  # fmt: skip
"""Element types of tensors."""

STORAGES: dict[str, torch.dtype] = {
    **{
        f"torch.{name}Storage": dtype
        for name, dtype in {
            "Half": torch.float16, "Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16,
            "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Bool": torch.bool,
            "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64, "Byte": torch.uint8,
        }.items()
    },
    "torch.storage.UntypedStorage": torch.uint8,
}  # fmt: skip
"""Kinds of storage and their element types."""

NAMES: dict[str, Any] = {
    **{f"{module}.{kind.__name__}": kind for module in ("builtins", "__builtin__") for kind in _BUILTINS},
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "collections.defaultdict": _default_dict,
    "argparse.Namespace": argparse.Namespace,
    # Old pickle protocols write byte strings as encoded text.
    "_codecs.encode": codecs.encode,
    "numpy.dtype": np.dtype,
    "numpy.ndarray": np.ndarray,
    **{
        f"numpy.{core}.{name}": made
        for core in ("core", "_core")
        for name, made in {
            "multiarray._reconstruct": np.empty(0).__reduce__()[0],
            "multiarray.scalar": np.float64(0).__reduce__()[0],
            "numeric._frombuffer": _from_buffer,
        }.items()
    },
    "torch._utils._rebuild_tensor": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuilt_tensor,
    "torch._utils._rebuild_tensor_v3": _rebuilt_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": torch.Size,
    "torch.device": torch.device,
    **TYPES,
    **STORAGES,
}
"""The names that a pickle may use, and the function that builds each."""


def call(gate: Gate, name: str, arguments: tuple[Any, ...]) -> Any:
    """Return the stand-in for the result of calling `name`, one of `NAMES`, or refuse the call."""
    match name, arguments:
        case "torch._utils._rebuild_tensor_v2", (Node() as stored, at, size, stride, bool(), hooks) if _is_empty(hooks):
            return _tensor(gate, stored, at, size, stride)
        case "torch._utils._rebuild_tensor_v3", (
            Node() as stored, at, size, stride, bool(), hooks, Node(kind="name", value=kind),
        ) if _is_empty(hooks) and kind in TYPES:  # fmt: skip
            return _tensor(gate, stored, at, size, stride, TYPES[kind].itemsize)
        case "torch._utils._rebuild_tensor", (Node() as stored, at, size, stride):
            return _tensor(gate, stored, at, size, stride)
        case "torch._utils._rebuild_parameter", (Node(kind="tensor") as data, bool(), hooks) if _is_empty(hooks):
            return data
        case "collections.OrderedDict", ():
            return Node("ordered dict", [])
        case "numpy.core.multiarray._reconstruct", (
            Node(value="numpy.ndarray"), Node(kind="tuple", value=(0,)), code,
        ) if code in ("b", b"b"):  # fmt: skip
            return Node("new array")
        case "numpy.core.multiarray.scalar", (Node(kind="dtype", value=dtype), data):
            _check_bytes(gate, dtype, (), data)
            return Node("number")
        case "numpy.core.numeric._frombuffer", (data, Node(kind="dtype", value=dtype), shape, str(), *axes):
            if axes and sorted(_sizes(gate, *axes)) != list(range(len(_sizes(gate, shape)))):
                gate.refuse("it permutes axes that its array does not have")
            _check_bytes(gate, dtype, _sizes(gate, shape), data)
            return Node("array")
        case "numpy.dtype", (str() as code, False | 0, True | 1) if _CODE.fullmatch(code):
            return Node("new dtype", np.dtype(code))
        case "builtins.bytes" | "builtins.bytearray", ():
            return memoryview(b"")
        case "builtins.bytearray", (memoryview() as raw,):
            gate.charge(len(raw))
            return raw
        case ("_codecs.encode", (str() as text, "latin1")) | ("builtins.bytearray", (str() as text, "latin-1")):
            gate.charge(len(text))
            return memoryview(text.encode("latin-1"))
        case "builtins.set" | "builtins.frozenset", (Node(kind="list") as items,):
            gate.charge(len(items.value))
            gate.check_keys(items.value)
            return gate.add(Node("set"), [items])
        case "builtins.complex", (int() | float(), int() | float()):
            return 0j
        case "collections.defaultdict", () | (None | Node(kind="name"),):
            return Node("dict", [])
        case "collections.Counter", (Node(kind="dict") as items,):
            return gate.add(Node("object"), [items])
        case "torch.Size", (items,):
            _sizes(gate, items)
            return Node("object")
        case "torch.device", (str(),) | (str(), int()):
            return Node("object")
    gate.refuse(f"it calls {name} with arguments that no program writes")


def build(gate: Gate, node: Node, state: Node) -> None:
    """Set the state of `node`, or refuse it."""
    match node.kind, state.kind, state.value:
        case "new dtype", "tuple", (3, str() as order, None, None, None, int() as size, int() as step, int() as flags):
            state_of_dtype = node.value.__reduce__()[2]
            if (
                (size, step, flags) == state_of_dtype[5:]
                and order
                and order in ("|" if state_of_dtype[1] == "|" else "<>=")
            ):
                node.kind, node.value = "dtype", node.value.newbyteorder(order)
                return
        case "new array", "tuple", (1, shape, Node(kind="dtype", value=dtype), bool() | 0 | 1, data):
            sizes = _sizes(gate, shape)
            if not dtype.hasobject:
                _check_bytes(gate, dtype, sizes, data)
            elif type(data) is not Node or data.kind != "list" or math.prod(sizes) != len(data.value):
                gate.refuse("its array of objects has other contents than its shape")
            elif spreads(sizes, len(data.value)):
                gate.refuse("it has a shape of rows without contents")
            node.kind = "array"
            return
        case "ordered dict", "dict", ["_metadata"]:
            return
        case "namespace", "dict", names:
            gate.charge(len(names))
            if all(type(name) is str for name in names):
                return
    gate.refuse(f"it gives a {node.kind} a state that no program writes")


def storage(gate: Gate, reference: Any) -> Node:
    """Return the storage that a reference to bytes outside the pickle names, or refuse it."""
    match reference:
        case Node(kind="tuple", value=("storage", Node(value=kind), str() as key, str(), int() as count, *view)) if (
            kind in STORAGES and count >= 0 and view in ([], [None])
        ):
            size = (count, STORAGES[kind].itemsize)
            if gate.storages.setdefault(key, size) == size:
                return Node("storage", size, data=False)
    gate.refuse("it refers to something outside itself that is not a storage")


def valid_texts(raw: Any, dtype: Any) -> bool:
    """Whether bytes are valid text of dtype ``U``, with four bytes for each character."""
    codes = np.frombuffer(raw, dtype=np.dtype("u4").newbyteorder(dtype.byteorder))
    return not len(codes) or int(codes.max()) <= _LAST_CHARACTER


def spreads(shape: tuple[int, ...], stored: int) -> bool:
    """Whether a shape has many more rows or elements than are stored: rows of size 0, or one row repeated."""
    return math.prod(max(size, 1) for size in shape) > max(stored, _SPREAD)


def _is_empty(hooks: Any) -> bool:
    return type(hooks) is Node and hooks.kind == "ordered dict" and hooks.weight == 1


def _sizes(gate: Gate, shape: Any) -> tuple[int, ...]:
    """Return the numbers of a shape, or refuse it."""
    is_tuple = type(shape) is Node and shape.kind == "tuple" and len(shape.value) <= 32
    if not is_tuple or not all(type(size) is int and size >= 0 for size in shape.value):
        gate.refuse("it has an invalid shape")
    return tuple(shape.value)


def _check_bytes(gate: Gate, dtype: Any, shape: tuple[int, ...], data: Any) -> None:
    """Refuse an array of numbers or texts whose bytes do not fit its shape."""
    if isinstance(data, str):
        data = memoryview(data.encode("latin-1"))
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not isinstance(data, memoryview) or len(data) != size or spreads(shape, size):
        gate.refuse("its array has other bytes than its shape")
    if dtype.kind == "U" and not valid_texts(data, dtype):
        gate.refuse("it has characters that do not exist")
    gate.charge(size)


def _tensor(gate: Gate, stored: Node, at: Any, size: Any, stride: Any, width: int = 0) -> Node:
    """Return a tensor with elements of `width` bytes (by default those of its storage), or refuse it."""
    if stored.kind != "storage" or type(at) is not int:
        gate.refuse("it makes a tensor of something that is not a storage")
    count, itemsize = stored.value
    count = count * itemsize // (width or itemsize)
    sizes, strides = _sizes(gate, size), _sizes(gate, stride)
    last = at + sum((length - 1) * step for length, step in zip(sizes, strides, strict=True))
    if at < 0 or (0 not in sizes and last >= count) or spreads(sizes, count):
        gate.refuse("it makes a tensor larger than its storage")
    return Node("tensor")
