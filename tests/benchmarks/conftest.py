"""Options of the benchmarks, and the table of ratios that a session ends with."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from .ratios import Ratios

_ratios = Ratios()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", choices=["small", "mdm"], default="small", help="Size of the GRPO step.")
    parser.addoption("--device", default="cpu", help="Where the GRPO step is measured: cpu, cuda, cuda:1, ...")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Two threads, unlike in the other tests: that is what the figures are quoted for."""
    before = torch.get_num_threads()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def ratios() -> Ratios:
    """Where every benchmark leaves its times; only ratios of one session are ever printed."""
    return _ratios


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _ratios.lines():
        terminalreporter.write_line(line)
