"""Two processes share out the weights of a policy (`--shard full`): its numbers, checkpoints, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.cli._stop import _cause
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.training.world import OneProcess
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.train import Sa2vaRl

from ..made.processes import alone, distance, ends, start, together, weights
from ..made.small_sa2va import write_model

SA2VA = (
    "sa2va-rl", "--device", "cpu", "--batch-size", "2", "--group-size", "2", "--set", "heldout.regions=2",
    "--set", "heldout.every=0", "--set", "checkpoint.every=1", "--set", "checkpoint.keep=9",
)  # fmt: skip
CLOSE = 1e-6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a small Sa2VA."""
    pytest.importorskip("transformers")
    return write_model(tmp_path_factory.mktemp("sa2va") / "model")


@pytest.mark.slow
def test_sharded_weights_beside_whole_ones(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SA2VA", str(model))
    found = ends(start([], tmp_path / "run", program=str(Path(__file__).with_name("sharded.py"))))
    assert [code for code, _, _ in found] == [0, 0], found


@pytest.mark.slow
def test_a_sharded_policy_trains_as_one_process_does_which_goes_on_alone(model: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    words = [
        *SA2VA, "--policy", "sa2va", "--policy.checkpoint", str(model), "--policy.lora-rank", "4", "--policy.max-words",
        "4", "--policy.max-tiles", "1", "--policy.gradient-checkpointing", "--num-steps", "5",
    ]  # fmt: skip
    alone([*words, "--out", str(one)])
    (_, _, err), _ = together([*words, "--shard", "full", "--out", str(two)], two)
    assert "memory plan: weights in each of 2 processes" in err
    for name in ("model", "optimizer", "partner", "start"):
        mine, theirs = (load_file(run / "checkpoints" / "step-00000005" / f"{name}.safetensors") for run in (one, two))
        assert {key: value.shape for key, value in mine.items()} == {key: value.shape for key, value in theirs.items()}
        assert distance(mine, theirs) < CLOSE, name
    # Adapters and the other trained parts alone; they have moved far beyond that.
    assert not any("base_layer" in name or name.startswith("vision_model") for name in weights(two, 5))
    assert distance(weights(one, 5), weights(one, 1)) > 10 * CLOSE
    alone([*words, "--shard", "none", "--resume", str(two / "checkpoints" / "step-00000004")])
    assert distance(weights(one, 5), weights(two, 5)) < CLOSE


@pytest.mark.slow
def test_a_run_of_the_small_policy_goes_on_sharded(tmp_path: Path) -> None:
    words, run = [*SA2VA, "--num-steps", "5"], tmp_path / "run"
    alone([*words, "--out", str(run)])
    found, before = weights(run, 5), weights(run, 2)
    _, other = together([*words, "--shard", "full", "--resume", str(run / "checkpoints" / "step-00000002")], run)
    assert other == (0, "", "")
    assert distance(found, weights(run, 5)) < CLOSE
    assert distance(found, before) > 10 * CLOSE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shard", "full"), "--shard full shares out a policy over several processes, and this is one."),
        (("--shard", "half"), "none"),
    ],
)
def test_what_cannot_be_sharded_is_refused_before_anything_starts(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(get_app(), [*SA2VA, *words, "--out", str(tmp_path / "run"), "--json"])
    assert result.exit_code == 2
    assert said in json.dumps(result.stdout) + result.stderr
    assert not (tmp_path / "run").exists()


class Two(OneProcess):
    size = 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loops": {"balance": "gradient"}}, "loops.balance=gradient has no meaning with --shard full."),
        ({"loops": {"conflict_every": 5}}, "loops.conflict_every has no meaning with --shard full."),
        ({"check": True}, "--check is made of a whole policy."),
        ({"policy": "whole"}, "the policy tiny-sa2va cannot be sharded."),
    ],
)
def test_what_needs_whole_weights_is_refused(
    changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if changes.pop("policy", ""):
        monkeypatch.setattr(Component, "load", lambda self: lambda options, device, dataset: None)
    trainer = Sa2vaRl(Sa2vaRlSettings.model_validate({"shard": "full", **changes}))
    trainer.world = Two()
    with pytest.raises(MotionkitError) as caught:
        trainer.prepare()
    assert caught.value.message == said
    assert caught.value.code == 2


@pytest.mark.parametrize("ended", [True, False])
def test_an_exchange_that_fails_because_another_process_has_ended_has_its_reason(ended: bool) -> None:
    reason, failed = MotionkitError("process 1 of 2: the gradient broke."), RuntimeError("connection closed")
    words: Any = SimpleNamespace(ended=ended, of_the_others=lambda: reason)
    assert _cause(words, failed) is (reason if ended else failed)
    assert _cause(words, own := MotionkitError("of this process")) is own
