"""``python -m motionkit.kernels.selftest``: checks the CUDA kernels on this machine.

Exit code 0: every check passed. 1: one failed. 2: there is no CUDA device, or the kernels cannot be built.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import torch

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import backend_report
from motionkit.kernels._compare import FORWARD, GRADIENT, CheckResult, distance, inputs, run_both, same
from motionkit.kernels._device_checks import (
    compiled,
    fresh_process,
    graphs,
    no_waiting,
    other_device,
    streams,
    threads,
)


def accuracy(device: torch.device) -> Iterator[CheckResult]:
    """Compare with float64 on the CPU, for many shapes, with NaN in the padding."""
    shapes = ((1, 196, 22), (4, 197, 22), (64, 61, 21), (513, 40, 22), (3, 1, 22), (3, 3, 22), (5, 4, 12), (2, 120, 52))
    for shape in shapes:
        joints, features, lengths = inputs(*shape)
        valid = torch.arange(joints.shape[1]) < lengths[:, None]
        truth = run_both((joints.double(), features.double(), lengths), "torch")
        joints = torch.where(valid[..., None, None], joints, torch.nan)
        features = torch.where(valid[..., None], features, torch.nan)
        made = run_both([tensor.to(device) for tensor in (joints, features, lengths)])
        values = max(distance(a, b) for a, b in zip(made[:5], truth[:5], strict=True))
        slopes = max(distance(a, b) for a, b in zip(made[5:], truth[5:], strict=True))
        name = "accuracy " + "x".join(str(size) for size in shape)
        yield CheckResult(
            name, values <= FORWARD and slopes <= GRADIENT, f"values {values:.1e}, gradients {slopes:.1e}"
        )


def repeats(device: torch.device) -> Iterator[CheckResult]:
    """Run twice, and in another batch; all bits must agree."""
    given = [tensor.to(device) for tensor in inputs(300, 196, 22)]
    first, second = run_both(given), run_both(given)
    yield CheckResult("two runs", same(first, second), "the same bits")
    alone = run_both([tensor[17:18] for tensor in given])
    yield CheckResult("alone and in a batch", same([tensor[17:18] for tensor in first], alone), "the same bits")


CHECKS: tuple[Callable[[torch.device], Iterator[CheckResult]], ...] = (
    accuracy, repeats, streams, graphs, threads, fresh_process, no_waiting, compiled, other_device,
)  # fmt: skip


def main() -> int:
    """Run every check on the current CUDA device, print a line each and return the exit code."""
    state, text = backend_report()
    if not torch.cuda.is_available() or not text.startswith("cuda"):
        sys.stderr.write(f"nothing to test: {text}\n")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    sys.stdout.write(f"{state:<4}  {text}; {torch.cuda.get_device_name(device)}, torch {torch.__version__}\n")
    failed = 0
    for check in CHECKS:
        try:
            outcomes = list(check(device))
        except (MotionkitError, RuntimeError) as error:
            outcomes = [CheckResult(check.__name__, False, str(error))]
        for outcome in outcomes:
            failed += not outcome.passed
            sys.stdout.write(f"{'ok' if outcome.passed else 'FAIL':<4}  {outcome.name}: {outcome.text}\n")
    sys.stdout.write(f"{failed} check(s) failed\n" if failed else "all checks passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
