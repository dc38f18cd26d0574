"""Runs that were trained with a text model of the user's own: moved, exchanged, resumed, generated from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from motionkit.text import load_encoder
from motionkit.text_to_motion.tmr.files import save_tmr
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from .conftest import DATA, SHAPE, SHORT

Cli = Callable[..., Result]
PRETRAIN = (*DATA, *SHAPE, *SHORT, "--set", "model.diffusion_steps=10", "--text.encoder", "clip")


@pytest.fixture
def moved(tiny: Any, clip: Path, cli: Cli) -> Path:
    """A run folder ``mdm``, and ``run``, a grpo run on it; their text model has moved since. Returns its new place."""
    shutil.copytree(clip, "clip")
    assert (made := cli("pretrain", "mdm", *PRETRAIN, "--text.model", "clip", "--out", "mdm")).exit_code == 0, (
        made.stderr
    )
    run = cli(*tiny.grpo("run", steps=1), "--policy.checkpoint", "mdm", "--policy.text-model", "clip")
    assert run.exit_code == 0, run.stderr
    return Path("clip").rename("moved")


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in " ".join(result.stderr.split())


def test_resume_takes_the_new_place_of_the_same_model(moved: Path, other_clip: Path, cli: Cli) -> None:
    refused(cli("grpo", "--resume", "run", "--num-steps", 2), "there is no folder clip", "--policy.text-model DIR")
    refused(
        cli("grpo", "--resume", "run", "--num-steps", 2, "--policy.text-model", other_clip), "another clip text model"
    )
    result = cli("grpo", "--resume", "run", "--num-steps", 2, "--policy.text-model", moved)
    assert result.exit_code == 0, result.stderr
    assert json.loads(Path("run/config.json").read_text())["policy"]["text_model"] == "moved"
    other = cli("pretrain", "mdm", "--resume", "mdm", "--text.model", other_clip)
    refused(other, "text.model was 'clip', is", "other-clip")
    again = cli("pretrain", "mdm", "--resume", "mdm", "--text.model", moved)
    assert again.exit_code == 0, again.stderr


def test_generate_uses_the_folder_that_the_run_was_trained_with(moved: Path, other_clip: Path, cli: Cli) -> None:
    words = ("generate", "a man walks", "out", "--policy.checkpoint", "run", "--durations", "1", "--device", "cpu")
    refused(cli(*words), "there is no such folder", str(Path("clip").absolute()), "--policy.text-model DIR")
    moved.rename("clip")
    result = cli(*words)
    assert result.exit_code == 0, result.stderr
    start = cli("pretrain", "mdm", *PRETRAIN, "--text.model", other_clip, "--init", "mdm", "--out", "next")
    refused(start, "another clip text model")


def test_a_clip_folder_where_distilbert_belongs(clip: Path, tiny: Any, cli: Cli) -> None:
    encoder = load_encoder("clip", model=str(clip))
    save_tmr(Path("tmr"), new_tmr(ActorSizes(263, 8, 16, 1, 2), torch.zeros(263), torch.ones(263), encoder))
    config = json.loads(Path("tmr/config.json").read_text())
    Path("tmr/config.json").write_text(json.dumps({**config, "text": {"encoder": "distilbert"}}))
    words = tiny.grpo("run", "--reward.weights", "tmr", "--reward.text-model", clip)
    refused(cli(*words), "holds a model of type clip, the distilbert encoder runs distilbert")
    assert not Path("run").exists()
