"""The optional part of a protocol, for objects of classes that do not derive from it.

In a protocol of motionkit the abstract members are those that every plugin has; the others have defaults. A class that
derives from the protocol inherits the defaults. To a class that does not, `complete` adds those that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from motionkit.plugins._component import Component, attribute_of
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
        for name, value in _defaults(protocol).items():
            # The class is a stranger's: which members it has is the question.
            if not hasattr(built, name):
                setattr(cls, name, value)
    return built


@cache
def _defaults(protocol: type) -> dict[str, Any]:
    """Return the members of a protocol that have a default, by name; once, since rewards are completed in each step."""
    members = {name: value for base in reversed(protocol.__mro__) for name, value in vars(base).items()}
    optional = {name for name in members if not name.startswith("_")} - required_of(protocol)
    return {
        name: _Default(value.fget) if isinstance(value, property) else value
        for name, value in members.items()
        if name in optional
    }


def required_of(protocol: type) -> frozenset[str]:
    """Return the names of the methods that every plugin of a protocol has: the abstract ones."""
    return frozenset(
        name
        for base in protocol.__mro__
        for name, value in vars(base).items()
        # As abc marks methods; other members have no such mark.
        if getattr(value, "__isabstractmethod__", False)
    )


def missing(built: object, methods: Sequence[str], attributes: Sequence[str] = ()) -> list[str]:
    """Return which methods, with ``()``, and attributes an object of a plugin lacks."""
    # The object is a stranger's: what it has is the question.
    absent = [f"{name}()" for name in methods if not callable(getattr(built, name, None))]
    return absent + [name for name in attributes if not hasattr(built, name)]


def build(kind: str, component: Component, options: Any, /, **runtime: Any) -> Any:
    """Build a plugin, whose object has all members of the protocol of its kind.

    Raises:
        MotionkitError: As `Component.build`.
    """
    built = component.build(options, **runtime)
    protocol = KINDS[kind].gives.get(gives_of(kind, component), "")
    return complete(built, attribute_of(protocol)) if protocol else built
