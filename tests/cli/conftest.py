"""Tiny weights for the tests that go through the command line, made by the commands themselves, once per session."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from motionkit.cli import get_app

from ..made.forks import Forked, Forks
from ..made.own_runs import RUNS, place_of, typed, write_data

DATA = (
    "--dataset.clips", "144", "--dataset.val-clips", "48", "--dataset.test-clips", "48", "--dataset.prompts", "8",
    "--dataset.max-frames", "48", "--dataset.max-segment", "44", "--device", "cpu", "--threads", "1",
)  # fmt: skip
SHAPE = ("--model.latent-dim", "16", "--model.layers", "1", "--set", "model.num_heads=2", "--set", "model.ff_size=32")
SHORT = ("--num-steps", "3", "--batch-size", "16", "--set", "train.val_clips=40", "--set", "optim.warmup_steps=1")


@dataclass(frozen=True)
class Tiny:
    """A policy, a TMR, and how they were made.

    Attributes:
        mdm: Run folder of `pretrain mdm`.
        tmr: Run folder of `pretrain tmr`.
        documents: The ``--json`` output of both, by command.
    """

    mdm: Path
    tmr: Path
    documents: dict[str, str]

    def grpo(self, out: Path | str, *more: object, steps: int = 3) -> list[str]:
        """Return the arguments of a `grpo` run of a second."""
        words: tuple[object, ...] = (
            "grpo", "--reward", "tmr-dense", *DATA, "--out", out, "--num-steps", steps, "--policy.checkpoint", self.mdm,
            "--reward.weights", self.tmr, "--batch-size", 2, "--group-size", 2, "--train-timesteps", 5,
            "--inference-timesteps", 4, "--set", "sampler.window_size=2", "--set", "heldout.prompts=4",
            "--set", "heldout.samples=2", "--judge", "tmr-dense", "--judge.weights", self.tmr,
            "--set", "optim.schedule=constant",  # so that a run may be made longer and equal a long one
            "--set", "audit.enabled=false", *more,  # a second for each run; tests/cli/test_grpo_command.py has it on
        )  # fmt: skip
        return [str(word) for word in words]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiny]:
    """Run `pretrain tmr` and `pretrain mdm` on a corner of the starter dataset; its clips are kept for the session."""
    folder = tmp_path_factory.mktemp("tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        documents = {}
        for name, more in (("tmr", ()), ("mdm", ("--set", "model.diffusion_steps=10"))):
            words = ["pretrain", name, *DATA, *SHAPE, *SHORT, *more, "--out", str(folder / name), "--json"]
            result = CliRunner().invoke(get_app(), words)
            assert result.exit_code == 0, result.stderr
            documents[f"pretrain {name}"] = result.stdout
        yield Tiny(folder / "mdm", folder / "tmr", documents)


@pytest.fixture(scope="session")
def own_runs(tmp_path_factory: pytest.TempPathFactory, clip: Path) -> Iterator[Path]:
    """A folder with data of one's own, whose names have spaces, and a run of each trainer on them."""
    pytest.importorskip("transformers")
    work = tmp_path_factory.mktemp("own")
    write_data(work)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MOTIONKIT_")]:
            patch.delenv(name)
        patch.setenv("MOTIONKIT_CACHE", str(work / "cache"))
        patch.setenv("XDG_CACHE_HOME", str(work / "cache"))
        patch.chdir(work)
        for command, line in RUNS.items():
            done = typed(line.format(text=shlex.quote(str(clip))), "--out", place_of(command))
            assert done.exit_code == 0, f"{line}\n{done.stderr}"
        yield work


@pytest.fixture
def forked_workers(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of a search do what is typed for them in forks, since each would import torch.

    Without it they are real: tests/cli/test_tune.py, where a signal ends them.
    """

    def worker(line: list[str], *, env: dict[str, str], **_: Any) -> Forked:
        assert line[:2] == [sys.executable, "-m"]
        return forks.start(*line[2:], environment=env, path=env.get("PYTHONPATH", "").split(os.pathsep))

    processes = SimpleNamespace(Popen=worker, DEVNULL=None, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr("motionkit.tuning.processes.subprocess", processes)
