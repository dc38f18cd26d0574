"""What a pickle may contain: numpy arrays and plain containers. Everything else is refused by name."""

from __future__ import annotations

import argparse
import codecs
import collections
import pickle
from typing import IO, Any

import numpy as np

from motionkit.errors import MotionkitError

_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_SCALAR: Any = np.float64(0.0).__reduce__()[0]

PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    ("argparse", "Namespace"): argparse.Namespace,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "dict"): dict,
    ("builtins", "list"): list,
    ("builtins", "int"): int,
    ("builtins", "float"): float,
    ("builtins", "str"): str,
    # Byte strings in old pickle protocols are written as an encoded text.
    ("_codecs", "encode"): codecs.encode,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
}
"""Names a pickle may refer to, with what they stand for."""


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


class PlainUnpickler(pickle.Unpickler):
    """Reads numpy arrays and plain containers; refuses any other name before it is imported.

    Args:
        file: Open binary file at the start of a pickle.
        origin: Name of the file for messages.
    """

    def __init__(self, file: IO[bytes], origin: str) -> None:
        super().__init__(file, encoding="latin1")
        self._origin = origin

    def find_class(self, module: str, name: str) -> Any:
        """Return the object for an admitted name."""
        module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
        if (module, name) not in PLAIN:
            raise refusal(f"{module}.{name}", self._origin)
        return PLAIN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Refuse references to data outside the pickle."""
        raise MotionkitError(f"{self._origin} refers to data outside itself.", why="it is not a plain pickle.")
