"""One build folder and one emulated driver for all kernel tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from .drivers import use_driver
from .emulation import EmuDriver


@pytest.fixture(scope="session")
def host_folder(tmp_path_factory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed (Debian: apt install g++)")
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="session")
def host(host_folder) -> EmuDriver:
    return EmuDriver(host_folder)


@pytest.fixture
def emulated(host, poison):
    """CPU tensors take the kernels, and memory that nobody has written holds NaN."""
    host.launched.clear()
    host.reversed = False
    with use_driver("cpu", host):
        yield host


@pytest.fixture
def poison():
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert bool(torch.empty(3).isnan().all())
    yield
    torch.use_deterministic_algorithms(False)
