"""The wheels of motionkit and its packages: the core alone works, and its packages bring the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

_SOURCES = ("motionkit", "plugins", "pyproject.toml", "README.md", "LICENSE")
_OURS = ("motionkit", "__editable__")  # beginnings of the names of what is installed of this repository


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution in packages.txt, built from a copy, since a build leaves folders behind."""
    root, place = Path(__file__).parents[2], tmp_path_factory.mktemp("wheels")
    copy = place / "copy"
    for name in _SOURCES:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
        else:
            shutil.copy(source, copy / name)
    lines = (root / "packages.txt").read_text().splitlines()
    folders = [line.removeprefix("-e ") for line in lines if line.startswith("-e ")]
    offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *offline, *folders], cwd=copy, check=True)
    return {file.name.partition("-")[0]: file for file in place.glob("*.whl")}


_ALL = """
import json, sys
from typer.testing import CliRunner
from motionkit.cli import get_app
done = [CliRunner().invoke(get_app(), words) for words in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in done]))
"""


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


class Environment:
    """A virtual environment on top of this one, without what is installed of this repository."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.folder = folder
        venv.create(folder / "venv")
        below = folder / "below"
        below.mkdir()
        for place in filter(os.path.isdir, reversed([path for path in sys.path if path.endswith("site-packages")])):
            for item in Path(place).iterdir():
                if not item.name.startswith(_OURS) and item.suffix != ".pth":
                    (below / item.name).unlink(missing_ok=True)
                    (below / item.name).symlink_to(item)
        site = next((folder / "venv").glob("lib/python*/site-packages"))
        (site / "below.pth").write_text(f"{below}\n")
        self.python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install"]
        subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", *map(str, wheels)], check=True)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run motionkit in an empty folder."""
        return self._start("-m", "motionkit", *words)

    def run_all(self, *lines: Sequence[str]) -> list[Done]:
        """Run several commands there, one after the other in one process, which imports torch once."""
        process = self._start("-c", _ALL, json.dumps(lines))
        assert process.returncode == 0, process.stderr
        return [Done(*done) for done in json.loads(process.stdout)]

    def _start(self, *words: str) -> subprocess.CompletedProcess[str]:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MOTIONKIT"))}
        clean |= {"COLUMNS": "200", "NO_COLOR": "1"}
        command = [str(self.python), *words]
        return subprocess.run(command, cwd=work, env=clean, capture_output=True, text=True, check=False)


def test_the_core_alone_lists_what_is_there(wheels: dict[str, Path], tmp_path: Path) -> None:
    alone = Environment(tmp_path, [wheels["motionkit"]])
    help_ = alone.run("--help")
    assert help_.returncode == 0, help_.stderr
    assert "grpo" in help_.stdout
    assert "sa2va-rl" not in help_.stdout
    (tmp_path / "work" / "take.fbx").write_bytes(b"Kaydara FBX Binary  \0")
    lines = (
        ("sa2va-rl", "--dry-run"), ("convert", "take.fbx", "take.bvh"), ("convert", "starter", "out.fbx"),
        ("convert", "starter", "out", "--to", "fbx"),
        ("view", "take.fbx", "--blender", "blender"), ("generate", "a person walks", "out", "--to", "fbx"),
        ("convert", "starter", "out.bvh", "--rig", "take.fbx"), ("export", "starter", "out", "--to", "lerobot"),
    )  # fmt: skip
    packages = {"sa2va-rl": "motionkit-regions", "export": "motionkit-lerobot"}
    *refused, shown, listed = alone.run_all(*lines, ("convert", "--help"), ("plugins", "list", "--check"))
    for words, absent in zip(lines, refused, strict=True):
        assert absent.returncode == 2, words
        assert f"the package {packages.get(words[0], 'motionkit-fbx')}" in absent.stderr, (words, absent.stderr)
        assert "packages.txt" in absent.stderr
    assert "Convert motions" in shown.stdout
    assert "blender" not in shown.stdout
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert alone.run("generate", "a person walks", "walk.bvh").returncode == 0
    assert (tmp_path / "work" / "walk.bvh").is_file()


def test_with_its_packages_everything_is_there(wheels: dict[str, Path], tmp_path: Path) -> None:
    whole = Environment(tmp_path, list(wheels.values()))
    loops, shown, planned, started = whole.run_all(
        ("plugins", "list", "loops", "--check"), ("convert", "--help"), ("sa2va-rl", "--dry-run"),
        ("plugins", "new", "dataset", "mine", "--gives", "regions"),  # a template in a wheel
    )  # fmt: skip
    assert loops.returncode == 0, loops.stdout + loops.stderr
    assert "mask-to-caption" in loops.stdout
    assert "--blender" in shown.stdout
    assert planned.returncode == 0, planned.stderr
    assert started.returncode == 0, started.stderr
    assert (tmp_path / "work" / "motionkit-dataset-mine" / "pyproject.toml").is_file()
