"""The numbers of an observation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.spaces import Dict as DictSpace

from motionkit.environments.base import Floats

Reader = Callable[[Any], Floats]


def state_reader(space: Space[Any]) -> Reader:
    """Return how to read the numbers of an observation: ``[S]`` float32.

    Vectors and single numbers count, choices as one of n; tables are read entry by entry, in the order of the space.
    Pictures and all else are left out.
    """
    readers = list(_readers(space))
    if not readers:
        return lambda _: np.zeros(0, np.float32)
    return lambda seen: np.concatenate([read(seen) for read in readers])


def _readers(space: Space[Any]) -> Iterator[Reader]:
    if isinstance(space, DictSpace):
        for name, part in space.spaces.items():
            for read in _readers(part):
                yield lambda seen, name=name, read=read: read(seen[name])  # type: ignore[misc]
    elif isinstance(space, Box) and len(space.shape) <= 1:
        yield lambda seen: np.atleast_1d(np.asarray(seen, np.float32))
    elif isinstance(space, Discrete):
        count, first = int(space.n), int(space.start)
        yield lambda seen: np.eye(count, dtype=np.float32)[int(seen) - first]
