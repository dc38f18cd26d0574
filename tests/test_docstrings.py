"""The examples in docstrings run as they stand: offline, in an empty folder, each module's in well under a second."""

from __future__ import annotations

import doctest
import importlib
import socket
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Only files that hold an example are imported: collecting all modules of the package takes ten seconds.
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "motionkit").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket.socket, "connect", _refuse)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for example in doctest.DocTestFinder().find(importlib.import_module(name), name):
        runner.run(example, out=report.append)
    tried, failed = runner.tries, runner.failures
    assert failed == 0, "".join(report)
    assert tried, f"the examples of {name} are in no docstring of its own"


def _refuse(*_: object) -> None:
    raise OSError("an example must not use the network")
