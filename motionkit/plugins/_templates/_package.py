"""What the packages of all kinds have in common."""

from __future__ import annotations

from collections.abc import Mapping

_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "$package"
version = "0.1.0"
description = "$Kind '$name' for motionkit."
requires-python = ">=3.11"
dependencies = ["motionkit"]

[project.entry-points."motionkit.$kinds"]
$name = "$module:component"

[tool.setuptools.packages.find]
where = ["src"]
"""

_README = """\
# $package

$Kind `$name` for motionkit.

    pip install -e .
    pytest
    motionkit plugins show $kinds $name
    USAGE
"""


def package(heavy: str, *, usage: str, light: str, code: str, test: str) -> Mapping[str, str]:
    """Return the files of a package by path."""
    return {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README.replace("USAGE", usage),
        "src/$module/__init__.py": light,
        f"src/$module/{heavy}.py": code,
        "tests/test_$module.py": test,
    }
