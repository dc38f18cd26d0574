"""The kinds of plugins, and the discovery of plugins by entry points, so that a broken one does not hide the others.

`KINDS` has a row for each kind: those that several systems share, and those that packages bring (``motionkit.kinds``),
whose rows also add words to kinds that are there. `scan` reads the entry points of one distribution at a time:
``entry_points()`` of the standard library loses the entries of all packages if the metadata of one is malformed.
Reading each distribution separately turns that into one warning that names the package and the file.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.plugins import packages
from motionkit.plugins._guard import in_words, is_stop

HOME = "motionkit"
LIMIT_VARIABLE = "MOTIONKIT_PLUGINS"
INSTALL_FIX = "pip install -c constraints.txt -r packages.txt   (in the folder of motionkit)"
OF_KINDS = "kinds"
"""The entry-point group ``motionkit.kinds``: a package's tuple of `Kind` rows, which it brings or adds words to."""

_FILE = "entry_points.txt"


@dataclass(frozen=True)
class Kind:
    """One kind of plugin: a row of the table that discovery, lookup, help and `motionkit plugins` use.

    Protocols and checks are named, not imported, so that this module stays light.
    """

    name: str  # Its name, plural; the entry-point group is ``motionkit.NAME``
    # Its name, singular, in messages and in ``plugins new SINGULAR``; empty in a row that adds to a kind.
    singular: str = ""
    # What components of this kind can give, each word with its protocol as ``module:Class``; empty if no protocol is
    # defined. A component that names no word gives the first.
    gives: Mapping[str, str] = field(default_factory=dict)
    # What components can read, each word with the class of that record. The first is the default here, too.
    reads: Mapping[str, str] = field(default_factory=dict)
    runtime: tuple[str, ...] = ()  # Names of the factory's keyword arguments, after the options
    check: str = ""  # The contract check as ``module:function``; empty if there is only `check_component`
    # Those of plugins that give another word than the first of `gives`, by that word.
    checks: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False  # Whether `check` can build a plugin from its name and its default options
    # The package that ``motionkit plugins new`` copies, as ``module:PACKAGE`` in ``templates/`` of that module; empty
    # if there is none.
    scaffold: str = ""
    # Those of plugins that give another word than the first of `gives`, by that word.
    scaffolds: Mapping[str, str] = field(default_factory=dict)
    # Turns a plain function ``./file.py:name`` into a plugin, as ``module:attribute``; empty if not supported.
    function: str = ""
    weighted: bool = False  # Whether several can be chosen together, each with a weight
    question: str = ""  # Help of a slot of this kind; empty for "Which NAME to use."
    note: str = ""  # Why no plugin of this kind can be written yet; empty for all others
    after: str = ""  # The kind that it follows in listings; empty for the end


_ROWS = (
    Kind(
        "rewards",
        "reward",
        gives={"reward": "motionkit.contracts.reward:Reward"},
        reads={
            "motion": "motionkit.motion:MotionBatch",
            "image": "motionkit.contracts.reward:FrameBatch",
            "mask": "motionkit.contracts.reward:MaskBatch",
            "text": "motionkit.contracts.reward:TextBatch",
            "step": "motionkit.contracts.reward:StepBatch",
        },
        runtime=("dataset", "device"),
        check="motionkit.testing:check_reward",
        alone=True,
        scaffold="motionkit.plugins:motionkit-reward-demo",
        weighted=True,
        question="What to reward, repeatable.",
    ),
    Kind(
        "trainers",
        "trainer",
        gives={"trainer": "motionkit.training.base:Trainer"},
        check="motionkit.testing:check_trainer",
        scaffold="motionkit.plugins:motionkit-trainer-demo",
    ),
    Kind(
        "datasets",
        "dataset",
        gives={
            "text-motion": "motionkit.contracts.dataset:TextMotionDataset",
            "composite": "motionkit.contracts.dataset:TextMotionDataset",  # clips and prompts of several actions
        },
        check="motionkit.testing:check_dataset",
        alone=True,
        scaffold="motionkit.plugins:motionkit-dataset-demo",
    ),
    Kind(
        "protocols",
        "protocol",
        gives={"result": "motionkit.contracts.protocol:EvaluationProtocol"},
        reads={
            "model": "",  # any argument of its command; the protocol opens it
            "diffusion": "",
        },
        runtime=("console",),
        check="motionkit.testing:check_protocol",
        scaffold="motionkit.plugins:motionkit-protocol-demo",
        question="Which protocol to measure by.",
    ),
    Kind(
        "policies",
        "policy",
        gives={"diffusion": ""},
        runtime=("device", "dataset"),
        check="motionkit.testing:check_policy",
        alone=True,
        scaffold="motionkit.plugins:motionkit-policy-demo",
    ),
)
"""The kinds that several systems share."""

OBJECTS: Mapping[str, Kind] = {
    row.name: row
    for row in (
        Kind("commands", "command"),
        Kind("answers", "answer"),
        Kind("formats", "format", scaffold="motionkit.plugins:motionkit-format-demo"),
    )
}
"""Groups whose entries name an object that is no `Component`."""


