"""Which plugins may be Python files: those whose names were typed.

``./file.py:attribute`` is code. It runs when it stands on the command line or in a ``MOTIONKIT_*`` variable, and when
Python code passes it to `motionkit.plugins.get`. A settings file or a run folder may come from anywhere, so a file that
it names is not imported until the same name has been typed as well.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from motionkit import plugins
from motionkit.errors import MotionkitError

_WHY = "a Python file runs only when its name has been typed, not because a settings file or a run names it."


def refuse_code(name: str, origins: Mapping[str, str], typed: Iterable[str], flags: list[str]) -> None:
    """Refuse Python files that fill a slot and that nobody typed.

    Args:
        name: The slot.
        origins: Names of the plugins that fill it, each with the place that chose it.
        typed: Names that stand on the command line, in a variable or in motionkit's own code.
        flags: What to type to choose the same plugins.

    Raises:
        MotionkitError: Names the file, the place and the flags to type.
    """
    for plugin in origins.keys() - set(typed):
        if plugins.is_file(plugin):
            raise MotionkitError(
                f"{origins[plugin]}: {name} names {plugin}, which is code.",
                why=_WHY,
                fix=f"if you trust that file, add to the command: {shlex.join(flags)}",
            )


def flag_of(name: str) -> str:
    """Return the flag that chooses what fills a slot."""
    return f"--{name.replace('_', '-')}"


def typed_flags(snapshot: Mapping[str, Any]) -> str:
    """Return the flags that must be typed again to use settings whose plugins are Python files; empty for all others.

    Args:
        snapshot: Settings as `Resolved.snapshot` returns them; what has another form is passed over.
    """
    found: list[str] = []
    for name, table in snapshot.items():
        if not isinstance(table, Mapping):
            continue
        one = table.get("name")
        tables = [word for word, inner in table.items() if isinstance(inner, Mapping)]
        chosen = [one] if isinstance(one, str) else tables
        if any(plugins.is_file(word) for word in chosen):
            found += [part for word in chosen for part in (flag_of(name), word)]
    return shlex.join(found)
