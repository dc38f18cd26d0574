"""The API that packages build on is written down, and public."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from .package_api import PAGE, page, used

FIX = "python tests/house/package_api.py --write writes it: what is new there is kept for packages of others too"


def test_what_packages_use_is_written_down() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), FIX


@pytest.mark.parametrize("module", used())
def test_what_packages_use_is_public_and_there(module: str) -> None:
    assert not any(part.startswith("_") for part in module.split("."))
    for name in used()[module]:
        assert not name.startswith("_"), name
        found = importlib.import_module(module)
        assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None, name


def test_an_import_of_a_package_is_found(tmp_path: Path) -> None:
    source = tmp_path / "plugins" / "one" / "src" / "one.py"
    source.parent.mkdir(parents=True)
    source.write_text("import motionkit.weights\nfrom motionkit.rl import DDIM\nfrom motionkitten import Paw\n")
    (tmp_path / "packages.txt").write_text("-e .\n-e plugins/one\n")
    assert used(tmp_path) == {"motionkit.rl": {"DDIM"}, "motionkit.weights": set()}
