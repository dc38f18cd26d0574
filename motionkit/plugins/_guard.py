"""Turn exceptions of a plugin into an error that names the plugin.

A plugin can raise anything when it is imported or called: `SystemExit`, `KeyboardInterrupt`, or the exception by which
a command line library ends a program with code 0. All of these become a `PluginError`. A `MotionkitError`, an `OSError`
that names a file, and a stop by a real signal pass unchanged.

Calls are not wrapped individually. `catching` surrounds a whole command, or a part of it, and the traceback shows
whether code of a plugin was running. A plugin that ends the process (`os._exit`, a segmentation fault) cannot be
caught.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from motionkit.errors import Interrupted, MotionkitError

_LONGEST = 1000  # characters of an exception's text
_SHARED = {"motionkit", "torch", "numpy", *sys.stdlib_module_names}
"""Top-level modules that an entry point may name although they are not the plugin's code."""


class PluginError(MotionkitError):
    """A plugin raised an exception that is not a `MotionkitError`; it is the cause."""


@dataclass(frozen=True)
class Owner:
    """Owner of a module's code."""

    title: str  # The plugin in words: ``reward 'bounce' of package 'motionkit-reward-bounce'``
    package: str  # Its package, or its file


_owners: dict[str, Owner] = {}
"""Owners of the modules of plugins that were looked up, by name; submodules belong to the same plugin."""


def claim(module: str, title: str, package: str) -> None:
    """Record that the package of `module` is the code of a plugin."""
    for name in {module, module.partition(".")[0]}:
        if name.partition(".")[0] not in _SHARED:
            owner = _owners.setdefault(name, Owner(title, package))
            if owner.title != title:  # several of its plugins are in use
                _owners[name] = Owner(f"a plugin of {package!r}", package)


def in_use() -> list[str]:
    """Return descriptions of the plugins of other packages that this process has looked up."""
    return sorted({owner.title for owner in _owners.values()})


def package_of(module: str) -> str:
    """Return the package, or the file, of a plugin's module; empty for code of motionkit."""
    owner = _owner(module)
    return owner.package if owner is not None else ""


@contextmanager
def catching(module: str = "", *, code: int = 2, log: str = "") -> Iterator[None]:
    """Turn exceptions of a plugin in the block into a `PluginError`.

    Args:
        module: The module that the block imports or calls. If it belongs to a plugin, the plugin is named even if the
            traceback shows none of its code, as with modules written in C.
        code: Exit code of the error: 2 before anything was started, 1 after.
        log: File that contains the traceback.

    Raises:
        PluginError: Names the plugin, the place in its code, and the exception.
    """
    try:
        yield
    except MotionkitError:
        raise
    except BaseException as error:
        if is_stop(error) or (isinstance(error, OSError) and error.filename is not None):
            raise
        frame, line = _last_frame(error)
        owner = _owner(frame.f_globals.get("__name__") if frame is not None else module)
        if owner is None:
            raise
        place = f"in {frame.f_code.co_name}, {frame.f_code.co_filename}, line {line}." if frame is not None else ""
        more = f"the traceback is in {log}" if log else "--traceback shows the traceback"
        fix = f"correct or update {owner.package}; {more}."
        raise PluginError(f"{owner.title} raised {in_words(error)}", why=place, fix=fix, code=code) from error


def in_words(error: BaseException) -> str:
    """Return the type and text of an exception; its ``__str__`` may raise."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read)"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_stop(error: BaseException) -> bool:
    """Whether a signal raised `error`, and not code that raises `KeyboardInterrupt` itself."""
    # With Python's default handler, Ctrl-C raises a plain KeyboardInterrupt.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, Interrupted) or (isinstance(error, KeyboardInterrupt) and usual)


def _last_frame(error: BaseException) -> tuple[FrameType | None, int]:
    last: tuple[FrameType | None, int] = (None, 0)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if _owner(frame.f_globals.get("__name__")) is not None:
            last = frame, line
    return last


def _owner(module: object) -> Owner | None:
    name = module if isinstance(module, str) else ""
    while name:
        if name in _owners:
            return _owners[name]
        name = name.rpartition(".")[0]
    return None
