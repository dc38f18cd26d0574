"""Whether a plugin fits a slot: what it gives against what the command takes, or what it reads against what is made."""

from __future__ import annotations

import sys
from collections.abc import Collection

from motionkit.errors import MotionkitError
from motionkit.plugins._component import Component
from motionkit.plugins._discovery import Entry
from motionkit.plugins._kinds import KINDS, either
from motionkit.plugins._lookup import available, get


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
    """Refuse a plugin that a slot cannot use.

    Args:
        kind: A name in `KINDS`.
        name: What it was chosen by.
        gives: As for `fitting`.
        reads: As for `fitting`.
        slot: Flag or name of the slot, for the message.
        typed: As for `get`.

    Raises:
        MotionkitError: It gives, or reads, something else; says which plugins fit.
    """
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
