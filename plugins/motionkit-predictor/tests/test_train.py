"""`train-mpl`: it learns, its control does not, it resumes to the bit, it writes what `eval mpl` opens."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import HUMANML, Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.clips import Windows
from motionkit_predictor.data.files import _motion, open_clip_set
from motionkit_predictor.encoder.network import EncoderSizes, MotionEncoder, Scales, save_encoder
from motionkit_predictor.evaluation.data import find_predictor, open_predictor
from motionkit_predictor.policy import MplPredictor
from motionkit_predictor.states import MotionState, follow
from motionkit_predictor.training import trainer as _trainer
from motionkit_predictor.training.objective import Objective
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.training.trainer import TrainMpl
from tests.made.training import run_in_parts, run_trainer

NAMES = ("walk/normal", "wave/right", "run/normal", "limp/left")
COMMAND = "train-mpl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve clips of one skeleton, eight to train on; one is shorter than a window."""
    out = tmp_path_factory.mktemp("mpl")
    for number in range(12):
        frames = 20 if number == 3 else 50
        made = _motion(perform([Order(NAMES[number % 4], frames, number)], fps=30.0)[0])
        write_mpl_npz(out / f"clip{number:02d}.npz", Clip(made, split="train" if number < 8 else "val"), source_hash="")
    return out


def settings(folder: Path, out: Path | None = None, **changes: Any) -> TrainMplSettings:
    base: dict[str, Any] = {
        "run": {"epochs": 3, "out": out},
        "data": [str(folder)],
        "encoder": "none",
        "model": {"head": "both", "width": 32, "window": 4, "heads": 2, "shot": 0.3, "cosines": 4, "dropout": 0.1},
        "train": {"batch_size": 16, "seq_len": 34, "known": 20, "stride": 4, "val_stride": 8, "long": []},
        "freerun": {"horizon": 4, "first_horizon": 2},
        "teacher": {"frames": 3},
        "optim": {"learning_rate": 3e-3, "warmup_steps": 2},
        "threads": 1,
    }
    for name, value in changes.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base else value
    return TrainMplSettings.model_validate(base)


def train(folder: Path, out: Path | None, *, stop_after: int = 0, **changes: Any) -> tuple[TrainMpl, Mapping[str, Any]]:
    made: tuple[TrainMpl, Mapping[str, Any]] = run_trainer(
        TrainMpl, COMMAND, settings(folder, out, **changes), out, stop_after=stop_after
    )
    return made


