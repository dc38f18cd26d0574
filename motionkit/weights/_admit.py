"""What a pickle may contain: numpy arrays and plain containers. Everything else is refused by name."""

from __future__ import annotations

import argparse
import pickle
from typing import IO, Any, ClassVar

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.weights._guards import Array, Guards

_CALLED = {
    ("collections", "OrderedDict"): "ordered_dict",
    ("collections", "defaultdict"): "default_dict",
    ("builtins", "set"): "set",
    ("builtins", "frozenset"): "frozenset",
    ("builtins", "complex"): "complex",
    ("builtins", "bytes"): "bytes",
    ("builtins", "bytearray"): "bytearray",
    ("builtins", "dict"): "dict",
    ("builtins", "list"): "list",
    ("builtins", "int"): "integer",
    ("builtins", "float"): "number",
    ("builtins", "str"): "text",
    # Byte strings in old pickle protocols are written as an encoded text.
    ("_codecs", "encode"): "encode",
    ("numpy", "dtype"): "dtype",
    ("numpy.core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy._core.multiarray", "_reconstruct"): "reconstruct",
    ("numpy.core.numeric", "_frombuffer"): "from_buffer",
    ("numpy._core.numeric", "_frombuffer"): "from_buffer",
    ("numpy.core.multiarray", "scalar"): "scalar",
    ("numpy._core.multiarray", "scalar"): "scalar",
}
"""Names a pickle may call, with the method of `Guards` that is called instead."""

_NAMED = {("numpy", "ndarray"): Array, ("argparse", "Namespace"): argparse.Namespace}
"""Names a pickle may give as an argument, or make an empty object of."""


def numpy_names(size: int) -> list[tuple[Any, str]]:
    """Return what torch's own reader may call for numpy: objects and the names they stand for.

    Args:
        size: Bytes of the file.
    """
    guards = Guards(size)
    called = [
        (getattr(guards, method), f"{module}.{name}")
        for (module, name), method in _CALLED.items()
        if module.startswith("numpy") and name != "dtype"
    ]
    return [*called, (np.ndarray, "numpy.ndarray"), (np.dtype, "numpy.dtype")]


def refusal(name: str, origin: str) -> MotionkitError:
    """Return the error for a pickle that refers to `name`, which is not on the list."""
    module = name.rpartition(".")[0]
    runs = module.split(".")[0] in {"os", "posix", "nt", "subprocess", "builtins", "sys", "shutil", "socket", "runpy"}
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


class PlainUnpickler(pickle._Unpickler):
    """Reads numpy arrays and plain containers; refuses any other name before it is imported.

    It is the one in Python: the one in C takes memory for the largest number that a pickle gives one of its objects, so
    that nine bytes cost a gigabyte.

    Args:
        file: Open binary file at the start of a pickle.
        origin: Name of the file for messages.
        size: Bytes of the pickle, as they bound what it may ask for.
    """

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: IO[bytes], origin: str, size: int) -> None:
        super().__init__(file, encoding="latin1")
        self._origin = origin
        self._guards = Guards(size)

    def find_class(self, module: str, name: str) -> Any:
        """Return the object for an admitted name."""
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
        if (module, name) in _NAMED:
            return _NAMED[module, name]
        if (module, name) not in _CALLED:
            raise refusal(f"{module}.{name}", self._origin)
        return getattr(self._guards, _CALLED[module, name])

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to data outside the pickle."""
        raise MotionkitError(f"{self._origin} refers to data outside itself.", why="it is not a plain pickle.")

    def _build(self) -> None:
        """Do what ``BUILD`` asks, once an array's contents are known to fit its shape."""
        stack: list[Any] = self.stack  # type: ignore[attr-defined]
        if isinstance(stack[-2], np.ndarray):
            self._guards.check_contents(stack[-1])
        pickle._Unpickler.dispatch[pickle.BUILD[0]](self)  # type: ignore[arg-type]

    dispatch[pickle.BUILD[0]] = _build  # type: ignore[assignment]
