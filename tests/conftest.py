"""Fixtures that every test may use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from motionkit.plugins import forget

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


class Site:
    """A folder on the import path into which tests install packages, the way pip would leave them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, entry_points: str, *, version: str = "1.0", **modules: str) -> Path:
        """Install a package: its metadata, and each module's source."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: The {name} package.\n"
        )
        (info / "entry_points.txt").write_text(entry_points)
        for module, source in modules.items():
            (self.folder / f"{module}.py").write_text(source)
        importlib.invalidate_caches()
        forget()
        return info


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder on the import path; what it installs is gone after the test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    forget()
    yield Site(folder)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]
    forget()


@pytest.fixture
def sample(site: Site) -> ModuleType:
    """The module of tests/sample_plugins.py, installed as package ``sample-plugins`` with its entry points."""
    site.install(
        "sample-plugins",
        "[motionkit.rewards]\nnear = sample_plugins:near\nfar = sample_plugins:far\n"
        "[motionkit.policies]\nsmall = sample_plugins:small\nlarge = sample_plugins:large\n",
        sample_plugins=(ROOT / "tests" / "sample_plugins.py").read_text(),
    )
    return importlib.import_module("sample_plugins")
