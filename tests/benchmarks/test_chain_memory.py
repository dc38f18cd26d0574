"""Memory of one update through the whole chain at MDM's size: flat in the number of steps, or growing with it.

Each case is a process of its own, because torch's memory on a CPU is seen from outside only. Run by hand:
``python tests/benchmarks/test_chain_memory.py STEPS on|off`` prints the megabytes of one update.

What a process holds is more than what is in use: glibc keeps the holes between blocks below 32 MB, and they grow with
the number of steps. ``MALLOC_MMAP_THRESHOLD_`` makes it give every block of a tensor back, and is how the memory in use
is measured here; one row shows the process without it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from motionkit import GRPO
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch, Normalizer
from motionkit.text import Prompt, TextFeatures
from motionkit.text_to_motion.grpo.algorithms.options import GradientObjective, GradientRollout, TrainSampler
from motionkit.text_to_motion.mdm.open import new_policy
from motionkit.text_to_motion.mdm.settings import MDMSettings

FRAMES, PROMPTS = 196, 2
STEPS = {"on": (5, 10, 20, 50), "off": (5, 10, 20)}
SPAN, GROWTH = 1.6, 2.5
"""With save_memory the most that 50 steps may take, as a multiple of 5 steps: 10 times as many states of 0.4 MB are
kept. Without it, the least that 20 steps must take of 5."""


class Encoder:
    """Gives every text the same vector, of the width of MDM's CLIP."""

    name, fingerprint, width = "clip", "ones", 512

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Encode."""
        return TextFeatures(torch.ones(len(texts), 1, self.width), torch.ones(len(texts), 1, dtype=torch.bool))


class Height:
    """A reward that costs nothing: how high the root is."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score."""
        return RewardScores(motions.features[..., 3].mean(1))


def megabytes_of_an_update(steps: int, save_memory: str) -> float:
    """Return by how much the process grows at its peak during one update; random weights of the released shape."""
    source = SimpleNamespace(
        skeleton=HUMANML, fps=20.0, normalizer=Normalizer(torch.zeros(263), torch.ones(263)), max_length=FRAMES
    )
    policy = new_policy(MDMSettings(mask_frames=True), dataset=source, encoder=Encoder())
    grpo = GRPO(
        policy,
        Height(),
        algorithm="reward-gradient",
        rollout=GradientRollout(prompts=PROMPTS, samples=1),
        sampler=TrainSampler(spacing="even", train_timesteps=steps),
        objective=GradientObjective(chain="all", save_memory=save_memory),
    )
    before = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    metrics = grpo.step([Prompt((f"walk {i}",), (FRAMES,), str(i)) for i in range(PROMPTS)])
    assert metrics["grad/norm"] > 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux: KiB
    return (peak - before) / 2**20


@pytest.mark.benchmark
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read the way Linux tells it")
def test_memory_is_flat_in_the_number_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        f"save_memory {save_memory}, {steps} steps": measure(steps, save_memory, MALLOC_MMAP_THRESHOLD_="65536")
        for save_memory, counts in STEPS.items()
        for steps in counts
    }
    found["save_memory on, 20 steps, glibc as it is"] = measure(20, "on")
    first = found["save_memory on, 5 steps"]
    rows = [f"  {name:<44} {size / first:6.2f}x" for name, size in found.items()]
    title = f"Memory of one update of reward-gradient, {PROMPTS} motions of {FRAMES} frames; 1x is {first:.0f} MB"
    with capsys.disabled():
        print("\n".join(["", title, *rows]))  # noqa: T201
    assert found["save_memory on, 50 steps"] < SPAN * first
    assert found["save_memory off, 20 steps"] > GROWTH * found["save_memory off, 5 steps"]


def measure(steps: int, save_memory: str, **environment: str) -> float:
    """Run one case in a process of its own and return its megabytes."""
    words = [sys.executable, __file__, str(steps), save_memory]
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(megabytes_of_an_update(int(sys.argv[1]), sys.argv[2]))  # noqa: T201
