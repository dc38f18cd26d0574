"""`motionkit predict`, `export` of a predictor, and the commands that train one and its encoder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import Result

import motionkit
from motionkit.clips.motion_clip import MotionClip
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import HUMANML, Clip, Motion
from motionkit.rigs import fix_feet
from motionkit.starter import OFFSETS, PARENTS, Order, generate, perform
from motionkit_predictor.data.files import _motion, starter_clip_set
from motionkit_predictor.encoder.network import open_encoder
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.settings import PredictorSettings

from ..made.commands import assert_refused
from ..made.own_runs import write_clip

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A predictor of the starter's body that was not trained."""
    clips = starter_clip_set(30.0, ("val",))
    settings = PredictorSettings(width=32, window=4, heads=2, shot=0.3, cosines=4)
    states = [clip.state for clip in clips.clips[:20]]
    torch.manual_seed(0)
    network = PredictorNetwork(settings, 22, 30.0, Statistics.of(states, 30.0, settings.lag_frames(30.0)))
    predictor = MplPredictor(
        settings, network, names=clips.names, parents=clips.parents, offsets=clips.clips[0].offsets
    )
    return predictor.save(tmp_path_factory.mktemp("model"))


def test_a_clip_is_continued_into_files_that_are_read_back(model: Path, cli: Cli) -> None:
    done = cli("predict", model, "walk.bvh", "--seconds", 1, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["known"], document["frames"], document["path"]) == (25, 30, None)
    read = cli("convert", "walk.bvh", "walk.npz", "--to", "mpl")
    assert read.exit_code == 0, read.stderr
    again = cli("predict", model, "again.html", "--start", "walk.bvh", "--seconds", 0.5)
    assert again.exit_code == 0, again.stderr
    assert "the clip itself" in Path("again.html").read_text()


def test_along_a_path(model: Path, cli: Cli) -> None:
    Path("path.csv").write_text("seconds,x,z\n1,0,1\n")
    for path in ("path.csv", "own"):
        done = cli("predict", model, "walk.bvh", "--seconds", 0.5, "--path", path, "--overwrite")
        assert done.exit_code == 0, done.stderr
        assert "path: 0." in done.stderr


def test_what_is_far_from_its_path_is_said_and_the_player_draws_the_path(model: Path, cli: Cli) -> None:
    """An untrained predictor goes on as it went: it is not 9 m to the side after 2 s."""
    Path("path.csv").write_text("seconds,x,z\n1.5,9,0\n")
    done = cli("predict", model, "walk.html", "--at", 0, "--seconds", 2, "--path", "path.csv", "--json")
    assert done.exit_code == 0, done.stderr
    error = json.loads(done.stdout)["path_error"]
    assert error["seconds"] == 1.5, "where the file ends there is no path"
    assert 1.0 < error["mean"] < error["end"] < 12.0
    assert error["heading"] > 45
    assert f"path: {error['mean']:.2f} m from the timed point in the mean of 1.5 s, {error['end']:.2f} m" in done.stderr
    assert "the path was not followed" in done.stderr
    assert error["wanted_speed"] == pytest.approx(6.0)
    assert "It goes at 6.0 m/s in the mean, the root at" in " ".join(done.stderr.split())
    assert "The dashed line is the path that was asked for" in Path("walk.html").read_text()
    free = cli("predict", model, "free.html", "--seconds", 1, "--json")
    assert json.loads(free.stdout)["path_error"] is None
    assert "The dashed line" not in Path("free.html").read_text()


def test_a_path_begins_from_a_clip_that_goes_as_it_does(model: Path, cli: Cli) -> None:
    """The first validation clip stands and was taken, so that the body glided; --clip and --at are obeyed."""
    Path("clips").mkdir()
    for name, action, split in (("a", "wave/right", "val"), ("b", "walk/normal", "val"), ("c", "run/normal", "train")):
        made = _motion(perform([Order(action, 120, 0)], fps=30.0)[0])
        write_mpl_npz(Path("clips", f"{name}.npz"), Clip(made, split=split), source_hash="")

    def predict(*words: object) -> tuple[dict[str, object], str]:
        done = cli("predict", model, "out.npz", "--start", "clips", "--seconds", 1, "--overwrite", "--json", *words)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout), " ".join(done.stderr.split())

    Path("walk.csv").write_text("seconds,x,z\n0,0,0\n3,0,3.6\n")
    Path("run.csv").write_text("seconds;x;z;y\n0;0;0;1\n3;0;8.1;1\n")
    found, said = predict("--path", "walk.csv")
    assert found["clip"] == "b"
    assert f"start: b from {found['at']:.2f} s, of the val split: it goes 1." in said
    assert "may glide" not in said
    found, said = predict("--path", "run.csv")
    assert found["clip"] == "c"
    assert "of the train split, as no validation clip goes so" in said
    assert "run.csv: a semicolon separates its columns" in said
    assert "run.csv: not used, as a path has no such column: y" in said
    named, said = predict("--path", "walk.csv", "--clip", "a", "--at", 1)
    assert (named["clip"], named["at"]) == ("a", 1.0)
    warning = "warning: the start stands, the path goes 1.2 m/s at first, so the body may glide: --clip b --at"
    assert warning in said
    assert said.index(warning) < said.index("wrote out.npz")
    for words in ((), ("--path", "own")):
        free, said = predict(*words)
        assert (free["clip"], free["at"]) == ("a", 0.0), "without a path of the user's all is as it was"
        assert "start:" not in said


