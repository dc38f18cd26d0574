"""Reads a pickle: first the walk through the gate, then Python's unpickler, limited to the names of the gate.

`walk` goes through the opcodes; the functions before it apply each opcode to the stack of the gate, and `OPERATIONS` is
their table. `read_pickle` walks and then unpickles.
"""

from __future__ import annotations

import gc
import io
import mmap
import pickle
import struct
from collections.abc import Callable
from typing import IO, Any

from motionkit.errors import MotionkitError
from motionkit.weights import _gate
from motionkit.weights._gate import NAMES, OBJECTS, TYPES, Gate, Node, refusal

_MEMO_GAP = 1000
"""Most memo indices that may be skipped; real programs count up by one."""

_NAME = 200
"""Most bytes of a module's and a function's name together."""


def _length(gate: Gate, layout: struct.Struct) -> memoryview:
    """Return a sequence of bytes, which is preceded by its length."""
    start = gate.at + layout.size
    end = start + layout.unpack_from(gate.data, gate.at)[0]
    if end > len(gate.data):
        raise EOFError("it announces more bytes than there are.")
    gate.at = end
    return gate.data[start:end]


def _items(gate: Gate, many: bool) -> list[Any]:
    """Pop all items above the last mark, or only the top one."""
    if not many:
        return [gate.stack.pop()]
    items, gate.stack = gate.stack, gate.marks.pop()
    return items


def _target(gate: Gate, *kinds: str) -> Node:
    node = gate.stack[-1]
    if type(node) is not Node or node.kind not in kinds:
        gate.refuse("it fills something that is not a container")
    return node


def _skip(gate: Gate, size: int) -> None:
    gate.at += size


def _frame(gate: Gate, layout: struct.Struct) -> None:
    start = gate.at + layout.size
    end = start + layout.unpack_from(gate.data, gate.at)[0]
    if gate.data is not gate.whole:
        gate.refuse("it has a frame in a frame")
    if end > len(gate.whole):
        raise EOFError("it announces more bytes than there are.")
    gate.at, gate.data = start, gate.whole[:end]


def _mark(gate: Gate, _: None) -> None:
    gate.marks.append(gate.stack)
    gate.stack = []


def _constant(gate: Gate, value: Any) -> None:
    gate.stack.append(value)


