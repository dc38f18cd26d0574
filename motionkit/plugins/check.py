"""Check installed plugins: import them, check the contract of their kind, and diagnose the installation.

`try_imports` and `try_builds` serve ``plugins list --check`` and `doctor`. A plugin that raises any exception is
reported by name; one that ends the process or hangs does so here too. `diagnose` collects faults: malformed metadata,
failing imports, and entries on which two readers of entry points disagree.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError, did_you_mean
from motionkit.plugins._complete import missing, required_of
from motionkit.plugins._component import Component, attribute_of
from motionkit.plugins._discovery import (
    HOME,
    INSTALL_FIX,
    KINDS,
    LIMIT_VARIABLE,
    OBJECTS,
    OF_KINDS,
    Entry,
    either,
    normalise,
    scan,
)
from motionkit.plugins._guard import PluginError, in_words, is_stop
from motionkit.plugins._lookup import (
    NOT_INSTALLED,
    check_of,
    find,
    get,
    gives_of,
    hidden,
    reads_of,
    with_article,
)

_MANY = 3  # names that a sentence lists


@dataclass(frozen=True)
class ImportOutcome:
    """Result of importing one plugin."""

    problem: str = ""  # Description of the failure; empty if it imports
    missing: tuple[str, ...] = ()  # Modules that its heavy half needs and that are not installed
    options: tuple[str, ...] = ()  # Names of its options
    gives: str = ""  # What it gives; see `motionkit.plugins.KINDS`
    reads: str = ""  # What it reads
    note: str = ""  # Why its heavy half could not be checked further


def try_imports(entries: Sequence[Entry]) -> dict[Entry, ImportOutcome]:
    """Import the light half of each entry; return the result by entry."""
    return {entry: _import(entry) for entry in entries}


def try_builds(entries: Sequence[Entry]) -> dict[Entry, ImportOutcome]:
    """Import and check both halves of each entry; plugins of other packages are also built and run as in a test.

    Returns:
        The result by entry; the heavy half is skipped if the light one does not import or a package is missing.
    """
    outcomes = try_imports(entries)
    for entry, outcome in outcomes.items():
        if not outcome.problem and not outcome.missing:
            problem, note = _examine(entry)
            outcomes[entry] = replace(outcome, problem=problem, note=note)
    return outcomes


def _import(entry: Entry) -> ImportOutcome:
    try:
        component = get(entry.kind, f"{entry.distribution}:{entry.name}")
        return ImportOutcome(
            missing=tuple(component.missing()),
            options=tuple(component.options.model_fields),
            gives=gives_of(entry.kind, component),
            reads=reads_of(entry.kind, component),
        )
    except MotionkitError as error:
        return ImportOutcome(str(error))


def _examine(entry: Entry) -> tuple[str, str]:
    """Return what is wrong with the heavy half, and why it could not be checked further; each may be empty."""
    kind, name = entry.kind, f"{entry.distribution}:{entry.name}"
    try:
        component = get(kind, name)
        factory = component.load()
        if wrong := _misfit(kind, component, factory):
            return wrong, ""
        return _contract(kind, name) if not entry.builtin and KINDS[kind].alone else ("", "")
    except MotionkitError as error:
        return error.message.rstrip("."), ""
    except BaseException as error:  # a plugin may raise anything
        if is_stop(error):
            raise
        return in_words(error), ""


def _misfit(kind: str, component: Component, factory: Any) -> str:
    """Return why a component's factory does not fit its kind; empty if it does."""
    row = KINDS[kind]
    if component.gives and component.gives not in row.gives:
        return f"it gives {component.gives!r}; {kind} give {either(map(repr, row.gives))}"
    if component.reads and component.reads not in row.reads:
        return f"it reads {component.reads!r}; {kind} read {either(map(repr, row.reads)) or 'nothing'}"
    if not callable(factory):
        return f"its factory {component.factory} is a {type(factory).__name__}, which cannot be called"
    if not isinstance(factory, type):
        return ""
    methods = _methods(row.gives.get(gives_of(kind, component), ""))
    if lacking := [method.removesuffix("()") for method in missing(factory, methods)]:
        listed = ", ".join(lacking[:_MANY]) + (f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else "")
        return (
            f"{component.factory} is not {with_article(row.singular)}: it has no {listed}{_other_kind(kind, factory)}"
        )
    try:
        inspect.signature(factory).bind(None, **dict.fromkeys(row.runtime))
    except TypeError as error:
        called = ", ".join(["options", *(f"{word}=..." for word in row.runtime)])
        return f"{component.factory} cannot be called as motionkit calls it, ({called}): {error}"
    except ValueError:  # no signature to look at
        return ""
    return ""


def _other_kind(kind: str, factory: type) -> str:
    """Return a hint at the kind that a class seems to belong to."""
    for candidate, row in KINDS.items():
        for protocol in dict.fromkeys(row.gives.values()):
            methods = _methods(protocol)
            if candidate != kind and methods and not missing(factory, methods):
                return f"; it looks like {with_article(row.singular)}, whose group is {HOME}.{candidate}"
    return ""


