"""Whatever a plugin raises becomes an error that names it; a signal, a file that is missing and our own bugs do not."""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any

import pytest

from motionkit import plugins
from motionkit.errors import Interrupted, MotionkitError
from motionkit.plugins._guard import PluginError

from . import broken_packages as broken

CALLED = """
import os
def works(): return 3
def exits(): raise SystemExit(0)
def interrupts(): raise KeyboardInterrupt
def fails(): return 1 / 0
def calls(function): return function()
def opens(): open('/nonesuch/file')
def pipe(): raise BrokenPipeError(32, 'Broken pipe')
class Reward:
    def __init__(self, options, **runtime): raise SystemExit(0)
"""


@pytest.fixture
def called(site: Any) -> ModuleType:
    """The heavy half of a plugin that was asked for: functions that raise."""
    source = broken.GOOD.format(module="called_heavy")
    text = "[motionkit.rewards]\ncalled = called_light:component\n"
    site.install("called", text, called_light=source, called_heavy=CALLED)
    plugins.get("rewards", "called")
    import importlib

    return importlib.import_module("called_heavy")


@pytest.fixture
def handled() -> Any:
    """SIGINT as it is while a command runs: the handler is ours, so that a plain KeyboardInterrupt is not a signal."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("function", "said"),
    [("exits", "SystemExit: 0"), ("interrupts", "KeyboardInterrupt"), ("fails", "ZeroDivisionError: division by zero")],
)
def test_a_call_that_fails_names_plugin_package_and_line(
    called: ModuleType, handled: None, function: str, said: str
) -> None:
    with pytest.raises(PluginError, match="reward 'called' of package 'called' raised ") as caught, plugins.catching():
        getattr(called, function)()
    assert caught.value.message.endswith(said)
    assert f"in {function}, " in caught.value.why
    assert "called_heavy.py, line " in caught.value.why
    assert "called" in caught.value.fix
    assert caught.value.code == 2
    with pytest.raises(PluginError) as caught, plugins.catching(code=1):
        called.calls(lambda: 1 / 0)  # it is the plugin that was running
    assert (caught.value.code, caught.value.as_late().code) == (1, 1)
    assert isinstance(caught.value.as_late(), PluginError)


def test_the_constructor_is_a_call_too(called: ModuleType) -> None:
    component = plugins.get("rewards", "called")
    with pytest.raises(PluginError, match="reward 'called' of package 'called' raised SystemExit: 0"):
        component.build(component.options())


def test_what_is_not_the_plugins_fault_stays(called: ModuleType, handled: None) -> None:
    def refuse() -> None:
        raise MotionkitError("no.")

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    for function, kind in (
        (called.opens, FileNotFoundError),
        (lambda: called.calls(refuse), MotionkitError),
        (lambda: called.calls(stop), Interrupted),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(kind) as caught, plugins.catching():
            function()
        assert not isinstance(caught.value, PluginError)
    with plugins.catching():
        assert called.works() == 3
    with pytest.raises(PluginError), plugins.catching():
        called.pipe()  # it names no file, and is not about motionkit's own output


def test_without_a_handler_of_ours_ctrl_c_is_a_plain_keyboard_interrupt(called: ModuleType) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), plugins.catching():
            called.interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


def test_needs_that_cannot_be_looked_for_are_missing(sample: ModuleType) -> None:
    needs = ("nonesuch_a.b", "", "sys.b", "json")
    assert plugins.Component("x", sample.Near, "a:b", needs=needs).missing() == ["nonesuch_a.b", "", "sys.b"]