def test_feet_are_fixed_on_request_only(model: Path, cli: Cli) -> None:
    """A walk that is carried to the side by 0.15 m/s; the prediction after it is short."""
    made = generate("walk", fps=30.0, frames=90, seed=3)
    translations = torch.from_numpy(OFFSETS.copy()).repeat(90, 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    translations[:, 0, 0] += 0.15 * torch.arange(90) / 30
    motion = Motion(
        HUMANML.joint_names, PARENTS, torch.from_numpy(OFFSETS.copy()),
        torch.from_numpy(made.rotations), translations, 30.0,
    )  # fmt: skip
    MotionClip(motion).save("slides.npz")
    words = ("--start", "slides.npz", "--warmup", 90, "--seconds", 0.1, "--json")
    plain = cli("predict", model, "plain.npz", *words)
    assert json.loads(plain.stdout)["feet"] is None
    assert "feet:" not in plain.stderr
    done = cli("predict", model, "fixed.npz", *words, "--fix", "feet")
    assert done.exit_code == 0, done.stderr
    feet = json.loads(done.stdout)["feet"]
    assert feet["before"] == pytest.approx(0.15, abs=0.03)
    assert feet["after"] < 0.03
    said = f"feet: while they stood they slid at {feet['before']:.2f} m/s, now at {feet['after']:.2f} m/s"
    assert said in done.stderr
    given, fixed = (motionkit.read(name).motion for name in ("plain.npz", "fixed.npz"))
    assert isinstance(given, Motion)
    torch.testing.assert_close(fixed.positions(), fix_feet(given).motion.positions(), atol=1e-3, rtol=0)
    assert 0.02 < float((fixed.positions() - given.positions()).norm(dim=-1).max()) < 0.15
    fast = cli("predict", model, "fast.npz", *words[:-1], "--fix", "feet", "--fps", 60)
    assert fast.exit_code == 0, fast.stderr
    assert motionkit.read("fast.npz").fps == 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("out.txt",), "is not a motion file"),
        (("out.bvh", "--clip", "nobody"), "has no clip nobody"),
        (("out.bvh", "--at", 600), "end after that"),
        (("out.bvh", "--warmup", 9999), "which it reads at least"),
        (("out.bvh", "--path", "absent.csv"), "absent.csv"),
        (("out.bvh", "--start", "absent.bvh"), "absent.bvh"),
        (("out.bvh", "--fix", "hands"), "feet"),
        (("out.bvh", "--path", "jump.csv"), "jump.csv: the path jumps before line 3"),
        (("out.bvh", "--path", "cells.csv"), "cells.csv, line 2 has 4 cells for 3 columns"),
        (("out.bvh", "--path", "one.csv"), "one.csv has no point"),
        (("out.bvh", "--path", "empty.csv"), "it is empty"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    model: Path, cli: Cli, words: tuple[object, ...], said: str
) -> None:
    Path("jump.csv").write_text("seconds,x,z\n0,0,0\n0.1,4,0\n")
    Path("cells.csv").write_text("seconds,x,z\n0,5,0,0\n")
    Path("one.csv").write_text("seconds,x,z\n")
    Path("empty.csv").write_text("")
    done = cli("predict", model, *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path.cwd().glob("out.*"))


def test_the_default_export_is_the_first_that_the_model_has(model: Path, cli: Cli) -> None:
    done = cli("export", model, "out", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["to"] == "safetensors"
    assert_refused(cli("export", model, "mdm", "--to", "mdm"), "cannot be exported to mdm")
    Path("clips").mkdir()
    for number in range(3):
        write_clip(Path("clips"), number, "train" if number < 2 else "val")
    measured = cli("eval", "mpl", "out", "--data", "clips", "--horizons", "100", "--long", "", "--set", "stride=20")
    assert measured.exit_code == 0, measured.stderr


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
    assert "2 held-out takes are too few" in document["verdict"]
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


def test_a_model_of_another_kind_is_refused_in_the_words_of_predict(cli: Cli) -> None:
    done = cli("predict", "starter", "walk.bvh")
    assert done.exit_code == 2
    assert "predict continues clips with motion predictors" in done.stderr
    assert "eval" not in done.stderr


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
    assert_refused(cli("pretrain", "mpl-encoder", *arguments, "--out", tmp_path / "run"), said)
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
    assert_refused(
        cli("pretrain", "--lr", "0.001", "--batch", "8"),
        "motionkit pretrain mpl-encoder --learning-rate 0.001 --batch-size 8",
    )


@pytest.mark.parametrize(
    ("path", "run"), [("../models/motion/best_encoder.pt", "../models/motion"), ("pretrained_encoder.pt", "RUN")]
)
def test_the_guides_encoder_file_becomes_the_run_that_holds_it(path: str, run: str, cli: Cli) -> None:
    words = fix_of(cli("python", "training_MPL.py", "--encoder", path, "--json"))
    assert words == ["motionkit", "train-mpl", "--encoder", run]


Run = Callable[..., Result]


def test_a_file_of_weights_cannot_be_resumed(cli: Run) -> None:
    torch.save({"model_state_dict": {"a": torch.zeros(2)}}, "checkpoint_epoch_10.pt")
    assert_refused(
        cli("train-mpl", "--resume", "checkpoint_epoch_10.pt"), "cannot be resumed", "--init checkpoint_epoch_10.pt"
    )
    assert [path.name for path in Path.cwd().iterdir()] == ["checkpoint_epoch_10.pt"]
    assert "--init" not in cli("grpo", "--resume", "checkpoint_epoch_10.pt").stderr
