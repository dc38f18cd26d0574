"""The numbers of an observation of gymnasium: which parts a state holds, in which order, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.spaces import Dict as DictSpace
from gymnasium.spaces import Tuple as TupleSpace
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit_success.actor_settings import parts_in_words
from motionkit_success.environments.base import Environment, Floats

MOST = 1024  # numbers of a table, an array of two or more axes; a larger one is left out

Reader = Callable[[Any], Floats]


class Observed:
    """Reads the numbers of an observation, ``[S]`` float32, in the order of `gymnasium.spaces.flatten`.

    Vectors, single numbers, choices as one-hot vectors and tables of up to `MOST` numbers are read; so are Dict and
    Tuple of them. Pictures (uint8 of two or more axes), larger tables, Text, Sequence, Graph and other spaces are left
    out.
    """

    def __init__(
        self,
        space: Space[Any],
        hidden: Mapping[str, str] | None = None,  # parts that are left out in any case, with the reason: ``a/b``
    ) -> None:
        self._hidden = dict(hidden or {})
        self._readers: dict[str, Reader] = {}
        self.left_out: dict[str, str] = {}  # by part, what it is
        for name, way, leaf in _leaves(space, "", lambda seen: seen):
            reason = self._why_hidden(name) or _why_not(leaf)
            if reason:
                self.left_out[name or "observation"] = reason
            else:
                self._readers[name or "observation"] = _reader(leaf, way, name or "observation")

    def __call__(self, seen: Any) -> Floats:
        """Return the numbers of an observation."""
        parts = [read(seen) for read in self._readers.values()]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def widths(self, seen: Any) -> dict[str, int]:
        """Return the numbers of each part."""
        return {name: len(read(seen)) for name, read in self._readers.items()}

    def _why_hidden(self, name: str) -> str:
        return next((why for key, why in self._hidden.items() if name == key or name.startswith(f"{key}/")), "")


def _leaves(space: Space[Any], name: str, way: Callable[[Any], Any]) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """Yield the name of each part, a function that finds it in an observation, and its space."""
    keys: list[tuple[Any, Space[Any]]] = []
    if isinstance(space, DictSpace):
        keys = list(space.spaces.items())
    elif isinstance(space, TupleSpace):
        keys = list(enumerate(space.spaces))
    else:
        yield name, way, space
    for key, part in keys:
        below = f"{name}/{key}" if name else str(key)
        yield from _leaves(part, below, _entry_of(way, key))


def _entry_of(way: Callable[[Any], Any], key: Any) -> Callable[[Any], Any]:
    return lambda seen: way(seen)[key]


def _why_not(space: Space[Any]) -> str:
    """Return what a part is that is left out; empty if it is read."""
    shape = space.shape or ()
    if isinstance(space, (Discrete, MultiDiscrete)):
        return ""
    if not isinstance(space, (Box, MultiBinary)):
        return type(space).__name__.lower()
    if len(shape) < 2:
        return ""
    sides = " x ".join(map(str, shape))
    if isinstance(space, Box) and space.dtype == np.uint8:
        return f"a picture of {sides}"
    return "" if int(np.prod(shape)) <= MOST else f"a table of {sides}, more than {MOST:,} numbers"


def _reader(space: Space[Any], way: Callable[[Any], Any], name: str) -> Reader:
    if isinstance(space, Discrete):
        counts, starts = np.array([space.n], np.int64), np.array([space.start], np.int64)
    elif isinstance(space, MultiDiscrete):
        counts, starts = (np.asarray(values, np.int64).ravel() for values in (space.nvec, space.start))
    else:
        return lambda seen: as_array(way(seen)).astype(np.float32).ravel()
    begins, total = np.cumsum(counts) - counts, int(counts.sum())

    def one_hot(seen: Any) -> Floats:
        chosen = as_array(way(seen)).astype(np.int64).ravel() - starts
        if (chosen < 0).any() or (chosen >= counts).any():
            raise MotionkitError(
                f"the part {name} of an observation is {(chosen + starts).tolist()}.",
                why=f"its space is {space}.", fix="mend the environment.", code=1,
            )  # fmt: skip
        hot = np.zeros(total, np.float32)
        hot[begins + chosen] = 1
        return hot

    return one_hot


def as_array(value: Any) -> NDArray[Any]:
    """Return an array, or a tensor of any device, as an array; torch is not imported for it."""
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)


def observation_of(environment: Environment) -> dict[str, Any]:
    """Return what an environment shows of its observation, for ``run.json``; empty if it does not say."""
    parts, left_out = dict(environment.state_parts), dict(environment.left_out)
    return {"numbers": environment.state_size, "parts": parts, "left_out": left_out} if parts or left_out else {}


def observation_notes(environment: Environment) -> list[str]:
    """Return notes for the start of a run: what the state holds where parts are left out, and of the pictures."""
    notes, left_out = [], dict(environment.left_out)
    if left_out:
        state = parts_in_words(environment.state_size, environment.state_parts)
        odd = ", ".join(f"{name} ({what})" for name, what in left_out.items())
        notes.append(f"the state is {state}. Left out of the observation: {odd}.")
    return notes + list(environment.notes)
