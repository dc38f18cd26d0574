"""Gradients exchanged after the backward pass, during it by DistributedDataParallel, and not at all: seconds of a step.

Run as ``python tests/benchmarks/exchange_ddp.py``; about four CPU-minutes. Two gloo processes of one thread each, as in
`exchange`; each step goes one of the three ways, drawn at random, so that what else the machine does falls on all.
Medians, and between which figures nine in ten of those of resampled steps are; the slower of the two processes.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from exchange import ROWS, one_of_two, processes

WAYS = ("not at all", "after", "DDP")
STEPS = {"pretrain mpl-encoder, defaults": 900, "pretrain mdm, 80 frames": 300}
EVEN = "--dataset.min-frames 80 --dataset.max-frames 80"  # batches of one length, so that steps compare
ROWS["pretrain mdm, 80 frames"] = (f"{ROWS['pretrain mdm, defaults'][0]} {EVEN}", 0)


def compare(words: list[str], found: Path) -> None:
    """Run a command in this process, each step in one of `WAYS` drawn at random; write seconds of each step by way."""
    import torch
    from torch import Tensor, nn

    from motionkit.cli import main
    from motionkit.training.learner import Learner

    class Passed(nn.Module):
        """DistributedDataParallel makes ready in its forward: the loss goes through it before its backward."""

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, loss: Tensor) -> Tensor:
            return loss

    order, way = random.Random(0), ["after"]  # the same in both processes
    steps: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    parallel: list[nn.Module] = []
    begun = [0.0, 0.0]
    add, descend, backward = Learner._add_gradients, Learner.descend, Tensor.backward

    def add_gradients(self: Learner, *given: Any) -> None:
        if not parallel:
            wrapped = nn.parallel.DistributedDataParallel(Passed(self.model.network), broadcast_buffers=False)
            parallel.append(wrapped)
        if way[0] == "after":
            add(self, *given)

    def passed(self: Tensor, *given: Any, **options: Any) -> None:
        backward(parallel[0](self * 2) if way[0] == "DDP" else self, *given, **options)  # it takes the mean of two

    def descended(self: Learner, *given: Any, **options: Any) -> Any:
        result = descend(self, *given, **options)
        torch.distributed.barrier()
        steps[way[0]].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
        way[0] = order.choice(WAYS)
        begun[:] = time.perf_counter(), time.process_time()
        return result

    Learner._add_gradients, Learner.descend, Tensor.backward = add_gradients, descended, passed
    sys.argv = ["motionkit", *words]
    try:
        main()
    finally:
        del steps["after"][0]  # begun with the process
        found.write_text(json.dumps(steps))


def main() -> None:
    """Print a row per trainer and way."""
    if one_of_two(compare):
        return
    draws = np.random.default_rng(0)

    def more(values: np.ndarray, base: np.ndarray) -> str:
        """Return the difference of two medians with its interval; milliseconds."""
        found = [
            np.median(draws.choice(values, len(values))) - np.median(draws.choice(base, len(base))) for _ in range(999)
        ]
        low, high = np.quantile(found, (0.05, 0.95))
        return f"{np.median(values) - np.median(base):6.2f} ({low:5.2f} to {high:5.2f})"

    print(f"{'':<32} {'':<10} steps  ms of a step, more than without     CPU-ms, more than without")
    for name, count in STEPS.items():
        both = processes(__file__, name, count)
        one = max(both, key=lambda steps: np.median(np.array(steps["after"])[:, 0]))
        walls, cpus = ({way: 1e3 * np.array(one[way])[:, place] for way in WAYS} for place in (0, 1))
        for way in WAYS:
            print(
                f"{name:<32} {way:<10} {len(walls[way]):5} "
                f"{np.median(walls[way]):7.2f}  {more(walls[way], walls[WAYS[0]])} "
                f"{np.median(cpus[way]):7.2f}  {more(cpus[way], cpus[WAYS[0]])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
