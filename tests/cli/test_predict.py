"""`motionkit predict` and `export` of a predictor, from a run to files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.datasets.motions import starter_clip_set
from motionkit.policies.mpl import PredictorSettings
from motionkit.policies.mpl.api import MplPredictor, PredictorNetwork, Statistics

Cli = Callable[..., Any]


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("out.txt",), "is no motion file"),
        (("out.bvh", "--clip", "nobody"), "has no clip nobody"),
        (("out.bvh", "--at", 600), "end after that"),
        (("out.bvh", "--path", "absent.csv"), "absent.csv"),
        (("out.bvh", "--start", "absent.bvh"), "absent.bvh"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    model: Path, cli: Cli, words: tuple[object, ...], said: str
) -> None:
    done = cli("predict", model, *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(Path.cwd().glob("out.*"))


def test_the_default_export_is_the_first_that_the_model_has(model: Path, cli: Cli) -> None:
    done = cli("export", model, "out", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["to"] == "safetensors"
    other = cli("export", model, "mdm", "--to", "mdm")
    assert other.exit_code == 2
    assert "cannot be exported to mdm" in other.stderr
    assert cli("eval", "mpl", "out", "--horizons", "100", "--set", "stride=40").exit_code == 0
