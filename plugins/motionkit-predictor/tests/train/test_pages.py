"""``--init``, and what a run of train-mpl leaves to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion
from motionkit_predictor.evaluation.kept import Predictions
from motionkit_predictor.evaluation.long.measure import DRAWN
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.network.predictor import PredictorNetwork
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.training.start import initialise

NAMES = ("walk/normal", "wave/right", "run/normal", "jump/forward", "limp/left", "sneak/forward")


def test_a_finished_run_shows_its_predictions(tmp_path: Path, cli: Callable[..., Result]) -> None:
    for number in range(12):
        made = _motion(perform([Order(NAMES[number % 6], 60, number)], fps=30.0)[0])
        split = "train" if number < 6 else "val"
        write_mpl_npz(tmp_path / f"clip{number:02d}.npz", Clip(made, split=split), source_hash="")
    words = ("train-mpl", "--data", tmp_path, "--epochs", 1, "--encoder", "none", "--device", "cpu", "--out", "run")
    done = cli(*words, "--set", "model.width=32", "--set", "train.stride=5", "--set", "train.long=2", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    kept = Predictions.load(Path("run/heldout/predictions.npz"))
    worst = document["worst_clips"]["clips"]
    assert [one.key for one in kept.clips[:3]] == [one["clip"] for one in worst[:3]]
    assert kept.clips[0].errors == worst[0]["geo_deg"]
    assert document["heldout"]["skill"]["n"] == 6
    page = Path("run/report.html").read_text()
    assert page.count("<motionkit-player ") == 5
    assert page.count("<motionkit-player><script") == len(kept.paths) == len(DRAWN)
    assert "Error against horizon" in page
    assert "before.npz" not in page


TINY: dict[str, Any] = {"head": "delta", "width": 32, "layers": 1, "heads": 2, "window": 4}


def network(joints: int = 3, seed: int = 0, **changes: Any) -> PredictorNetwork:
    torch.manual_seed(seed)
    return PredictorNetwork(PredictorSettings(**{**TINY, **changes}), joints, 30.0, Statistics.neutral(joints))


def test_the_same_network_is_taken_whole(tmp_path: Path) -> None:
    other, mine = network(seed=1), network()
    torch.save({"epoch": 10, "model_state_dict": other.state_dict(), "optimizer": {"lr": 1e-3}}, tmp_path / "best.pt")
    found = initialise(mine, tmp_path / "best.pt")
    assert len(found.taken) == len(other.state_dict())
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in mine.state_dict().items())
    assert found.sentence() == f"{len(found.taken)} of {len(found.taken)} tensors of the network are from " + (
        f"{tmp_path / 'best.pt'}."
    )


def test_what_has_another_shape_or_is_missing_is_named(tmp_path: Path) -> None:
    source = network(seed=1).state_dict()
    name = next(iter(source))
    source["something.else"] = torch.zeros(2)
    wider = next(key for key, value in source.items() if value.ndim == 2)
    source[wider] = torch.zeros(3, 3)
    del source[name]
    safetensors.torch.save_file({key: value.clone() for key, value in source.items()}, tmp_path / "a.safetensors")
    mine = network()
    before = {key: value.clone() for key, value in mine.state_dict().items()}
    found = initialise(mine, tmp_path / "a.safetensors")
    assert (found.other_shape, found.missing, found.unused) == ((wider,), (name,), 1)
    for key, value in mine.state_dict().items():
        assert torch.equal(value, before[key] if key in (wider, name) else source[key])
    assert f"1 have another shape there: {wider}" in found.sentence()


def test_weights_of_the_guides_own_code_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "best_model.pt"
    torch.save({"model_state_dict": {"motion_head.0.weight": torch.zeros(512, 512)}}, file)
    mine = network()
    before = {key: value.clone() for key, value in mine.state_dict().items()}
    with pytest.raises(MotionkitError) as caught:
        initialise(mine, file)
    assert caught.value.code == 2
    assert "motion_head.0.weight [512, 512]" in caught.value.why
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    source = {name: value.clone().float() for name, value in network(seed=1).state_dict().items()}
    source[next(iter(source))].fill_(float("nan"))
    torch.save(source, tmp_path / "nan.pt")
    torch.save({"epoch": 3}, tmp_path / "none.pt")
    for name, word in (("nan.pt", "not finite"), ("none.pt", "no weights"), ("", "train-mpl"), ("lost.pt", "lost.pt")):
        with pytest.raises(MotionkitError, match=word):
            initialise(network(), tmp_path / name)
