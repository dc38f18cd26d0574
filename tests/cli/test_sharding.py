"""Two processes share out the weights of a policy (`--shard full`): its numbers, checkpoints, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner

from motionkit.cli import get_app

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
def test_a_sharded_policy_trains_as_one_process_does_and_goes_on_in_either_way(model: Path, tmp_path: Path) -> None:
    policy = ("--policy", "sa2va", "--policy.checkpoint", str(model), "--policy.lora-rank", "4",
              "--policy.max-words", "8", "--policy.max-tiles", "1", "--policy.gradient-checkpointing")  # fmt: skip
    one, two = tmp_path / "one", tmp_path / "two"
    words = [*SA2VA, *policy, "--num-steps", "5"]
    alone([*words, "--out", str(one)])
    together([*words, "--shard", "full", "--out", str(two)], two)
    places = [run / "checkpoints" / "step-00000005" for run in (one, two)]
    for name in ("model", "optimizer", "partner", "start"):
        mine, theirs = (load_file(place / f"{name}.safetensors") for place in places)
        assert {key: value.shape for key, value in mine.items()} == {key: value.shape for key, value in theirs.items()}
        assert distance(mine, theirs) < CLOSE, name
    # Adapters and the other trained parts alone; they have moved far beyond that.
    assert not any("base_layer" in name or name.startswith("vision_model") for name in weights(two, 5))
    assert distance(weights(one, 5), weights(one, 1)) > 10 * CLOSE
    kept = weights(one, 5), weights(two, 5)
    alone([*words, "--resume", str(two / "checkpoints" / "step-00000004")])
    together([*words, "--shard", "full", "--resume", str(one / "checkpoints" / "step-00000004")], one)
    for run in (one, two):
        assert all(distance(weights(run, 5), each) < CLOSE for each in kept)


@pytest.mark.slow
def test_the_small_policy_is_sharded_too(tmp_path: Path) -> None:
    words = [*SA2VA, "--num-steps", "5"]
    alone([*words, "--out", str(tmp_path / "one")])
    together([*words, "--shard", "full", "--out", str(tmp_path / "two")], tmp_path / "two")
    assert distance(weights(tmp_path / "one", 5), weights(tmp_path / "two", 5)) < CLOSE
    assert distance(weights(tmp_path / "one", 5), weights(tmp_path / "one", 1)) > 10 * CLOSE


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
