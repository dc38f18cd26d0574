"""Find plugins: entry points, read one distribution at a time so that a broken one cannot hide the others.

The standard library's ``entry_points()`` loses every entry of every package when one package's metadata is
malformed. Reading each distribution by itself turns that into one warning that names the package and the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

KINDS = ("rewards", "trainers", "datasets", "environments", "policies")
HOME = "motionkit"
LIMIT_VARIABLE = "MOTIONKIT_PLUGINS"

# ``import torch`` and ``import pydantic`` look for extensions of their own with ``entry_points()``, which fails as a
# whole when any installed package is malformed, one that has nothing to do with motionkit included. These variables
# switch those searches off, so that one broken package does not stop every command.
SHIELD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYDANTIC_DISABLE_PLUGINS": "__all__"}


@dataclass(frozen=True)
class Entry:
    """One line of a distribution's entry points.

    Attributes:
        kind: One of `KINDS`.
        name: Name of the plugin, unique in its distribution and kind.
        value: ``module:attribute`` of the `Component`.
        distribution: Name of the package that brings it.
        version: Version of that package.
    """

    kind: str
    name: str
    value: str
    distribution: str
    version: str

    @property
    def builtin(self) -> bool:
        """Whether motionkit itself brings it."""
        return self.distribution == HOME


@dataclass(frozen=True)
class Broken:
    """A distribution whose entry points cannot be read.

    Attributes:
        distribution: Name of the package.
        file: Its malformed file.
        problem: What is wrong, in words.
    """

    distribution: str
    file: str
    problem: str

    def __str__(self) -> str:
        return f"package {self.distribution!r} is ignored: {self.problem} ({self.file})"


@dataclass(frozen=True)
class Scan:
    """What is installed: every entry, and every package that could not be read."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of `kind`, built-ins first, then by name."""
        return sorted((e for e in self.entries if e.kind == kind), key=lambda e: (not e.builtin, e.name))


def normalise(name: str) -> str:
    """Return a distribution name in the form in which two spellings of it compare equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def scan() -> Scan:
    """Read the entry points of every installed distribution that mentions motionkit; cached per environment.

    When any installed package is malformed, the environment variables of `SHIELD` are set for this process.
    """
    return _scan(os.environ.get(LIMIT_VARIABLE), tuple(sys.path))


def forget() -> None:
    """Drop what `scan` remembers, after a package was installed by this very process."""
    _scan.cache_clear()


@lru_cache(maxsize=8)
def _scan(limit: str | None, path: tuple[str, ...]) -> Scan:
    allowed = None if limit is None else {normalise(part.strip()) for part in limit.split(",") if part.strip()}
    entries: list[Entry] = []
    broken: list[Broken] = []
    seen: set[str] = set()
    for distribution, text in _with_entry_points():
        if HOME not in text:
            if not _readable(distribution):
                _shield()
            continue
        name = _name(distribution)
        if normalise(name) in seen or (allowed is not None and name != HOME and normalise(name) not in allowed):
            continue
        seen.add(normalise(name))
        try:
            version = distribution.version
            entries += _entries(distribution, name, version)
        except Exception as error:  # whatever a foreign package's metadata does, it must not reach the others
            broken.append(Broken(name, _file(distribution), _problem(error, text)))
            _shield()
    return Scan(tuple(entries), tuple(broken))


def _with_entry_points() -> Iterator[tuple[metadata.Distribution, str]]:
    for distribution in metadata.distributions():
        try:
            text = distribution.read_text("entry_points.txt")
        except (OSError, UnicodeError) as error:
            text = f"{HOME}: unreadable ({error})"
        if text:
            yield distribution, text


def _readable(distribution: metadata.Distribution) -> bool:
    try:
        tuple(distribution.entry_points)
    except Exception:  # whatever it is, torch and pydantic would meet it too
        return False
    return True


def _shield() -> None:
    for name, value in SHIELD.items():
        os.environ.setdefault(name, value)


def _entries(distribution: metadata.Distribution, name: str, version: str) -> list[Entry]:
    found = []
    for point in distribution.entry_points:
        group, _, kind = point.group.partition(".")
        if group == HOME and kind in KINDS:
            found.append(Entry(kind, point.name, point.value, name, version))
    return found


def _name(distribution: metadata.Distribution) -> str:
    try:
        name = distribution.metadata["Name"]
    except Exception:  # same reason as above
        name = None
    return name or Path(_file(distribution)).parent.name.removesuffix(".dist-info") or "unknown"


def _file(distribution: metadata.Distribution) -> str:
    # The folder of a distribution has no public name; `locate_file` is relative to its parent.
    folder = getattr(distribution, "_path", None)
    return str(Path(str(folder)) / "entry_points.txt") if folder is not None else "entry_points.txt"


def _problem(error: Exception, text: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare and not bare.startswith(("#", ";", "[")) and "=" not in bare:
            return f"line {number} of its entry points is not 'name = module:attribute': {bare!r}"
    return f"its entry points cannot be read: {error}"
