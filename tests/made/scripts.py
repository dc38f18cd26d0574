"""Python files outside packages, loaded as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def load_script(file: Path) -> ModuleType:
    """Run a file as a new module and return it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
