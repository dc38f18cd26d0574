"""What a pickle may call: stand-ins that make what the real thing would, from what is written in the file only.

A few bytes can ask the real ones for gigabytes: ``bytearray(2 ** 33)``, an object array of 2 ** 33 items, a text
escaped thirty times over, one long list copied a thousand times.
"""

from __future__ import annotations

import builtins
import codecs
import collections
import math
from typing import Any

import numpy as np

_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_SCALAR: Any = np.float64(0.0).__reduce__()[0]
_LATIN = ("latin1", "latin-1")


class ExcessError(ValueError):
    """A pickle asks for more than it holds."""


class Array:
    """``numpy.ndarray`` as the argument that says what to reconstruct; it makes nothing by itself."""

    def __new__(cls, *arguments: Any) -> Array:
        """Refuse."""
        raise ExcessError("an array without contents.")


class Guards:
    """Stand-ins for one pickle.

    Args:
        size: Bytes of the file. What calls are given is written in it, and passed on at most a few times: a text that
            becomes bytes that become a bytearray that becomes an array.
    """

    def __init__(self, size: int) -> None:
        self._left = 4 * size

    def ordered_dict(self, items: Any = ()) -> Any:
        """``collections.OrderedDict``."""
        return collections.OrderedDict(self._charged(items))

    def default_dict(self, factory: Any = None, items: Any = ()) -> Any:
        """``collections.defaultdict``, without the function that it fills itself with."""
        return collections.defaultdict(None, self._charged(items))

    def set(self, items: Any = ()) -> Any:
        """``set``."""
        return builtins.set(self._charged(items))

    def frozenset(self, items: Any = ()) -> Any:
        """``frozenset``."""
        return builtins.frozenset(self._charged(items))

    def dict(self, items: Any = ()) -> Any:
        """``dict``."""
        return builtins.dict(self._charged(items))

    def list(self, items: Any = ()) -> Any:
        """``list``."""
        return builtins.list(self._charged(items))

    def bytes(self) -> Any:
        """``bytes``; old pickle protocols write empty ones so."""
        return b""

    def bytearray(self, data: Any = b"", encoding: str = "") -> Any:
        """``bytearray``, of bytes or of a text in Latin-1."""
        self._charged(data)
        if isinstance(data, str) and encoding in _LATIN:
            data = data.encode("latin-1")
        if not isinstance(data, builtins.bytes):
            raise ExcessError(f"bytearray of {type(data).__name__}, where bytes belong.")
        return builtins.bytearray(data)

    def encode(self, text: Any, encoding: str = "") -> Any:
        """``_codecs.encode``, as old pickle protocols write bytes."""
        self._charged(text)
        if not isinstance(text, str) or encoding not in _LATIN:
            raise ExcessError(f"a text encoded as {encoding[:40]!r}, where latin1 belongs.")
        return codecs.encode(text, "latin-1")

    def text(self, value: Any = "") -> Any:
        """``str``, of a text only."""
        return self._plain(value, str)

    def integer(self, value: Any = 0) -> Any:
        """``int``, of a number only."""
        return int(self._plain(value, int, float))

    def number(self, value: Any = 0.0) -> Any:
        """``float``, of a number, or of a text such as ``nan``."""
        return float(self._plain(value, int, float, str))

    def complex(self, real: Any = 0.0, imaginary: Any = 0.0) -> Any:
        """``complex``."""
        return builtins.complex(self._plain(real, int, float), self._plain(imaginary, int, float))

    def dtype(self, *arguments: Any) -> Any:
        """``numpy.dtype``."""
        return np.dtype(*arguments)

    def reconstruct(self, kind: Any, shape: Any, code: Any) -> Any:
        """``numpy...._reconstruct``: an empty array, which gets its contents afterwards."""
        if kind not in (Array, np.ndarray) or math.prod(shape) != 0:
            raise ExcessError(f"an array of shape {str(shape)[:60]} without contents.")
        return _RECONSTRUCT(np.ndarray, shape, code)

    def from_buffer(self, data: Any, dtype: Any, shape: Any, order: Any) -> Any:
        """``numpy...._frombuffer``: an array with its bytes, as pickle protocol 5 writes it."""
        return np.frombuffer(builtins.bytearray(self._charged(data)), dtype=dtype).reshape(shape, order=order)

    def scalar(self, dtype: Any, *data: Any) -> Any:
        """``numpy...scalar``: a number with its bytes."""
        if not data:
            raise ExcessError("a number without its bytes.")
        return _SCALAR(dtype, *data)

    def check_contents(self, state: Any) -> None:
        """Refuse contents of an array that are fewer than its shape; numpy takes memory for objects first."""
        shape, dtype, data = state[-4], state[-3], self._charged(state[-1])
        if dtype.hasobject and (not isinstance(data, builtins.list) or math.prod(shape) != len(data)):
            raise ExcessError(f"an array of shape {str(shape)[:60]} with other contents.")

    def _charged(self, items: Any) -> Any:
        self._left -= len(items)
        if self._left < 0:
            raise ExcessError("the same contents, copied again and again.")
        return items

    def _plain(self, value: Any, *kinds: type) -> Any:
        if not isinstance(value, kinds):
            raise ExcessError(f"{kinds[0].__name__} of {type(value).__name__}.")
        return value
