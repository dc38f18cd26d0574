"""Diagnosis of installed plugins: malformed metadata, imports that fail, and entries that two readers disagree on.

The parser of the ``entrypoints`` package names the file and the line of a fault, which the standard library's does not.
It also reads all entries a second time, independently, so that a fault in our own discovery is found.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import entrypoints

from motionkit.errors import MotionkitError, did_you_mean
from motionkit.plugins._discovery import HOME, LIMIT_VARIABLE, Entry, normalise, scan
from motionkit.plugins._kinds import KINDS
from motionkit.plugins._lookup import INSTALL_FIX, NOT_INSTALLED, find, hidden
from motionkit.plugins.check import ImportOutcome, try_imports


@dataclass(frozen=True)
class PackageFault:
    """One fault, or one oddity."""

    package: str  # The package it concerns
    text: str  # Description, with file and line where there is one
    serious: bool  # Whether motionkit is affected; a malformed package that is no plugin is only odd
    optional: bool = False  # Whether it is only that a plugin needs a package that is not installed


def diagnose(imports: Mapping[Entry, ImportOutcome] | None = None) -> list[PackageFault]:
    """Return all faults of the installed plugins.

    Args:
        imports: Result of importing each plugin's light half; None imports them now.
    """
    second, malformed = second_reading()
    if not any(e.builtin for e in scan().entries) and all(finding.package != HOME for finding in malformed):
        return [PackageFault(HOME, f"{NOT_INSTALLED} {INSTALL_FIX}", True)]
    found = list(malformed)
    known = {finding.package for finding in malformed}
    found += [
        PackageFault(b.distribution, str(b), True) for b in scan().broken if normalise(b.distribution) not in known
    ]
    found += _differences(second, known)
    imports = try_imports(scan().entries) if imports is None else imports
    for entry in scan().entries:
        found += _check(entry, imports.get(entry, ImportOutcome()))
    return found


def second_reading() -> tuple[set[tuple[str, str, str]], list[PackageFault]]:
    """Read all entry points with the ``entrypoints`` package, one file at a time.

    Returns:
        (kind, name, value) of every motionkit entry, and a finding for each file that does not parse.
    """
    entries: set[tuple[str, str, str]] = set()
    findings: list[PackageFault] = []
    seen: set[str] = set()
    for path in _metadata_files():
        package = normalise(entrypoints.Distribution.from_name_version(path.parent.stem).name)
        if package in seen:
            continue
        seen.add(package)
        parser = entrypoints.CaseSensitiveConfigParser(delimiters=("=",))
        text = HOME  # a file that cannot be read may belong to a plugin
        try:
            text = path.read_bytes().decode("utf-8", "replace")
            parser.read_string(path.read_text(encoding="utf-8"), str(path))
            for kind in KINDS:
                section = f"{HOME}.{kind}"
                if section in parser:
                    for name, text in parser[section].items():
                        entries.add((kind, name, text.strip()))
            findings += [PackageFault(package, _unknown_group(group), True) for group in parser if _is_unknown(group)]
        except (configparser.Error, ValueError, OSError) as error:
            findings.append(PackageFault(package, _in_words(error, path), HOME in text))
    return entries, findings


def _is_unknown(group: str) -> bool:
    home, _, kind = group.partition(".")
    return home == HOME and bool(kind) and kind not in KINDS


def _unknown_group(group: str) -> str:
    groups = [f"{HOME}.{kind}" for kind in KINDS]
    hint = did_you_mean(group, groups) or f"one of: {', '.join(groups)}"
    return f"its entry points have the group {group}, which motionkit does not read; {hint}"


def _metadata_files() -> Iterator[Path]:
    for folder in dict.fromkeys(sys.path):
        place = Path(folder or ".")
        if place.is_dir():
            for pattern in ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"):
                yield from sorted(place.glob(pattern))


def _in_words(error: Exception, path: Path) -> str:
    # Error texts of the parser span lines; `ParsingError.errors` holds (line number, repr of the line).
    lines = getattr(error, "errors", None)
    if lines:
        number, line = lines[0]
        return f"{path}, line {number}: {line} is not 'name = module:attribute'"
    number = getattr(error, "lineno", None)
    where = f"{path}, line {number}" if number else str(path)
    return f"{where}: {' '.join(str(error).split())}"


def _differences(second: set[tuple[str, str, str]], known: set[str]) -> list[PackageFault]:
    if os.environ.get(LIMIT_VARIABLE) is not None:  # our reading is limited on purpose
        return []
    first = {(e.kind, e.name, e.value): e for e in scan().entries if normalise(e.distribution) not in known}
    found = []
    for key, entry in first.items():
        if key not in second:
            text = f"{entry.kind} {entry.name!r} is seen by importlib.metadata and not by entrypoints"
            found.append(PackageFault(entry.distribution, text, True))
    for kind, name, value in sorted(second - set(first)):
        text = f"{kind} {name!r} = {value!r} is seen by entrypoints and not by importlib.metadata"
        found.append(PackageFault("unknown", text, True))
    return found


def _check(entry: Entry, outcome: ImportOutcome) -> list[PackageFault]:
    try:
        find(entry.kind, entry.name)
    except MotionkitError as error:
        return [PackageFault(entry.distribution, str(error), True)]
    odd = [PackageFault(entry.distribution, hidden()[entry], False)] if entry in hidden() else []
    what = f"{entry.kind} {entry.name!r}"
    if outcome.problem:
        return [*odd, PackageFault(entry.distribution, f"{what}: {outcome.problem}", True)]
    if outcome.note:
        odd = [*odd, PackageFault(entry.distribution, f"{what}: {outcome.note}", False)]
    if outcome.missing:
        text = f"{what} needs {', '.join(outcome.missing)}, which is not installed"
        return [*odd, PackageFault(entry.distribution, text, False, optional=True)]
    return odd
