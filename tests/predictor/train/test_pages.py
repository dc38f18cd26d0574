"""What a run of train-mpl leaves to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.predictor.data import _motion
from motionkit.predictor.evaluation.kept import Predictions
from motionkit.predictor.evaluation.long.measure import DRAWN
from motionkit.starter import Order, perform

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
