"""``motionkit pretrain mpl-encoder``: the command that `pretrain` alone means, and the guide's way to type it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.predictor.data import _motion
from motionkit.predictor.encoder import open_encoder
from motionkit.starter import Order, perform

Cli = Callable[..., Result]
SHORT = ("--epochs", "2", "--model.width", "16", "--device", "cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clips of one skeleton at 60 frames per second, as convert --to mpl writes them."""
    out = tmp_path_factory.mktemp("mpl")
    for number in range(6):
        made = _motion(perform([Order(("walk/normal", "run/normal")[number % 2], 90, number)], fps=60.0)[0])
        write_mpl_npz(out / f"c{number}.npz", Clip(made, split="val" if number > 3 else "train"), source_hash="")
    return out


def test_pretrain_alone_means_the_encoder(cli: Cli, tmp_path: Path, folder: Path) -> None:
    done = cli("pretrain", "--data", folder, *SHORT, "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["command"] == "pretrain mpl-encoder"
    assert set(document["heldout"]) == {
        f"encoder/{name}" for name in ("skill", "period_deg", "gait_accuracy", "gait_balanced", "pose_deg")
    }
    assert "baselines on held-out clips" in document["verdict"]
    assert (tmp_path / "run/report.html").is_file()
    encoder = open_encoder(tmp_path / "run")
    assert (encoder.fps, encoder.width) == (30.0, 16)
    page = (tmp_path / "run/report.html").read_text()
    assert "phase error" in page
    assert "the encoder is" in page
    assert "constant angular velocity" in cli("runs", "show", tmp_path / "run").stdout


def test_without_any_word_it_is_planned_on_starter_clips(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_FPS", "10")
    done = cli("pretrain", "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    plan = json.loads(done.stdout)["plan"]
    assert plan["clips"] == "288 to train on, 144 to validate, 22 joints, 10 fps"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "nowhere"], "there is no nowhere"),
        (["--data", "starter,other"], "--data starter was given with other data"),
        (["--epochs", "0"], "--epochs '0'"),
        (["--model.width", "4"], "greater than or equal to 8"),
        (["--set", "loss.period=0", "--set", "loss.gait=0", "--set", "loss.pose=0"], "nothing to learn"),
    ],
)
def test_bad_input_exits_with_two(arguments: list[str], said: str, cli: Cli, tmp_path: Path) -> None:
    done = cli("pretrain", "mpl-encoder", *arguments, "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def fix_of(done: Result) -> list[str]:
    error = json.loads(done.stdout)["error"]
    return [word for word in shlex.split(error["fix"].replace("\\\n", " ")) if word != "--json"]


def test_the_guides_line_is_answered_with_ours(cli: Cli) -> None:
    line = "python pretrain_mpl_min.py --data DATA --out models/encoder --epochs 50 --batch 16 --lr 0.0005"
    words = fix_of(cli(*line.split(), "--json"))
    assert words[:3] == ["motionkit", "pretrain", "mpl-encoder"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given == {
        "--data": "DATA", "--out": "models/encoder", "--epochs": "50", "--batch-size": "16",
        "--learning-rate": "0.0005",
    }  # fmt: skip
    ours = ["starter" if word == "DATA" else word for word in words[1:]]
    assert cli(*ours, "--dry-run").exit_code == 0
    mixed = cli("pretrain", "--lr", "0.001", "--batch", "8")
    assert mixed.exit_code == 2
    assert "motionkit pretrain mpl-encoder --learning-rate 0.001 --batch-size 8" in mixed.stderr


@pytest.mark.parametrize(
    ("path", "run"), [("../models/motion/best_encoder.pt", "../models/motion"), ("pretrained_encoder.pt", "RUN")]
)
def test_the_guides_encoder_file_becomes_the_run_that_holds_it(path: str, run: str, cli: Cli) -> None:
    words = fix_of(cli("python", "training_MPL.py", "--encoder", path, "--json"))
    assert words == ["motionkit", "train-mpl", "--encoder", run]
