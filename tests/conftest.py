"""Fixtures that every test may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded fixtures beside the repository; tests that need it skip, by name, where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "fixtures").is_dir():
        pytest.skip("../shared (recorded fixtures and data) is not here")
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Keep torch to one thread: tests are tiny, and results must not depend on the machine's cores."""
    if (torch := sys.modules.get("torch")) is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture
def root() -> Path:
    """The repository's root."""
    return ROOT
