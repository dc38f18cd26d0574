"""The optional part of a protocol, for objects of classes that do not derive from it.

In a protocol of motionkit the abstract members are those that every plugin has; the others have defaults. A class that
derives from the protocol inherits them. The class of a plugin need not: what it lacks is added where its objects come
in, so that whoever uses them finds every attribute.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from motionkit.plugins._component import Component
from motionkit.plugins._discovery import KINDS
from motionkit.plugins._lookup import gives_of

_Built = TypeVar("_Built")


class _Default:
    """A property that an object may replace by an attribute of its own."""

    def __init__(self, get: Callable[[Any], Any] | None) -> None:
        self._get = get

    def __get__(self, built: Any, cls: type) -> Any:
        return self if built is None or self._get is None else self._get(built)


def complete(built: _Built, protocol: type) -> _Built:
    """Add to the class of an object what the object lacks of a protocol's members with defaults; return the object.

    None is returned as it is.
    """
    cls = type(built)
    if built is not None and protocol not in cls.__mro__:
        required, members = required_of(protocol), dict[str, Any]()
        for base in reversed(protocol.__mro__):
            members.update(vars(base))
        for name, value in members.items():
            if not (name.startswith("_") or name in required or hasattr(built, name)):
                setattr(cls, name, _Default(value.fget) if isinstance(value, property) else value)
    return built


def required_of(protocol: type) -> frozenset[str]:
    """Return the names of the methods that every plugin of a protocol has: the abstract ones."""
    return frozenset(
        name
        for base in protocol.__mro__
        for name, value in vars(base).items()
        if getattr(value, "__isabstractmethod__", False)
    )


def missing(built: object, methods: Sequence[str], attributes: Sequence[str] = ()) -> list[str]:
    """Return which methods, with ``()``, and attributes an object of a plugin lacks."""
    absent = [f"{name}()" for name in methods if not callable(getattr(built, name, None))]
    return absent + [name for name in attributes if not hasattr(built, name)]


def build(kind: str, component: Component, options: Any, /, **runtime: Any) -> Any:
    """Build a plugin, whose object has all members of the protocol of its kind.

    Raises:
        MotionkitError: As `Component.build`.
    """
    built = component.build(options, **runtime)
    module, _, name = KINDS[kind].gives.get(gives_of(kind, component), "").partition(":")
    return complete(built, getattr(importlib.import_module(module), name)) if module else built
