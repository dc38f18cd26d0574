"""All files and folders that settings name and that are not there are said in one error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Cli = Callable[..., Result]

RELEASED = (
    "grpo", "--dataset", "humanml", "--dataset.root", "dataset/HumanML3D", "--policy.checkpoint", "save/model.pt",
    "--policy.text-model", "models/clip", "--reward", "tmr-dense", "--reward.weights", "tmr/last_weights",
    "--reward.stats", "stats", "--reward.text-model", "models/distil/bert", "--device", "cpu",
)  # fmt: skip

SMALL = ("--device", "cpu", "--dataset.clips", "144", "--dataset.val-clips", "48", "--dataset.test-clips", "48")


def test_all_of_them_are_named_at_once(cli: Cli) -> None:
    done = cli(*RELEASED, "--dry-run")
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert (
        "error: 4 files or folders are not there: --policy.checkpoint save/model.pt; --dataset.root dataset/HumanML3D; "
        "--reward.stats stats; --reward.text-model models/distil/bert."
    ) in said
    assert "as a name or an id of the hub: --policy.text-model models/clip; --reward.weights tmr/last_weights." in said
    assert f"relative ones begin in {Path.cwd()}." in said
    assert "loading torch" not in said
    Path("dataset/HumanML3D").mkdir(parents=True)
    Path("save").mkdir()
    Path("save/model.pt").touch()
    assert "error: 2 files or folders are not there: --reward.stats" in cli(*RELEASED).stderr
    assert not Path("runs").exists()


def test_one_is_left_to_whoever_opens_it(cli: Cli) -> None:
    done = cli("grpo", "--reward", "tmr-dense", "--reward.weights", "./tmr/last", "--dry-run", *SMALL)
    assert done.exit_code == 2
    assert "give a TMR folder or file, or leave --reward.weights at 'starter'." in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "grpo --reward tmr-dense --reward tmr-cosine --reward.tmr-dense.weights a --reward.tmr-cosine.weights ~/b "
            "--dataset.clips 144",
            "--reward.tmr-dense.weights a; --reward.tmr-cosine.weights ~/b.",
        ),
        ("grpo --reference a --judge tmr-cosine --judge.weights b", "--reference a; --judge.weights b."),
        ("grpo --dataset composite --dataset.path a.json --dataset.path b.json", "a.json; --dataset.path "),
        ("train-mpl --data a --data starter --data b", "--data a; --data b."),
        ("train-mpl --data ~nobody-here/a --data b", "--data ~nobody-here/a; --data b."),
        ("generate walk out --policy.checkpoint a --policy.prefix b.npy", "--policy.checkpoint a; --policy.prefix b"),
    ],
)
def test_they_are_named_as_they_are_typed(words: str, said: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    done = cli(*words.split())
    assert done.exit_code == 2
    assert "2 files or folders are not there: " in done.stderr
    assert said in " ".join(done.stderr.split())
    Path("b").touch()
    assert "are not there" not in cli(*words.split()).stderr or "a.json" in words or "b.npy" in words
