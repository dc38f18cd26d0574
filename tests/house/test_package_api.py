"""The API that packages build on is written down, and public."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path

from .package_api import PAGE, page, used

FIX = "python tests/house/package_api.py --write writes it: what is new there is kept for packages of others too"


def test_what_packages_use_is_written_down() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), FIX


def test_what_packages_use_is_public_and_there() -> None:
    for module, names in used().items():
        assert not any(part.startswith("_") for part in (*module.split("."), *names)), module
        found = importlib.import_module(module)
        for name in names:
            assert hasattr(found, name) or find_spec(f"{module}.{name}") is not None, f"{module}.{name}"


def test_an_import_of_a_package_is_found(tmp_path: Path) -> None:
    source = tmp_path / "plugins" / "one" / "src" / "one.py"
    source.parent.mkdir(parents=True)
    source.write_text("import motionkit.weights\nfrom motionkit.rl import DDIM\nfrom motionkitten import Paw\n")
    (tmp_path / "packages.txt").write_text("-e .\n-e plugins/one\n")
    assert used(tmp_path) == {"motionkit.rl": {"DDIM"}, "motionkit.weights": set()}
