"""`motionkit plugins new`: each kind starts as a package whose own tests pass."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit.plugins import KINDS

from ..made.forks import Forks

Cli = Callable[..., Result]


STARTED = [(row.singular, "") for row in KINDS.values() if row.scaffold]
STARTED += [(row.singular, gives) for row in KINDS.values() for gives in row.scaffolds]


@pytest.mark.parametrize(("kind", "gives"), STARTED)
def test_a_new_package_passes_its_own_tests(
    kind: str, gives: str, cli: Cli, site: Any, tmp_path: Path, forks: Forks
) -> None:
    done = cli("plugins", "new", kind, "my-own", *(["--gives", gives] if gives else []))
    assert done.exit_code == 0, done.stderr
    folder = Path(f"motionkit-{kind}-my-own").resolve()
    assert f"wrote {folder.name} (5 files). Next: pip install -e {folder.name} && pytest {folder.name}" in done.stderr
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    entries = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
        for group, found in project["entry-points"].items()
    )
    site.install(project["name"], entries)
    there: dict[str, Any] = {
        "folder": folder, "path": [str(site.folder), str(folder / "src")],
        "environment": {"MOTIONKIT_CACHE": str(tmp_path / "cache")},
    }  # fmt: skip
    line = ["pytest", "-q", "-W", "error::UserWarning", "-p", "no:cacheprovider", str(folder)]
    ran = forks.run(*line, **there)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = forks.run("motionkit", "plugins", "list", *(["--check"] if kind == "reward" else []), **there)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "my-own" in shown.stdout
    assert cli("plugins", "new", kind, "my-own").exit_code == 2


def test_the_kind_is_asked_for(cli: Cli) -> None:
    done = cli("plugins", "new", "motionkit-bounce")
    assert done.exit_code == 2
    assert "'motionkit-bounce' does not say what kind of plugin it is." in done.stderr
    assert "motionkit plugins new reward|trainer|algorithm|dataset|environment|protocol|policy NAME" in done.stderr
    assert "'Not-A-Name' is not a package name." in cli("plugins", "new", "reward", "Not-A-Name").stderr
    assert not list(Path().iterdir())


def test_what_cannot_be_started_is_named(cli: Cli) -> None:
    done = cli("plugins", "new", "dataset", "ab", "--gives", "frames")
    assert done.exit_code == 2
    assert "--gives text-motion or regions" in done.stderr
    assert "leave --gives out" in cli("plugins", "new", "reward", "ab", "--gives", "mask").stderr
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("kind", "gives"), STARTED)
def test_new_code_is_formatted(kind: str, gives: str, cli: Cli) -> None:
    assert cli("plugins", "new", kind, "ab", *(["--gives", gives] if gives else [])).exit_code == 0
    for file in Path(f"motionkit-{kind}-ab").rglob("*.py"):
        compile(file.read_text(), str(file), "exec")
        assert max(map(len, file.read_text().splitlines())) <= 120, file
        assert "$" not in file.read_text()
