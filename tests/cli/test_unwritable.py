"""What cannot be written is refused before the work, with exit code 2."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ..made.bvh_files import write_bvh

Cli = Callable[..., Result]
LONG = "n" * 300
COMPOSE = ("compose", "--dataset.clips", 144, "--dataset.val-clips", 48, "--dataset.test-clips", 48)


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "a.bvh", LONG),
        ("convert", "a.bvh", f"{LONG}.bvh"),
        ("convert", LONG, "out"),
        ("convert", "a.bvh", "out", "--captions", LONG),
        ("profile", "a.bvh", "--html", f"{LONG}.html"),
        ("profile", "a.bvh", "--write-config", f"{LONG}.yaml"),
        (*COMPOSE, LONG),
        ("generate", "walk", LONG),
        ("generate", "walk", f"{LONG}.glb"),
        ("export", "starter", LONG),
        ("grpo", "--dry-run", "--config", LONG),
    ],
    ids=lambda words: " ".join(str(word).replace(LONG, "LONG") for word in words if not str(word).startswith("--")),
)
def test_a_name_that_is_too_long(cli: Cli, words: tuple[object, ...]) -> None:
    write_bvh(Path("a.bvh"), 60)
    result = cli(*words)
    assert result.exit_code == 2, result.stderr
    assert "File name too long" in result.stderr
    assert [path.name for path in Path.cwd().iterdir()] == ["a.bvh"]


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "a.bvh", "closed"),
        ("convert", "a.bvh", "closed/out.bvh"),
        ("profile", "a.bvh", "--html", "closed/page.html"),
        ("profile", "a.bvh", "--write-config", "closed/settings.json"),
        ("profile", "a.bvh", "--write-config", "link.json"),
        (*COMPOSE, "closed"),
        (*COMPOSE, "closed/not/yet"),
        ("generate", "walk", "closed"),
    ],
    ids=lambda words: " ".join(str(word) for word in words[:1] + words[-2:]),
)
def test_a_folder_that_may_not_be_written(cli: Cli, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system is asked by name (tests may run as root, who may write anywhere)."""
    write_bvh(Path("a.bvh"), 60)
    Path("closed").mkdir()
    Path("closed/kept.json").write_text("{}")
    Path("link.json").symlink_to("closed/settings.json")
    monkeypatch.setattr("os.access", lambda path, mode: not (mode & os.W_OK and Path(path).name == "closed"))
    result = cli(*words)
    assert result.exit_code == 2, result.stderr
    assert "cannot be written: no permission" in result.stderr
    assert [path.name for path in Path("closed").iterdir()] == ["kept.json"]


def test_a_pipe_is_not_replaced(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 60)
    os.mkfifo("page.html")
    result = cli("profile", "a.bvh", "--html", "page.html")
    assert result.exit_code == 2
    assert "page.html is not a regular file" in result.stderr
