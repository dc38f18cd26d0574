"""What share of a step two processes on CPUs spend on exchanging gradients, by trainer.

Run as ``python tests/benchmarks/exchange.py``; about eight CPU-minutes. Two gloo processes of one thread each train for
a few steps on computed clips. Waiting for the slower process is no exchange: a barrier before each one takes it out of
the step. "bare" is what gloo takes for one sum of as many numbers, measured in the same steps and not part of them.
Medians over the steps after the first; the larger share of the two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FEW = "--dataset.clips 288 --dataset.val-clips 48 --dataset.test-clips 48 --dataset.prompts 8"
MDM = f"pretrain mdm {FEW} --set train.val_clips=4 --set train.samples=0 --set motions=0"
ROWS = {
    "pretrain mdm, published size, 196 frames, batch 64": (
        f"{MDM} --dataset.min-frames 196 --dataset.max-frames 196 --model.layers 8 --model.latent-dim 512 "
        "--set model.ff_size=1024 --set model.dropout=0.1 --model.patch-size 1 --set model.clause_frames=false "
        "--batch-size 64", 4,
    ),
    "pretrain mdm, defaults": (MDM, 24),
    "pretrain tmr, defaults": (f"pretrain tmr {FEW} --set train.val_clips=8", 12),
    "pretrain t2m-evaluator, defaults": (f"pretrain t2m-evaluator {FEW} --set train.val_clips=8", 12),
    "pretrain mpl-encoder, defaults": ("pretrain mpl-encoder", 60),
    "train-mpl, two batches of the default size": ("train-mpl --set train.accumulation_steps=2", 4),
}  # fmt: skip
"""Command and steps."""

FOUND = "EXCHANGE_FOUND"  # variable that names the folder of the two processes


def measure(words: list[str], found: Path) -> None:
    """Run a command in this process; write bytes, seconds of exchanges and seconds of each step."""
    import torch

    from motionkit.cli import main
    from motionkit.training.learner import Learner
    from motionkit.training.together import Processes

    now = dict.fromkeys(("bytes", "wall", "cpu", "aside", "aside_cpu", "bare"), 0.0)
    steps: list[dict[str, float]] = []
    sizes: list[int] = []  # numbers of each exchange of gradients in this step

    @contextmanager
    def aside() -> Iterator[None]:
        """Take what happens out of the step."""
        begun, spent = time.perf_counter(), time.process_time()
        torch.distributed.barrier()
        yield
        now["aside"] += time.perf_counter() - begun
        now["aside_cpu"] += time.process_time() - spent

    def exchange(function: Any) -> Any:
        def run(self: Processes, tensor: torch.Tensor) -> torch.Tensor:
            with aside():
                sizes.append(tensor.numel())
            result: torch.Tensor = function(self, tensor)
            return result

        return run

    def timed(function: Any) -> Any:
        def run(self: Learner, *given: Any) -> None:
            sizes.clear()
            begun, spent, before = time.perf_counter(), time.process_time(), dict(now)
            function(self, *given)
            now["wall"] += time.perf_counter() - begun - (now["aside"] - before["aside"])
            now["cpu"] += time.process_time() - spent - (now["aside_cpu"] - before["aside_cpu"])
            now["bytes"] += 4 * sum(sizes)
            numbers = torch.ones(sum(sizes))
            with aside():
                begun = time.perf_counter()
                torch.distributed.all_reduce(numbers)  # what gloo takes for as many, and nothing else
                now["bare"] += time.perf_counter() - begun

        return run

    last = [0.0, 0.0]

    def stepped(function: Any) -> Any:
        def run(self: Learner, *given: Any, **options: Any) -> Any:
            result = function(self, *given, **options)
            if not options.get("average", True):  # one of several optimiser steps of an update
                return result
            ends = [time.perf_counter(), time.process_time()]
            step = {"step": ends[0] - last[0] - now["aside"], "step_cpu": ends[1] - last[1] - now["aside_cpu"]}
            steps.append({**now, **step})
            last[:] = ends
            now.update(dict.fromkeys(now, 0.0))
            return result

        return run

    Processes.sum = exchange(Processes.sum)
    Processes.gather = exchange(Processes.gather)
    Learner._add_gradients = timed(Learner._add_gradients)
    Learner.descend = stepped(Learner.descend)
    sys.argv = ["motionkit", *words]
    try:
        main()
    finally:
        found.write_text(json.dumps(steps[1:]))


def processes(program: str, name: str, count: int = 0) -> list[Any]:
    """Run a row's two processes, in which `one_of_two` is true, and return what they have found."""
    command, few = ROWS[name]
    with tempfile.TemporaryDirectory() as folder:
        words = [*command.split(), "--device", "cpu", "--threads", "1", "--num-steps", str(count or few)]
        words += ["--out", str(Path(folder) / "run"), "--set", "checkpoint.every=0"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        line = [*torchrun, str(Path(program).resolve()), *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", FOUND: folder}
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        return [json.loads(Path(f"{folder}/{rank}.json").read_text()) for rank in range(2)]


def one_of_two(work: Callable[[list[str], Path], None]) -> bool:
    """Return whether `processes` started this process; then `work` has got its words and the file for what it found."""
    if folder := os.environ.get(FOUND):
        work(sys.argv[1:], Path(folder) / f"{os.environ['RANK']}.json")
    return bool(folder)


def row(name: str) -> dict[str, float]:
    """Run a row; return medians of the process that exchanges longer."""
    both = processes(__file__, name)
    medians = [{key: statistics.median(step[key] for step in steps) for key in steps[0]} for steps in both]
    return max(medians, key=lambda one: one["wall"] / one["step"])


def main() -> None:
    """Print a row per trainer."""
    if one_of_two(measure):
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=[*ROWS])
    given = parser.parse_args()
    heads = "MB a step  ms exchanged  bare  share of the step  bare  CPU-ms  share of its CPU time  seconds of a step"
    print(f"{'':<52} {heads}")
    for name in given.rows:
        one = row(name)
        print(
            f"{name:<52} {one['bytes'] / 1e6:9.2f}  {1e3 * one['wall']:12.1f}  {1e3 * one['bare']:4.1f}  "
            f"{one['wall'] / one['step']:17.2%}  {one['bare'] / one['step']:4.1%}  {1e3 * one['cpu']:6.1f}  "
            f"{one['cpu'] / one['step_cpu']:21.2%}  {one['step']:17.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
