"""The gate for pickles: it walks the opcodes of a pickle and refuses it before anything of it is built.

A pickle is a program for a small machine with a stack. The gate runs that program on stand-ins (`Node`) that have a
kind and a size but no contents, so a refused pickle costs no memory. It refuses:

- Code. A name outside `NAMES`; a call with other arguments than real programs write; a state for anything but an array,
  its dtype, an ``OrderedDict`` or a ``Namespace``; opcodes that no program writes any more (`_opcodes`, `_calls`).
- Forged dtypes. With fields, subarrays, dates or flags that are not its own, a dtype lets numpy take bytes of the file
  for pointers; one that is not a copy changes numpy's own ``float64`` for the whole process.
- Lengths. An opcode, an array or a tensor that needs more bytes than the file has; a memo index far beyond the last,
for which the unpickler allocates memory.
- Frames. After an opcode that crosses the end of a frame, the C unpickler continues at another place than a byte
reader.
- Sharing. A tuple of itself and itself, 45 times over, is 2 ** 45 objects for a function that hashes, prints or copies
  it: each object counts as often as it is referred to. An object that is part of another cannot get new items, so no
  object contains itself.
- Depth. Nested deeper than a recursive function goes.
- Hashes. Keys of dicts and sets are texts, numbers and flat tuples of them; all but texts can be made to collide, so
  their number is bounded.
- Number. Each opcode may make an object of a hundred bytes.

After the gate, the C unpickler builds the objects. It interprets opcodes as the gate does; its weak points, memory for
announced lengths and memo indices, are checked above.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from motionkit.errors import MotionkitError

# A stand-in for an object while the gate walks a pickle.


class Node:
    """A stand-in for an object on the stack that is not a number, text or bytes.

    Attributes:
        kind: tuple, list, dict, ordered dict, set, namespace, array, dtype (these two are new until their state is
            there), tensor, number (numpy's), object (of which nothing more is made), storage, name.
        value: Its known content: the items of a tuple or list, the keys of a dict, a name's text, a numpy dtype, a
            storage's number of elements and their bytes.
        weight: Objects in it, each counted as often as it is referred to.
        depth: Levels of containers in it.
        data: Whether a finished object may contain it; names and storages are only arguments of calls.
        held: Whether another object contains it; then no items may be added.
    """

    __slots__ = ("data", "depth", "held", "kind", "value", "weight")

    def __init__(self, kind: str, value: Any = None, *, data: bool = True) -> None:
        self.kind = kind
        self.value = value
        self.weight = 1
        self.depth = 0
        self.data = data
        self.held = False


OBJECTS = 4_000_000
"""Opcodes, and objects counted as often as they are referred to; 80 000 composite prompts have that many."""

_DEPTH = 100
_HASHED = 100_000
_INT_KEY = 1 << 60
"""Integers below this have different hashes."""


class Gate:
    """One walk over one pickle.

    Args:
        data: Bytes that hold the pickle.
        origin: Name of the file for messages.
        start: Where in `data` it begins.
        tensors: Whether it may refer to bytes outside itself, as the pickles of ``torch.save`` do.

    Attributes:
        data: The same, up to the end of the frame that the walk is in.
        whole: The same to its end.
        at: The place of the walk in it.
        stack: What lies on the stack above the last mark: numbers, texts, bytes (as memoryview) and nodes.
        marks: What lies below each mark.
        memo: What was kept, by number.
        storages: Key to number of elements and bytes of each, of what it refers to outside itself.
    """

    def __init__(self, data: memoryview, origin: str, start: int = 0, *, tensors: bool = False) -> None:
        self.data = self.whole = data
        self.origin = origin
        self.at = start
        self.tensors = tensors
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, tuple[int, int]] = {}
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
        """Count bytes that a call copies; bytes of a file are copied at most a few times."""
        self._copied -= size
        if self._copied < 0:
            self.refuse("it copies the same contents again and again")

    def check_keys(self, keys: Iterable[Any]) -> None:
        """Refuse keys that cost much to hash or to compare."""
        for key in keys:
            if type(key) is not str:
                self._hashed -= self._price(key)
        if self._hashed < 0:
            self.refuse(f"it has more than {_HASHED} keys that are no texts")

    def _price(self, key: Any) -> int:
        if key is None or isinstance(key, bool | float | memoryview) or (type(key) is int and abs(key) < _INT_KEY):
            return 1
        if type(key) is Node and key.kind == "number":
            return 1
        if type(key) is Node and key.kind == "tuple" and len(key.value) <= 10 and key.depth < 2:
            return 10 + sum(self._price(item) for item in key.value if type(item) is not str)
        self.refuse("it uses something else than texts and numbers as keys")
