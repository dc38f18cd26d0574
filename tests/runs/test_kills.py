"""The three trainers, killed for real: at random moments, and at every kind of call inside saving and pruning.

Each run is continued to its end and must then be the run that nothing disturbed: the same files and no others, the same
bytes in every checkpoint, the same metrics. Minutes; `pytest -m slow -rP tests/runs/test_kills.py` prints the figures.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ..cli.conftest import DATA, SHAPE
from .kills import Fault, begun, calls_of, differences, finished, preload_trainers, record_of, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TRAINERS = ("pretrain mdm", "pretrain tmr", "grpo")
STEPS = 6
RANDOM_KILLS = 10
"""For each trainer."""
KINDS = (
    ("mkdir", ".tmp-"), ("fsync", ""), ("rename", ".tmp-"), ("replace", ".tmp-"),
    ("rename", "step-"), ("unlink", "state.json"), ("rmdir", ".tmp-"),
)  # fmt: skip
"""Where a save is killed: before the folder, the flush of a file, the swap, `last`, and three times in the pruning."""


class Trainer:
    """One command, the run that nothing disturbed, how long it took and what its saves called."""

    def __init__(self, name: str, folder: Path, cache: Path, more: tuple[object, ...]) -> None:
        self.name, self.folder, self.cache = name, folder, cache
        every = ("--num-steps", STEPS, "--set", "checkpoint.every=1", "--set", "checkpoint.keep=2")
        self.words = (*name.split(), *DATA, *every, *more)
        self.straight, log = folder / "straight", folder / "calls"
        self.said = folder / "said.txt"
        process = start([*self.words, "--out", self.straight], fault=Fault(), log=log, **self.place())
        begun(process, self.straight)
        since = time.monotonic()
        assert finished(process) == 0, self.said.read_text()
        self.seconds = time.monotonic() - since
        self.calls = calls_of(log)

    def place(self) -> dict[str, object]:
        return {"said": self.said, "environment": {"XDG_CACHE_HOME": str(self.cache), "OMP_NUM_THREADS": "1"}}

    def attempt(self, run: Path, *, kill_after: float | None = None, fault: Fault | None = None) -> int | None:
        """Start or continue a run as a user would, perhaps kill it seconds after it began; return the exit code."""
        if (run / "config.json").is_file() and (run / "run.json").is_file():
            words = [*self.name.split(), "--resume", run]
        else:
            words = [*self.words, "--out", run, *(["--overwrite"] if (run / "run.json").is_file() else [])]
        before = record_of(run)
        process = start(words, fault=fault, **self.place())  # type: ignore[arg-type]
        if kill_after is not None:
            begun(process, run, before)
            process.join(timeout=kill_after)
            process.kill()
        return finished(process)

    def end(self, run: Path) -> None:
        """Continue a run to its end, and compare it."""
        assert self.attempt(run) == 0, self.said.read_text()[-2000:]
        assert differences(run, self.straight) == []
        shutil.rmtree(run)


@pytest.fixture(scope="module")
def trainers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trainer]:
    """All three; grpo takes what the others have trained."""
    preload_trainers()
    root = tmp_path_factory.mktemp("kills")
    short = ("--batch-size", 16, "--set", "train.val_clips=40", "--set", "optim.warmup_steps=1", *SHAPE)
    made: dict[str, Trainer] = {}
    for name in TRAINERS:
        folder = root / name.replace(" ", "-")
        folder.mkdir()
        if name == "grpo":
            mdm, tmr = made["pretrain mdm"].straight, made["pretrain tmr"].straight
            more: tuple[object, ...] = (
                "--reward", "tmr-dense", "--reward", "physics=0.1", "--policy.checkpoint", mdm, "--reward.weights", tmr,
                "--batch-size", 2, "--group-size", 2, "--train-timesteps", 5, "--inference-timesteps", 4,
                "--set", "sampler.window_size=2", "--set", "heldout.prompts=4", "--set", "heldout.samples=2",
                "--judge", "tmr-dense", "--judge.weights", tmr, "--set", "heldout.points=3",
            )  # fmt: skip
        else:
            more = (*short, *(("--set", "model.diffusion_steps=10") if name.endswith("mdm") else ()))
        made[name] = Trainer(name, folder, root / "cache", more)
    return made


@pytest.mark.parametrize("name", TRAINERS)
def test_kills_at_random_moments(name: str, trainers: dict[str, Trainer]) -> None:
    """Up to three kills in one run, until there were ten."""
    trainer, draw = trainers[name], random.Random(f"kills of {name}")
    kills, attempts, runs = 0, Counter[str](), 0
    while kills < RANDOM_KILLS:
        run, runs = trainer.folder / f"random-{runs}", runs + 1
        for _ in range(draw.randint(1, 3)):
            if kills == RANDOM_KILLS:
                break
            code = trainer.attempt(run, kill_after=draw.uniform(0, trainer.seconds))
            assert code in (0, -signal.SIGKILL), trainer.said.read_text()[-2000:]
            if code:
                kills += 1
                attempts[_state(run)] += 1
        trainer.end(run)
    print(f"{name}: {kills} kills at random moments in {runs} runs ({dict(attempts)}): equal bits, nothing left over")


@pytest.mark.parametrize("name", TRAINERS)
def test_kills_inside_saving_and_pruning(name: str, trainers: dict[str, Trainer]) -> None:
    trainer, draw = trainers[name], random.Random(f"saves of {name}")
    where = []
    for kind, of in KINDS:
        places = [
            (save, number)
            for save, calls in enumerate(trainer.calls, 1)
            for number, call in enumerate(calls, 1)
            if call.startswith(f"{kind} {of}") and save > 2  # the first that prunes is the third
        ]
        save, number = draw.choice(places)
        run = trainer.folder / f"save-{len(where)}"
        assert trainer.attempt(run, fault=Fault(save, number)) == -signal.SIGKILL
        where.append(f"{trainer.calls[save - 1][number - 1].split('-')[0]}@{save}.{number}")
        trainer.end(run)
    print(f"{name}: {len(where)} kills inside saves ({', '.join(where)}): equal bits, nothing left over")


def _state(run: Path) -> str:
    """Say how far a run had come when it was killed."""
    if not (run / "config.json").is_file():
        return "before its settings were written"
    return f"after {max((int(path.name[5:]) for path in run.glob('checkpoints/step-*')), default=0)} saved"
