"""Something happens at the N-th call to the file system: a kill, a second Ctrl-C, a full disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CALLS = ("mkdir", "open", "fsync", "rename", "replace", "unlink", "rmdir", "chmod")
"""Functions of `os` that saving, pruning and recording go through; pathlib and shutil look them up at each call."""


class Faults:
    """Counts calls to the file system, and acts in place of one of them.

    Args:
        when: Which call, from 1; 0 only counts.
        action: What happens then; the call itself is not made.

    Attributes:
        seen: The calls so far, such as ``rename step-00000002``.
    """

    def __init__(self, when: int, action: Callable[[], None]) -> None:
        self.seen: list[str] = []
        self._when, self._action = when, action

    def wrap(self, name: str) -> Callable[..., object]:
        """Return ``os.<name>``, counted."""
        original: Callable[..., object] = getattr(os, name)

        def counted(*arguments: object, **options: object) -> object:
            self.seen.append(f"{name} {Path(str(arguments[0])).name}")
            if len(self.seen) == self._when:
                self._action()
            return original(*arguments, **options)

        return counted


@contextmanager
def faults(when: int, action: Callable[[], None]) -> Iterator[Faults]:
    """Count the calls of the block, and let the `when`-th of them be `action` instead."""
    found = Faults(when, action)
    originals = {name: getattr(os, name) for name in CALLS}
    try:
        for name in CALLS:
            setattr(os, name, found.wrap(name))
        yield found
    finally:
        for name, original in originals.items():
            setattr(os, name, original)