def _methods(protocol: str) -> list[str]:
    cls = attribute_of(protocol) if protocol else object
    required = required_of(cls)
    return [word for word in vars(cls) if word in required]


def _contract(kind: str, name: str) -> tuple[str, str]:
    """Run the contract check of a kind, or of what the plugin gives, with its default options."""
    check = check_of(kind, get(kind, name))
    if not check:
        return "", ""  # nothing is known of what it gives
    module, _, function = check.partition(":")
    runtime = {"dataset": _small_dataset()} if kind == "rewards" else {}
    try:
        getattr(importlib.import_module(module), function)(name, **runtime)
    except AssertionError as error:
        lines = [line.removeprefix("- ") for line in str(error).splitlines() if line.startswith("- ")]
        return (" ".join(lines) or in_words(error)).rstrip("."), ""
    except PluginError as error:
        return error.message, ""
    except MotionkitError as error:
        return "", f"it was not built: {error.message}"
    except ValueError as error:  # a required option
        return "", f"it was not built with its default options: {' '.join(str(error).split())}"
    return "", ""


def _small_dataset() -> Any:
    """Return a few starter clips, for plugins that need a dataset."""
    component = get("datasets", f"{HOME}:starter")
    few = {"clips": 8, "val_clips": 8, "test_clips": 8, "prompts": 8, "cache": False}
    return component.build(component.options.model_validate(few))


@dataclass(frozen=True)
class PackageFault:
    """A fault of a package, or an oddity."""

    package: str
    text: str  # Description, with file and line if known
    serious: bool  # Whether motionkit is affected; a malformed package that is not a plugin is only odd
    optional: bool = False  # Whether a plugin just lacks a package that it needs


def diagnose(imports: Mapping[Entry, ImportOutcome] | None = None) -> list[PackageFault]:
    """Return all faults of the installed plugins.

    Args:
        imports: Result of importing each plugin's light half; None imports them now.
    """
    second, malformed = second_reading()
    if not any(e.builtin for e in scan().entries) and all(finding.package != HOME for finding in malformed):
        return [PackageFault(HOME, f"{NOT_INSTALLED} {INSTALL_FIX}", True)]
    faults = list(malformed)
    reported = {finding.package for finding in malformed}
    faults += [
        PackageFault(b.distribution, str(b), True) for b in scan().broken if normalise(b.distribution) not in reported
    ]
    faults += _differences(second, reported)
    imports = try_imports(scan().entries) if imports is None else imports
    for entry in scan().entries:
        faults += _check(entry, imports.get(entry, ImportOutcome()))
    return faults


def second_reading() -> tuple[set[tuple[str, str, str]], list[PackageFault]]:
    """Read all entry points with the ``entrypoints`` package, one file at a time.

    Its parser names the file and the line of a fault, unlike the standard library's. It also reads all entries a second
    time, independently, which shows faults of the discovery.

    Returns:
        (kind, name, value) of every motionkit entry, and a finding for each file that does not parse.
    """
    import configparser

    import entrypoints

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
    return home == HOME and bool(kind) and kind not in (OF_KINDS, *OBJECTS, *KINDS)


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
    # Some errors of the parser have a line.
    number = getattr(error, "lineno", None)
    place = f"{path}, line {number}" if number else str(path)
    return f"{place}: {' '.join(str(error).split())}"


def _differences(second: set[tuple[str, str, str]], reported: set[str]) -> list[PackageFault]:
    if os.environ.get(LIMIT_VARIABLE) is not None:  # discovery is limited on purpose
        return []
    first = {(e.kind, e.name, e.value): e for e in scan().entries if normalise(e.distribution) not in reported}
    faults = []
    for key, entry in first.items():
        if key not in second:
            text = f"{entry.kind} {entry.name!r} is seen by importlib.metadata and not by entrypoints"
            faults.append(PackageFault(entry.distribution, text, True))
    for kind, name, value in sorted(second - set(first)):
        text = f"{kind} {name!r} = {value!r} is seen by entrypoints and not by importlib.metadata"
        faults.append(PackageFault("unknown", text, True))
    return faults


def _check(entry: Entry, outcome: ImportOutcome) -> list[PackageFault]:
    try:
        find(entry.kind, entry.name)
    except MotionkitError as error:
        return [PackageFault(entry.distribution, str(error), True)]
    odd = [PackageFault(entry.distribution, hidden()[entry], False)] if entry in hidden() else []
    subject = f"{entry.kind} {entry.name!r}"
    if outcome.problem:
        return [*odd, PackageFault(entry.distribution, f"{subject}: {outcome.problem}", True)]
    if outcome.note:
        odd = [*odd, PackageFault(entry.distribution, f"{subject}: {outcome.note}", False)]
    if outcome.missing:
        text = f"{subject} needs {', '.join(outcome.missing)}, which is not installed"
        return [*odd, PackageFault(entry.distribution, text, False, optional=True)]
    return odd
