"""The house's own rules: floors, sizes, what is packed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LIMIT = 700


def modules(root: Path) -> list[Path]:
    return [path for folder in ("motionkit", "plugins") for path in (root / folder).rglob("*.py")]


def test_no_module_is_longer_than_the_limit(root: Path) -> None:
    long = {
        str(path.relative_to(root)): n for path in modules(root) if (n := len(path.read_text().splitlines())) > LIMIT
    }
    assert not long, f"over {LIMIT} lines: redesign, do not split by line count"


def test_a_floor_imports_only_what_is_below_it(root: Path) -> None:
    command = Path(sys.executable).parent / "lint-imports"
    if not command.is_file():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([str(command), "--no-cache"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_module_says_what_it_is_for(root: Path) -> None:
    silent = [
        str(path.relative_to(root)) for path in modules(root) if not path.read_text().lstrip().startswith(('"""', "#"))
    ]
    assert [path for path in silent if not path.endswith("__init__.py") or Path(root / path).read_text()] == []


def test_no_loose_ends(root: Path) -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [str(path.relative_to(root)) for path in modules(root) if marks.search(path.read_text())]
    assert found == []


def test_csv_files_are_read_in_one_place(root: Path) -> None:
    """`CsvTable` limits bytes, rows and cells, and its errors name the file."""
    readers = re.compile(r"\bcsv\.(reader|DictReader)\b|\bgenfromtxt\(|\bpd\.read_csv\b")
    found = {str(path.relative_to(root)) for path in modules(root) if readers.search(path.read_text())}
    assert found == {"motionkit/documents.py"}


def test_constraints_pin_every_dependency_and_name_no_host(root: Path) -> None:
    text = (root / "constraints.txt").read_text()
    pins = {line.partition("==")[0].lower().replace("_", "-") for line in text.splitlines() if "==" in line}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[<>=!~\[ ]", need)[0].lower() for need in needs}
    assert names <= pins
    assert "torch==2.13.0" in text.splitlines()
    assert "://" not in text
    assert " @ " not in text


def test_ci_script_is_executable_bash(root: Path) -> None:
    script = root / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_ci_installs_and_tests_by_the_line_of_both_readmes(root: Path) -> None:
    lines = [
        re.findall(r"^pip install .* && pytest.*$", (root / name).read_text(encoding="utf-8"), re.M)
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 1
    script = (root / ".ci" / "run").read_text()
    assert "grep -m1 '^pip install .* && pytest' README.md" in script
    assert script.count("install -c constraints.txt") == 1, "the extras alone are installed besides, elsewhere"


def test_files_that_contributing_names_exist(root: Path) -> None:
    named = set(re.findall(r"`((?:motionkit|tests)/[\w./]+)`", (root / "CONTRIBUTING.md").read_text()))
    named = {path for path in named if "NAME" not in path}
    assert len(named) > 20
    assert [path for path in sorted(named) if not (root / path).exists()] == []