def weights(out: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(out / "policy" / "model.safetensors")


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    _, parts = train(folder, out, train={"long": [2]})
    return out, parts


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end with their weights: they do not fit the baselines, which takes longer than their few steps."""
    monkeypatch.setattr(TrainMpl, "_finish", lambda *_: {"table": []})


def test_opening_gathers_no_more_than_it_looks_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At 1000 frames per second a window has hundreds of known ones; of 8 clips all together were gigabytes."""
    gathered: list[int] = []
    inner = Windows._gather

    def counted(windows: Windows, index: torch.Tensor, first: int, count: int) -> MotionState:
        gathered.append(len(index) * count)
        return inner(windows, index, first, count)

    monkeypatch.setattr(Windows, "_gather", counted)
    trainer = TrainMpl(settings(folder))
    with caplog.at_level("INFO", logger="motionkit.train_mpl"):
        trainer.prepare()
    windows = trainer.data.train
    assert 0 < sum(gathered) <= len(windows) * (1 + windows.future)
    assert f"12 clips at 30 fps: {len(windows)} windows of 34 frames to train on" in caplog.text


def test_it_says_who_wins(finished: tuple[Path, Mapping[str, Any]]) -> None:
    out, parts = finished
    assert parts["heldout"].keys() == {"skill", *(f"mpl/geo_deg/{ms}" for ms in (100, 200, 400, 1000))}
    assert parts["rows"].keys() == {"model", "hold", "velocity", "damped", "ridge", "nearest"}
    assert parts["verdict"].startswith(("a baseline is at least as good", "the model has a smaller"))
    assert parts["free_teacher_ratio"] > 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = lines[-1]
    assert sum(last[f"loss_group/{group}"] for group in ("core", "aux", "long")) == pytest.approx(1.0)
    assert last["teacher/share"] == 0.0
    assert lines[0]["teacher/share"] == 1.0
    assert last["freerun/horizon"] == 4


def test_it_measures_long_runs_and_warns_of_them(finished: tuple[Path, Mapping[str, Any]]) -> None:
    out, parts = finished
    long = parts["long"]
    assert long["seconds"] == ["2"]
    assert list(long["free"]["rows"]) == ["model", "hold", "matching"]
    assert long["free"]["runs"] == 4, "the validation clips"
    assert len(long["drawn"]["paths"]) == 8
    value = long["drawn"]["mean"]["model"]["path_mean"]["2"]
    assert parts["metrics"]["mpl/long/path_mean/2"] == value > 0
    assert [table["title"].partition(" ")[0] for table in parts["table"]] == ["GeoDeg", "at", "4", "the", "along"]
    assert long["alarms"], "three epochs of a tiny network follow no path"
    log = (out / "log.txt").read_text()
    assert all(text in log for text in long["alarms"])


def test_eval_opens_the_run(folder: Path, finished: tuple[Path, Mapping[str, Any]]) -> None:
    out, _ = finished
    predictor = open_predictor(find_predictor(str(out)), None, device="cpu")
    assert isinstance(predictor, MplPredictor)
    assert predictor.names == HUMANML.joint_names
    train = open_clip_set([str(folder)], 30.0, ("train",)).clips
    speeds = [sorted((30.0 * clip.state.steps[:, :2].norm(dim=-1)).tolist()) for clip in train]
    assert predictor.fastest == pytest.approx(max(one[round(0.9 * (len(one) - 1))] for one in speeds), rel=0.05)


@pytest.mark.parametrize(("command", "frames"), [("both", math.ceil((14 + 30) * 1.2)), ("none", 14)])
def test_windows_are_read_as_far_as_their_path_is_told(folder: Path, command: str, frames: int) -> None:
    """34 frames, 20 of them known; the path is read a second ahead, and a window that is a fifth faster needs more."""
    trainer = TrainMpl(settings(folder, model={"command": command}, augmentation={"speed_scale_range": (0.75, 1.2)}))
    trainer.prepare()
    (batch,) = trainer.batches(1)
    assert batch.future == 14
    assert batch.truth.frames == frames


def test_a_training_path_begins_beside_the_motion_and_comes_back(folder: Path) -> None:
    """What the network is told of windows from their first frame on: with no distance, the truth itself."""
    seen = []
    for off in (0.0, 0.5):
        trainer = TrainMpl(settings(folder, train={"path_off": off, "path_share": 1.0}))
        trainer.prepare()
        (batch,) = trainer.batches(1)
        objective = Objective(trainer.settings, trainer._body, trainer.predictor.network, trainer.batches)
        here = torch.zeros(len(batch.valid), dtype=torch.long)
        course = objective._course(batch, here, (3, 30), 14, torch.Generator().manual_seed(0))
        assert course is not None
        place, _ = follow(batch.truth.steps)
        seen.append(course.at(torch.zeros(len(here), 2), torch.zeros(len(here)), 0)[:, [0, 1, 4, 5]])
    true = torch.cat([place[:, 2], place[:, 29]], dim=-1)
    assert torch.allclose(seen[0], true, atol=1e-5)
    assert torch.allclose(seen[1][:, 2:], true[:, 2:], atol=1e-5)
    assert float((seen[1][:, :2] - true[:, :2]).std()) == pytest.approx(0.5 * 27 / 30, rel=0.4)


def test_a_weight_that_has_no_encoder_is_warned_of(
    folder: Path, tmp_path: Path, unmeasured: None, caplog: pytest.LogCaptureFixture
) -> None:
    """The guide's stages weigh latent_consistency; without an encoder it was said in one of six lines of notes."""
    stages = [{"range": [1, 1], "trainer": {"w_latent_consistency": 0.1}}]
    with caplog.at_level("WARNING", logger="motionkit"):
        train(folder, tmp_path / "run", stages=stages, run={"epochs": 1})
    (said,) = [record.getMessage() for record in caplog.records if "latent_consistency" in record.getMessage()]
    assert "w_latent_consistency) has no effect: there is no encoder" in said
    assert "motionkit pretrain mpl-encoder" in said


def test_the_short_clip_is_named(folder: Path) -> None:
    trainer = TrainMpl(settings(folder))
    trainer.prepare()
    plan = trainer.describe()
    assert "clip03" in " ".join(plan["notes"])
    assert plan["encoder"] == "none"


@pytest.mark.parametrize("stop_after", [2, 5])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    folder: Path, finished: tuple[Path, Mapping[str, Any]], tmp_path: Path, stop_after: int
) -> None:
    whole, parts = finished
    out = tmp_path / "stopped"
    train(folder, out, stop_after=stop_after)
    assert not (out / "policy" / "model.safetensors").exists()
    _, rest = run_trainer(TrainMpl, COMMAND, settings(folder, run={"epochs": 3, "resume": out, "out": None}), None)
    first, second = weights(whole), weights(out)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert rest["heldout"] == parts["heldout"]
    assert rest["long"] is None  # long runs are left out here
    assert not [name for name in rest["metrics"] if "long" in name]


