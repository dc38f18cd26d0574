"""``--reward ./file.py:name`` of a plain function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ..rewards.test_function import FILE
from .conftest import Tiny

Run = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(FILE)
    return path


def words_of(tiny: Tiny, reward: str, *, steps: int = 3) -> list[str]:
    """The arguments of a run with this reward alone, and no judge."""
    words = tiny.grpo("run", steps=steps)
    for flag in ("--reward", "--reward.weights", "--judge", "--judge.weights"):
        at = words.index(flag)
        del words[at : at + 2]
    return [*words, "--reward", reward]


def test_grpo_trains_on_one(cli: Run, tiny: Tiny, file: Path) -> None:
    result = cli(*words_of(tiny, f"{file}:low"))
    assert result.exit_code == 0, result.stderr
    lines = Path("run/metrics.jsonl").read_text().splitlines()
    assert '"reward/low/mean"' in lines[-1]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("one", 2, "one(motions) cannot be a reward"),
        ("wide", 2, "returned a tensor [2, 2]"),
        ("words", 2, "returned a str"),
        ("late", 1, "plugin file my.py raised KeyError: 'no such joint'"),
    ],
)
def test_what_goes_wrong_is_said_without_a_traceback(
    cli: Run, tiny: Tiny, file: Path, name: str, code: int, said: str
) -> None:
    result = cli(*words_of(tiny, f"{file}:{name}", steps=12))
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    if name == "late":
        assert "in late," in result.stderr
        assert Path("run/log.txt").read_text().count("KeyError") >= 1
