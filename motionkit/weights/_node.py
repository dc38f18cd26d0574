"""A stand-in for an object while the gate walks a pickle."""

from __future__ import annotations

from typing import Any


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
