"""Discovery of plugins by entry points, one distribution at a time, so that a broken one does not hide the others.

The standard library's ``entry_points()`` loses every entry of every package when one package's metadata is
malformed. Reading each distribution by itself turns that into one warning that names the package and the file.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from motionkit.plugins._kinds import KINDS

HOME = "motionkit"
LIMIT_VARIABLE = "MOTIONKIT_PLUGINS"
_FILE = "entry_points.txt"


@dataclass(frozen=True)
class Entry:
    """One line of a distribution's entry points."""

    kind: str  # One of `KINDS`
    name: str  # Name of the plugin, unique in its distribution and kind
    value: str  # ``module:attribute`` of the `Component`
    distribution: str  # Name of the package that brings it
    version: str  # Version of that package

    @property
    def builtin(self) -> bool:
        """Whether motionkit itself brings it."""
        return self.distribution == HOME


@dataclass(frozen=True)
class Broken:
    """A distribution whose entry points cannot be read."""

    distribution: str  # Name of the package
    file: str  # Its malformed file
    problem: str  # Description of the fault

    def __str__(self) -> str:
        return f"package {self.distribution!r} is ignored: {self.problem} ({self.file})"


@dataclass(frozen=True)
class Scan:
    """Installed plugins: every entry, and every package that could not be read."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of `kind`, built-ins first, then by name."""
        return sorted((e for e in self.entries if e.kind == kind), key=lambda e: (not e.builtin, e.name))


def normalise(name: str) -> str:
    """Return a distribution name in the form in which two spellings of it compare equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def scan() -> Scan:
    """Read the entry points of every installed distribution that mentions motionkit; cached per environment."""
    return _scan(os.environ.get(LIMIT_VARIABLE), tuple(sys.path))


def forget() -> None:
    """Clear the cache of `scan`, after this process has installed a package."""
    _scan.cache_clear()


@lru_cache(maxsize=8)
def _scan(limit: str | None, path: tuple[str, ...]) -> Scan:
    allowed = None if limit is None else {normalise(part.strip()) for part in limit.split(",") if part.strip()}
    entries: list[Entry] = []
    broken: list[Broken] = []
    seen: set[str] = set()
    for distribution in metadata.distributions():
        folder = Path(str(getattr(distribution, "_path", "")))  # NAME-VERSION.dist-info; it has no public name
        name, text, found, problem = normalise(folder.name.partition("-")[0]) or "unknown", "", [], ""
        try:
            text = distribution.read_text(_FILE) or ""
            if HOME not in text:
                continue
            name = distribution.metadata["Name"] or name
            found = _entries(distribution, name, distribution.metadata["Version"] or "?")
        except Exception as error:  # whatever the metadata of a foreign package does, it must not reach the others
            problem = _problem(error, text)
        if normalise(name) in seen or (allowed is not None and name != HOME and normalise(name) not in allowed):
            continue
        seen.add(normalise(name))
        entries += found
        if problem:
            broken.append(Broken(name, str(folder / _FILE), problem))
    return Scan(tuple(entries), tuple(broken))


def _entries(distribution: metadata.Distribution, name: str, version: str) -> list[Entry]:
    found = []
    for point in distribution.entry_points:
        group, _, kind = point.group.partition(".")
        if group == HOME and kind in KINDS:
            found.append(Entry(kind, point.name, point.value, name, version))
    return found


def _problem(error: Exception, text: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare and not bare.startswith(("#", ";", "[")) and "=" not in bare:
            return f"line {number} of its entry points is not 'name = module:attribute': {bare!r}"
    return f"its entry points cannot be read: {error}"
