"""Self-play of a small Hugging Face folder from the command line: a step, save, load, resume to the bit, export."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import Result

from motionkit_regions.sa2va import Sa2vaOptions
from motionkit_regions.sa2va.open import open_sa2va
from tests.made.small_sa2va import write_model

pytest.importorskip("transformers")
Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "sa2va")


def line(model: Path, *more: object) -> list[object]:
    return [
        "sa2va-rl", "--policy", "sa2va", "--policy.checkpoint", model, "--policy.lora-rank", 4, "--policy.max-words", 8,
        "--batch-size", 2, "--group-size", 3, "--set", "heldout.regions=4", "--threads", 1, "--device", "cpu", *more,
    ]  # fmt: skip


def test_steps_of_both_loops_are_saved_opened_exported_and_resumed_to_the_bit(model: Path, cli: Cli) -> None:
    done = cli(*line(model, "--num-steps", 2, "--name", "a", "--set", "checkpoint.every=1"))
    assert done.exit_code == 0, done.stderr
    metrics = json.loads(Path("runs/sa2va-rl/a/metrics.jsonl").read_text().splitlines()[0])
    assert {"loop1/loss", "loop2/loss", "loop1/reward_mean", "loop2/reward_mean"} <= metrics.keys()
    assert metrics["loop1/clip_frac"] == 0
    run = Path("runs/sa2va-rl/a")
    assert json.loads((run / "run.json").read_text())["inputs"]["policy.checkpoint"]
    trained = load_file(run / "policy-last/model.safetensors")
    start = open_sa2va(Sa2vaOptions(checkpoint=str(model), lora_rank=4, max_words=8)).tensors()
    moved = [name for name, one in trained.items() if not torch.equal(one, start[name])]
    for part in ("mlp1", "language_model", "text_hidden_fcs"):
        assert any(name.startswith(part) for name in moved), part
    again = open_sa2va(Sa2vaOptions(checkpoint=str(run)))
    assert all(
        torch.equal(one, again.tensors()[name]) for name, one in load_file(run / "policy/model.safetensors").items()
    )
    done = cli("export", run, "out", "--to", "hf")
    assert done.exit_code == 0, done.stderr
    out = open_sa2va(Sa2vaOptions(checkpoint="out", lora_rank=0))
    merged = dict(out.network.named_parameters())["language_model.model.layers.0.self_attn.q_proj.weight"]
    plain = load_file(model / "model.safetensors")["language_model.model.layers.0.self_attn.q_proj.weight"]
    assert merged.shape == plain.shape
    stopped = Path("runs/sa2va-rl/two")
    shutil.copytree("runs/sa2va-rl/a", stopped)
    (stopped / "policy-last/model.safetensors").unlink()
    rest = cli("sa2va-rl", "--resume", stopped / "checkpoints/step-00000001")
    assert rest.exit_code == 0, rest.stderr
    other = load_file(stopped / "policy-last/model.safetensors")
    assert trained.keys() == other.keys()
    assert all(torch.equal(one, other[name]) for name, one in trained.items())


def test_all_checks_hold(model: Path, cli: Cli) -> None:
    done = cli(*line(model, "--check", "--loop2.action", "multimask"))
    failed = [said for said in done.stdout.splitlines() if not said.startswith("ok")]
    # Random weights say and draw nothing that a reward could tell apart; all else must hold.
    assert all("something to learn from" in said for said in failed), done.stdout
    assert "trained parts: each is reached by a loop" in done.stdout
    assert "[SEG] is one token" in done.stdout


def test_code_is_trusted_only_where_that_is_typed(model: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(
        f'[policy]\nname = "sa2va"\ncheckpoint = "{model}"\ntrust_remote_code = true\n'
    )
    done = cli("sa2va-rl", "--config", tmp_path / "settings.toml", "--dry-run")
    assert done.exit_code == 2
    assert "counts only where it is typed" in done.stderr
    assert "add to the command: --trust-remote-code\n" in done.stderr
    assert cli(*line(model, "--trust-remote-code", "--dry-run")).exit_code == 0