def _number(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(layout.unpack_from(gate.data, gate.at)[0])
    gate.at += layout.size


def _long(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(int.from_bytes(_length(gate, layout), "little", signed=True))


def _text(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(str(_length(gate, layout), "utf-8", "surrogatepass"))


def _latin(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(str(_length(gate, layout), "latin-1"))


def _bytes(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(_length(gate, layout))


def _get(gate: Gate, layout: struct.Struct) -> None:
    gate.stack.append(gate.memo[layout.unpack_from(gate.data, gate.at)[0]])
    gate.at += layout.size


def _put(gate: Gate, layout: struct.Struct) -> None:
    place = layout.unpack_from(gate.data, gate.at)[0]
    gate.at += layout.size
    if place > len(gate.memo) + _MEMO_GAP:
        gate.refuse(f"it uses memo index {place} after {len(gate.memo)}")
    gate.memo[place] = gate.stack[-1]


def _memoize(gate: Gate, _: None) -> None:
    gate.memo[len(gate.memo)] = gate.stack[-1]


def _empty(gate: Gate, kind: str) -> None:
    gate.stack.append(Node(kind, () if kind == "tuple" else []))


def _tuple(gate: Gate, size: int) -> None:
    if size == 0:
        items = tuple(_items(gate, True))
    else:
        items = tuple(gate.stack[-size:])
        if len(items) < size:
            raise IndexError("the stack is empty.")
        del gate.stack[-size:]
    gate.stack.append(gate.add(Node("tuple", items), items))


def _append(gate: Gate, many: bool) -> None:
    items = _items(gate, many)
    gate.add(node := _target(gate, "list"), items)
    node.value += items


def _set_items(gate: Gate, many: bool) -> None:
    items = _items(gate, True) if many else [gate.stack.pop(-2), gate.stack.pop()]
    if len(items) % 2:
        raise ValueError("a key has no value.")
    gate.add(node := _target(gate, "dict", "ordered dict"), items)
    gate.check_keys(keys := items[::2])
    node.value += keys


def _add_items(gate: Gate, _: None) -> None:
    items = _items(gate, True)
    gate.add(_target(gate, "set"), items)
    gate.check_keys(items)


def _frozenset(gate: Gate, _: None) -> None:
    items = _items(gate, True)
    gate.check_keys(items)
    gate.stack.append(gate.add(Node("set"), items))


def _global(gate: Gate, _: None) -> None:
    lines = bytes(gate.data[gate.at : gate.at + _NAME]).split(b"\n", 2)
    if len(lines) < 3:
        raise ValueError("a name has no end.")
    gate.at += len(lines[0]) + len(lines[1]) + 2
    _name(gate, lines[0].decode(), lines[1].decode())


def _stack_global(gate: Gate, _: None) -> None:
    name, module = gate.stack.pop(), gate.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError("a name is not a text.")
    _name(gate, module, name)


def _name(gate: Gate, module: str, name: str) -> None:
    full = f"{module}.{name}"
    if full not in NAMES:
        raise refusal(full, gate.origin)
    canonical = full.replace("__builtin__", "builtins").replace("numpy._core", "numpy.core")
    gate.stack.append(Node("name", canonical, data=canonical in TYPES))


def _call(gate: Gate, _: None) -> None:
    arguments, called = gate.stack.pop(), gate.stack.pop()
    match called, arguments:
        case Node(kind="name", value=name), Node(kind="tuple", value=values):
            gate.stack.append(_gate.call(gate, name, values))
        case _:
            gate.refuse("it calls something that is not a function")


def _new(gate: Gate, _: None) -> None:
    arguments, made = gate.stack.pop(), gate.stack.pop()
    match made, arguments:
        case Node(kind="name", value="argparse.Namespace"), Node(kind="tuple", value=()):
            gate.stack.append(Node("namespace"))
        case _:
            gate.refuse("it makes an object that is not data")


def _build(gate: Gate, _: None) -> None:
    state = gate.stack.pop()
    node = gate.stack[-1]
    if type(node) is not Node or type(state) is not Node:
        gate.refuse("it gives a state to something that has none")
    _gate.build(gate, node, state)
    gate.add(node, [state])


def _storage(gate: Gate, _: None) -> None:
    if not gate.tensors:
        raise MotionkitError(f"{gate.origin} refers to data outside itself.", why="it is not a plain pickle.")
    gate.stack.append(_gate.storage(gate, gate.stack.pop()))


_BYTE, _SHORT, _UNSIGNED = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_Operation = Callable[[Gate, Any], None]
_TABLE: dict[bytes, tuple[_Operation, Any]] = {
    pickle.PROTO: (_skip, 1),
    pickle.FRAME: (_frame, _LENGTH),
    pickle.MARK: (_mark, None),
    pickle.NONE: (_constant, None),
    pickle.NEWTRUE: (_constant, True),
    pickle.NEWFALSE: (_constant, False),
    pickle.BININT: (_number, struct.Struct("<i")),
    pickle.BININT1: (_number, _BYTE),
    pickle.BININT2: (_number, _SHORT),
    pickle.BINFLOAT: (_number, struct.Struct(">d")),
    pickle.LONG1: (_long, _BYTE),
    pickle.SHORT_BINSTRING: (_latin, _BYTE),
    pickle.BINSTRING: (_latin, _UNSIGNED),
    pickle.SHORT_BINUNICODE: (_text, _BYTE),
    pickle.BINUNICODE: (_text, _UNSIGNED),
    pickle.SHORT_BINBYTES: (_bytes, _BYTE),
    pickle.BINBYTES: (_bytes, _UNSIGNED),
    pickle.BYTEARRAY8: (_bytes, _LENGTH),
    pickle.BINGET: (_get, _BYTE),
    pickle.LONG_BINGET: (_get, _UNSIGNED),
    pickle.BINPUT: (_put, _BYTE),
    pickle.LONG_BINPUT: (_put, _UNSIGNED),
    pickle.MEMOIZE: (_memoize, None),
    pickle.EMPTY_LIST: (_empty, "list"),
    pickle.EMPTY_DICT: (_empty, "dict"),
    pickle.EMPTY_SET: (_empty, "set"),
    pickle.EMPTY_TUPLE: (_empty, "tuple"),
    pickle.TUPLE1: (_tuple, 1),
    pickle.TUPLE2: (_tuple, 2),
    pickle.TUPLE3: (_tuple, 3),
    pickle.TUPLE: (_tuple, 0),
    pickle.APPEND: (_append, False),
    pickle.APPENDS: (_append, True),
    pickle.SETITEM: (_set_items, False),
    pickle.SETITEMS: (_set_items, True),
    pickle.ADDITEMS: (_add_items, None),
    pickle.FROZENSET: (_frozenset, None),
    pickle.GLOBAL: (_global, None),
    pickle.STACK_GLOBAL: (_stack_global, None),
    pickle.REDUCE: (_call, None),
    pickle.NEWOBJ: (_new, None),
    pickle.BUILD: (_build, None),
    pickle.BINPERSID: (_storage, None),
}
"""Handler and argument of each allowed opcode; current programs write no others."""

OPERATIONS = {code[0]: operation for code, operation in _TABLE.items()}


def walk(gate: Gate) -> int:
    """Walk to the end of the pickle that `gate` was made for, and return the position after it.

    Raises:
        MotionkitError: It is refused.
        Exception: It is damaged.
    """
    collects = gc.isenabled()
    gc.disable()  # No node contains itself, and the cyclic garbage collector would double the time.
    try:
        return _walk(gate)
    except (IndexError, KeyError, struct.error) as error:
        raise EOFError("its pickle ends too early, or is not a pickle.") from error
    finally:
        if collects:
            gc.enable()


def _walk(gate: Gate) -> int:
    operations, stop = OPERATIONS, pickle.STOP[0]
    for _ in range(OBJECTS):
        try:
            code = gate.data[gate.at]
        except IndexError:  # the end of a frame, between two opcodes: continue after it
            if gate.at != len(gate.data):
                raise
            gate.data = gate.whole
            code = gate.data[gate.at]
        gate.at += 1
        if code in operations:
            operation, argument = operations[code]
            operation(gate, argument)
        elif code == stop:
            if len(gate.stack) != 1 or gate.marks or (type(gate.stack[0]) is Node and not gate.stack[0].data):
                gate.refuse("it leaves parts unused")
            return gate.at
        else:
            gate.refuse(f"it uses the opcode {bytes([code])!r}")
    gate.refuse(f"it has more than {OBJECTS} opcodes")


def read_pickle(source: IO[bytes] | bytes, origin: str) -> Any:
    """Read a pickle of numpy arrays and plain containers.

    Args:
        source: The pickle, or an open file positioned at it.
        origin: Name of the file for messages.

    Raises:
        MotionkitError: It holds other objects or inconsistent sizes; no object was built.
        Exception: It is damaged.
    """
    if isinstance(source, bytes):
        walk(Gate(memoryview(source), origin))
        return unpickle(in_memory(source), origin)
    start = source.tell()
    walk(Gate(mapped(source), origin, start))
    return unpickle(source, origin)


def unpickle(file: IO[bytes], origin: str, storage: Callable[[Any], Any] | None = None) -> Any:
    """Build the objects of the next pickle in a file, which the gate has checked.

    Args:
        file: The file.
        origin: Its name for messages.
        storage: Resolves references to bytes outside the pickle.
    """
    return _Unpickler(file, origin, storage).load()


def mapped(file: IO[bytes]) -> memoryview:
    """Return a file on disk as a memory map, of which only the used pages are read."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def in_memory(data: bytes) -> io.BufferedReader:
    """Return bytes as a file that the unpickler reads in blocks."""
    return io.BufferedReader(io.BytesIO(data))


class _Unpickler(pickle.Unpickler):
    """Resolves only the names of the gate, and imports no module."""

    def __init__(self, file: IO[bytes], origin: str, storage: Callable[[Any], Any] | None) -> None:
        super().__init__(file, encoding="latin1")
        self._origin = origin
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (full := f"{module}.{name}") not in NAMES:
            raise refusal(full, self._origin)
        return NAMES[full]

    def persistent_load(self, reference: Any) -> Any:
        if self._storage is None:
            raise ValueError("it refers to data outside itself.")
        return self._storage(reference)