class _Kinds(Mapping[str, Kind]):
    """Every kind by its name: those above, and those of the installed packages."""

    def __getitem__(self, name: str) -> Kind:
        return scan().kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(scan().kinds)

    def __len__(self) -> int:
        return len(scan().kinds)


KINDS: Mapping[str, Kind] = _Kinds()
"""Every kind by its name, in the order of listings."""


def joined(rows: Iterable[Kind]) -> dict[str, Kind]:
    """Return kinds by name: of several rows with one name the words are joined, and texts that are empty filled in."""
    found: dict[str, Kind] = {}
    for row in rows:
        if row.name in found:
            found[row.name] = _together(found[row.name], row)
            continue
        names = list(found)
        place = names.index(row.after) + 1 if row.after in found else len(names)
        found = {name: found.get(name, row) for name in [*names[:place], row.name, *names[place:]]}
    return found


def _together(first: Kind, more: Kind) -> Kind:
    changes: dict[str, object] = {}
    for item in fields(Kind):
        old, new = getattr(first, item.name), getattr(more, item.name)
        if isinstance(old, Mapping):  # the words of the first come first: a component that names none gives the first
            changes[item.name] = {word: old.get(word) or new.get(word, "") for word in {**old, **new}}
        else:
            changes[item.name] = old or new
    return replace(first, **changes)  # type: ignore[arg-type]


def either(words: Iterable[str]) -> str:
    """Return words as a choice: ``a, b or c``.

    Example:
        >>> either(["motion", "mask", "text"])
        'motion, mask or text'
    """
    *most, last = [*words] or [""]
    return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True)
class Entry:
    """One line of a distribution's entry points."""

    kind: str  # One of `KINDS` or `OBJECTS`
    name: str  # Name of the plugin, unique in its distribution and kind
    value: str  # ``module:attribute`` of the `Component`, or of the object
    distribution: str  # Name of its package
    version: str  # Version of that package

    @property
    def builtin(self) -> bool:
        """Whether it is part of motionkit or of one of its own packages."""
        return normalise(self.distribution) in packages.names()


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
    """Installed plugins: every entry, every package that could not be read, and the kinds."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]
    kinds: Mapping[str, Kind]
    objects: tuple[Entry, ...] = ()  # Those of `OBJECTS`, which are no plugins

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of `kind`, built-ins first, then by name."""
        entries = self.objects if kind in OBJECTS else self.entries
        return sorted((e for e in entries if e.kind == kind), key=lambda e: (not e.builtin, e.name))


@lru_cache(maxsize=1024)
def normalise(name: str) -> str:
    """Return a distribution name in normalised form (PEP 503)."""
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
        folder = Path(str(getattr(distribution, "_path", "")))  # NAME-VERSION.dist-info; there is no public attribute
        name, text, parsed, problem = normalise(folder.name.partition("-")[0]) or "unknown", "", [], ""
        try:
            text = distribution.read_text(_FILE) or ""
            if HOME not in text:
                continue
            name = distribution.metadata["Name"] or name
            parsed = _entries(distribution, name, distribution.metadata["Version"] or "?")
        except Exception as error:  # malformed metadata of one package must not affect the others
            problem = _problem(error, text)
        if normalise(name) in seen or (allowed is not None and normalise(name) not in packages.names() | allowed):
            continue
        seen.add(normalise(name))
        entries += parsed
        if problem:
            broken.append(Broken(name, str(folder / _FILE), problem))
    rows: list[Kind] = [*_ROWS]
    for entry in sorted((e for e in entries if e.kind == OF_KINDS), key=lambda e: (not e.builtin, e.name)):
        try:
            rows += _rows_of(entry)
        except BaseException as error:  # a plugin may fail in any way while it is imported
            if is_stop(error):
                raise
            problem = f"its kinds of plugins cannot be read: {in_words(error)}"
            broken.append(Broken(entry.distribution, entry.value, problem))
    groups = {entry.kind for entry in entries if entry.distribution == HOME}
    if groups and not {OF_KINDS, "formats"} <= groups:
        raise MotionkitError("the installation of motionkit is older than its code.", fix=INSTALL_FIX)
    kinds = joined(rows)
    objects = tuple(e for e in entries if e.kind in OBJECTS)
    return Scan(tuple(e for e in entries if e.kind in kinds), tuple(broken), kinds, objects)


def _rows_of(entry: Entry) -> tuple[Kind, ...]:
    """Import the rows that a package brings."""
    module, _, attribute = entry.value.partition(":")
    rows = tuple(getattr(importlib.import_module(module), attribute))
    if odd := [row for row in rows if not isinstance(row, Kind)]:
        raise TypeError(f"a {type(odd[0]).__name__} is no motionkit.plugins.Kind")
    return rows


def _entries(distribution: metadata.Distribution, name: str, version: str) -> list[Entry]:
    entries = []
    for point in distribution.entry_points:
        group, _, kind = point.group.partition(".")
        if group == HOME:
            entries.append(Entry(kind, point.name, point.value, name, version))
    return entries


def _problem(error: Exception, text: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare and not bare.startswith(("#", ";", "[")) and "=" not in bare:
            return f"line {number} of its entry points is not 'name = module:attribute': {bare!r}"
    return f"its entry points cannot be read: {error}"