@pytest.mark.usefixtures("unmeasured")
def test_a_run_of_before_other_paths_goes_on_in_the_same_bits(folder: Path, cli: Callable[..., Any]) -> None:
    """Its config.json knows neither curves, nor starts beside the path, nor where the root is: it had none of them."""
    small = settings(folder, loss={"place": 0.0}, augmentation={"bend": 0.0, "speed_scale_range": (1.0, 1.0)},
                     checkpoint={"every": 1}).model_dump(mode="json")  # fmt: skip
    small["train"] |= {"path_off": 0.0}
    Path("small.json").write_text(json.dumps({name: small[name] for name in (
        "data", "encoder", "model", "train", "freerun", "teacher", "loss", "augmentation", "optim", "checkpoint")
    }))  # fmt: skip
    assert cli("train-mpl", "--config", "small.json", "--epochs", "2", "--out", "whole").exit_code == 0
    shutil.copytree("whole", "old")
    last = max(path.name for path in Path("old/checkpoints").glob("step-*"))
    shutil.rmtree(f"old/checkpoints/{last}")
    shutil.rmtree("old/policy")
    config = json.loads(Path("old/config.json").read_text())
    for group, name in (("loss", "place"), ("augmentation", "bend"), ("train", "path_off")):
        assert config[group].pop(name) == 0.0
    Path("old/config.json").write_text(json.dumps(config))
    found = cli("train-mpl", "--resume", "old")
    assert found.exit_code == 0, found.output
    one, two = weights(Path("whole")), weights(Path("old"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.usefixtures("unmeasured")
def test_adaptive_weights_resume_as_well(folder: Path, tmp_path: Path) -> None:
    adaptive = {"method": "gradnorm", "terms": ["rot_local", "root", "freerun"]}
    four = {"adaptive": adaptive, "run": {"num_steps": 4}}
    train(folder, tmp_path / "whole", **four)
    run_in_parts(TrainMpl, COMMAND, settings(folder, **four), tmp_path / "part", stop_after=2)
    first, second = weights(tmp_path / "whole"), weights(tmp_path / "part")
    assert all(torch.equal(first[name], second[name]) for name in first)
    line = json.loads((tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()[-1])
    factors = [line[f"adaptive_loss/{name}/weight"] for name in adaptive["terms"]]
    assert sum(factors) == pytest.approx(3.0, abs=1e-5)
    assert factors != [1.0, 1.0, 1.0]


LONGER = {
    "run": {"epochs": 12}, "train": {"ema": 0.8, "val_every": 0}, "model": {"head": "delta", "dropout": 0.0},
    "optim": {"learning_rate": 5e-3},
}  # fmt: skip


def test_it_learns_and_with_the_truth_of_other_windows_it_does_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: with the futures of a batch exchanged there is nothing to learn but the mean pose."""
    true = train(folder, tmp_path / "true", **LONGER)[1]["heldout"]
    assert true["skill"]["after"] > max(0.1, true["skill"]["before"] + 0.1)

    class Exchanged(_trainer.WindowBatches):
        def __call__(self, step: int) -> Any:
            found = super().__call__(step)
            return [replace(one, truth=one.truth.map(lambda values: values.roll(5, 0))) for one in found]

    monkeypatch.setattr(_trainer, "WindowBatches", Exchanged)
    monkeypatch.setattr(TrainMpl, "_finish", lambda *_: {"table": []})  # only its losses are looked at
    train(folder, tmp_path / "false", **LONGER)
    near = "mpl/geo_deg/100"
    assert true[near]["after"] < 0.9 * true[near]["before"]

    def last(name: str) -> float:
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()[-5:]
        return sum(json.loads(line)["loss/rot_local"] for line in lines) / len(lines)

    assert last("true") < 0.7 * last("false")


_SIZES = EncoderSizes(width=16, layers=2)


@pytest.mark.usefixtures("unmeasured")
def test_an_encoder_is_used_and_stays_as_it_is(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = MotionEncoder(_SIZES, HUMANML.joint_names, 30.0, Scales.neutral(22))
    save_encoder(tmp_path / "encoder", encoder)
    train(
        folder, tmp_path / "run", encoder=str(tmp_path / "encoder"), loss={"latent_consistency": 0.1}, run={"epochs": 1}
    )
    saved = weights(tmp_path / "run")
    for name, value in encoder.state_dict().items():
        assert torch.equal(saved[f"encoder.{name}"], value), name
    assert float(saved["delta.trunk.period.weight"].abs().max()) > 0
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["loss/latent_consistency"] > 0
    assert line["loss_group/long"] > 0


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (MotionEncoder(_SIZES, HUMANML.joint_names, 20.0, Scales.neutral(22)), "20 frames per second"),
        (MotionEncoder(_SIZES, HUMANML.joint_names[:5], 30.0, Scales.neutral(5)), "another skeleton"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, encoder: MotionEncoder, said: str
) -> None:
    save_encoder(tmp_path / "encoder", encoder)
    with pytest.raises(MotionkitError) as refused:
        TrainMpl(settings(folder, encoder=str(tmp_path / "encoder"))).prepare()
    assert said in refused.value.why


def test_without_clips_to_validate_the_last_weights_are_kept(folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for number in range(3):
        (few / f"clip0{number}.npz").write_bytes((folder / f"clip0{number}.npz").read_bytes())
    out = tmp_path / "run"
    _, parts = train(few, out, run={"epochs": 1})
    assert "heldout" not in parts
    assert (out / "policy" / "model.safetensors").exists()


@pytest.mark.usefixtures("unmeasured")
def test_more_shots_leave_the_delta_head_as_it_is(folder: Path, tmp_path: Path) -> None:
    """The one-shot head has optimiser steps of its own; the other head must not see them.

    All windows are told their path, and none is changed: which of them are is drawn after the shots.
    """
    unchanged = {"mirror": 0.0, "bend": 0.0, "speed_scale_range": (1.0, 1.0)}
    still = {"optim": {"grad_clip": 0.0}, "model": {"dropout": 0.0}, "augmentation": unchanged, "run": {"epochs": 1}}
    found = []
    for number in (1, 3):
        out = tmp_path / str(number)
        train(folder, out, train={"shot_batches": number, "ema": 0.0, "val_every": 0, "path_share": 1.0}, **still)
        found.append(weights(out))
    once, often = found
    of_delta = [name for name in once if name.startswith("delta.")]
    of_shot = [name for name in once if name.startswith("shot.") and name.endswith("weight")]
    assert of_delta
    assert all(torch.equal(once[name], often[name]) for name in of_delta)
    assert any(not torch.equal(once[name], often[name]) for name in of_shot)
