"""Import installed plugins and check them against what their kind promises, for ``plugins list --check`` and `doctor`.

A plugin that raises is reported by name, whatever it raises. One that ends the process or hangs does so here too.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.plugins._component import Component
from motionkit.plugins._discovery import HOME, Entry
from motionkit.plugins._guard import PluginError, in_words, is_stop
from motionkit.plugins._kinds import KINDS, either
from motionkit.plugins._lookup import available, get

# Whether a plugin fits a slot: what it gives against what the command takes, or what it reads against what is made.


def gives_of(kind: str, component: Component) -> str:
    """Return what a component gives: its own word, or the first of its kind."""
    return component.gives or next(iter(KINDS[kind].gives), "")


def reads_of(kind: str, component: Component) -> str:
    """Return what a component reads: its own word, or the first of its kind; empty where the kind reads nothing."""
    return component.reads or next(iter(KINDS[kind].reads), "")


def fitting(kind: str, *, gives: Collection[str] = (), reads: Collection[str] = (), certain: bool = False) -> list[str]:
    """Return the names of the plugins that a slot may hold, for help and for messages.

    Built-ins are imported to see what they give. Packages of others are not, since help must not run code that may
    hang or exit: one that is not imported yet is listed, and `require_fit` refuses it if it does not fit.

    Args:
        kind: A name in `KINDS`.
        gives: What the slot accepts; empty for everything.
        reads: What the slot's plugins may read; empty for everything.
        certain: Whether those that are not imported yet are left out.
    """
    return list(dict.fromkeys(entry.name for entry in available(kind) if _may_fit(entry, gives, reads, certain)))


def require_fit(
    kind: str,
    name: str,
    *,
    gives: Collection[str] = (),
    reads: Collection[str] = (),
    slot: str = "",
    typed: bool = False,
) -> None:
    """Refuse a plugin that a slot cannot use."""
    component = get(kind, name, typed=typed)
    if _fits(kind, component, gives, reads):
        return
    row = KINDS[kind]
    wrong = bool(gives) and gives_of(kind, component) not in gives
    verb, own, wanted = (
        ("gives", gives_of(kind, component), gives) if wrong else ("reads", reads_of(kind, component), reads)
    )
    here = f"{slot} takes" if slot else "what is needed is"
    fit = ", ".join(fitting(kind, gives=gives, reads=reads, certain=True))
    raise MotionkitError(
        f"{row.singular} {name!r} {verb} {own!r}; {here} one that {verb} {either(map(repr, wanted))}.",
        fix=f"choose one that fits: {fit}" if fit else f"no installed {row.singular} fits.",
    )


def _may_fit(entry: Entry, gives: Collection[str], reads: Collection[str], certain: bool) -> bool:
    if not (gives or reads):
        return True
    if not (entry.builtin or entry.value.partition(":")[0] in sys.modules):
        return not certain
    try:
        component = get(entry.kind, f"{entry.distribution}:{entry.name}")
    except MotionkitError:  # reported when it is chosen
        return True
    return _fits(entry.kind, component, gives, reads)


def _fits(kind: str, component: Component, gives: Collection[str], reads: Collection[str]) -> bool:
    return (not gives or gives_of(kind, component) in gives) and (not reads or reads_of(kind, component) in reads)


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
    """Import both halves of each entry and check them; those of other packages are built and tried like in a test.

    Returns:
        The result by entry; the heavy half is left alone if the light one does not import or a package is missing.
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
    """Return what is wrong with the heavy half, and why nothing more could be checked; each may be empty."""
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
    """Return why what a component's factory makes is none of its kind."""
    row = KINDS[kind]
    if component.gives and component.gives not in row.gives:
        return f"it gives {component.gives!r}; {kind} give {either(map(repr, row.gives))}"
    if component.reads and component.reads not in row.reads:
        return f"it reads {component.reads!r}; {kind} read {either(map(repr, row.reads)) or 'nothing'}"
    if not callable(factory):
        return f"its factory {component.factory} is a {type(factory).__name__}, which cannot be called"
    if not isinstance(factory, type):
        return ""
    wanted = _methods(row.gives.get(gives_of(kind, component), ""))
    if lacking := [method for method in wanted if not callable(getattr(factory, method, None))]:
        listed = ", ".join(lacking[:_MANY]) + (f" and {len(lacking) - _MANY} more" if len(lacking) > _MANY else "")
        return f"{component.factory} is no {row.singular}: it has no {listed}{_other_kind(kind, factory)}"
    try:
        inspect.signature(factory).bind(None, **dict.fromkeys(row.runtime))
    except TypeError as error:
        called = ", ".join(["options", *(f"{word}=..." for word in row.runtime)])
        return f"{component.factory} cannot be called as motionkit calls it, ({called}): {error}"
    except ValueError:  # no signature to look at
        return ""
    return ""


def _other_kind(kind: str, factory: type) -> str:
    """Return the group a class seems to belong in."""
    for other, row in KINDS.items():
        for protocol in dict.fromkeys(row.gives.values()):
            methods = _methods(protocol)
            if other != kind and methods and all(callable(getattr(factory, method, None)) for method in methods):
                return f"; it looks like a {row.singular}, whose group is {HOME}.{other}"
    return ""


def _methods(protocol: str) -> list[str]:
    module, _, name = protocol.partition(":")
    found = getattr(importlib.import_module(module), name) if module else object
    return [word for word, value in vars(found).items() if inspect.isfunction(value) and not word.startswith("_")]


def _contract(kind: str, name: str) -> tuple[str, str]:
    """Run the contract check of a kind with the plugin's default options."""
    module, _, function = KINDS[kind].check.partition(":")
    given = {"dataset": _small_dataset()} if kind == "rewards" else {}
    try:
        getattr(importlib.import_module(module), function)(name, **given)
    except AssertionError as error:
        lines = [line.removeprefix("- ") for line in str(error).splitlines() if line.startswith("- ")]
        return (" ".join(lines) or in_words(error)).rstrip("."), ""
    except PluginError as error:
        return error.message, ""
    except MotionkitError as error:
        return "", f"it was not built: {error.message}"
    except ValueError as error:  # an option that must be given
        return "", f"it was not built with its default options: {' '.join(str(error).split())}"
    return "", ""


def _small_dataset() -> Any:
    """Return a few clips of the starter, for plugins that are built with a dataset."""
    component = get("datasets", f"{HOME}:starter")
    few = {"clips": 8, "val_clips": 8, "test_clips": 8, "prompts": 8, "cache": False}
    return component.build(component.options.model_validate(few))
