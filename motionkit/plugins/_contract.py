"""Whether a plugin's heavy half is what its kind says: it imports, takes what it is given and has the methods.

Called in a process of its own, see `motionkit.plugins._trial`.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.plugins._component import Component
from motionkit.plugins._discovery import HOME
from motionkit.plugins._fit import gives_of
from motionkit.plugins._guard import PluginError, in_words
from motionkit.plugins._kinds import KINDS, either
from motionkit.plugins._lookup import get

_MANY = 3  # names that a sentence lists


def examine(kind: str, name: str) -> tuple[str, str]:
    """Import a plugin's heavy half and check it; a plugin of another package is built and checked like a test would.

    Args:
        kind: A name in `KINDS`.
        name: ``DISTRIBUTION:NAME``.

    Returns:
        What is wrong, and why nothing more could be checked; each may be empty.
    """
    component = get(kind, name)
    if component.missing():
        return "", ""  # reported by the first look
    try:
        factory = component.load()
        if wrong := _misfit(kind, component, factory):
            return wrong, ""
        own = name.startswith(f"{HOME}:")
        return _contract(kind, name) if not own and KINDS[kind].alone else ("", "")
    except MotionkitError as error:
        return error.message.rstrip("."), ""
    except BaseException as error:  # a plugin may raise anything
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
