"""Peak memory of reward-train with 1, 4 and 16 times the frames: it must not depend on them.

Each case is a process of its own. Run by hand: ``python -m tests.benchmarks.test_reward_memory FOLDER FACTOR
small|frozen`` prints the megabytes at the peak, pages of mapped files included.

A process under glibc as it is holds holes between blocks as well, from run to run more or less of them, whatever the
data. ``MALLOC_MMAP_THRESHOLD_`` makes it give tensors back, and is how the memory in use is measured here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.config import resolve
from motionkit.training.execute import run_trainer
from motionkit_success.episodes import Collector
from motionkit_success.resnet10 import ResNet10
from motionkit_success.train import RewardTrain
from motionkit_success.train_settings import RewardTrainSettings

from .ratios import Ratios

FACTORS = (1, 4, 16)
EPISODES, LENGTH, SIZE = {"small": 60, "frozen": 48}, 40, 64
SPAN = 1.1


def write(folder: Path, episodes: int) -> None:
    """Write episodes whose last quarter succeeds: noise that is brighter there."""
    rng = np.random.default_rng(0)
    with Collector(folder, cameras={"camera": (SIZE, SIZE)}) as collector:
        for number in range(episodes):
            for step in range(LENGTH):
                success = bool(number % 2 and step >= 0.75 * LENGTH)
                frame = rng.integers(0, 200, (SIZE, SIZE, 3), np.uint8) + np.uint8(50 * success)
                collector.add({"camera": frame}, success, step == LENGTH - 1)


def train(folder: Path, kind: str) -> None:
    """Train for some steps, validate and measure, as the command does."""
    sets = [f"data.path={folder / 'data'}", f"run.out={folder / 'run'}", "run.num_steps=30", "threads=1", "device=cpu"]
    if kind == "frozen":
        torch.save(ResNet10().state_dict(), folder / "resnet10.pt")
        sets.append(f"model.pretrained={folder / 'resnet10.pt'}")
    resolved = resolve(RewardTrainSettings, sets=tuple(sets))
    trainer = RewardTrain(resolved.settings)
    trainer.prepare()
    run_trainer("reward-train", trainer, resolved)


def peak() -> float:
    """Return the megabytes that this process held at most, from the kernel's count for it alone."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["small", "frozen"])
def test_memory_does_not_grow_with_the_data(kind: str, tmp_path: Path, ratios: Ratios) -> None:
    found = {}
    for factor in FACTORS:
        folder = tmp_path / f"{factor}"
        folder.mkdir()
        command = [sys.executable, "-m", "tests.benchmarks.test_reward_memory", str(folder), str(factor), kind]
        in_use = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, env=in_use, cwd=Path(__file__).parents[2]
        )
        assert done.returncode == 0, done.stderr
        found[factor] = float(done.stdout.split()[-1])
        frames = factor * EPISODES[kind] * LENGTH
        ratios.tell("Peak memory of reward-train", f"{kind}: {frames:>7,} frames {found[factor]:6.0f} MB")
    assert max(found.values()) <= SPAN * min(found.values()), found


if __name__ == "__main__":
    where, many, what = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if not (where / "data").exists():  # in another process, whose memory does not count
        write(where / "data", many * EPISODES[what])
        raise SystemExit(subprocess.run([sys.executable, "-m", __spec__.name, *sys.argv[1:]], check=False).returncode)
    train(where, what)
    print(peak())  # noqa: T201
