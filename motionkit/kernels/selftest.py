"""``python -m motionkit.kernels.selftest``: checks the CUDA kernels on this machine.

Exit code 0: every check passed. 1: one failed. 2: there is no CUDA device, or the kernels cannot be built.

The checks run both kernels, forward and backward, on seeded inputs. They compare the results with float64 on the CPU,
and with those on another stream, in a CUDA graph, a new thread, a new process and on a second device.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import backend_report
from motionkit.kernels._functions import features_to_joints, physics_terms
from motionkit.page.wording import count

FORWARD, GRADIENT = 1e-6, 5e-6
"""Largest relative errors (ratio of norms) against float64."""

FEET = (7, 10, 8, 11)
HEIGHTS = (0.05, 0.08, 0.03, 0.06)


class CheckResult(NamedTuple):
    """The result of one check: a line of the report."""

    name: str
    passed: bool
    text: str


def inputs(batch: int, frames: int, joints: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return smooth joints ``[B, T, J, 3]``, feature rows ``[B, T, 12 J - 1]`` and lengths ``[B]``, on the CPU."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(frames)[:, None, None] / 20
    body = torch.rand(batch, 1, joints, 3, generator=draw) * torch.tensor([0.6, 0.16, 0.6])
    swing = 0.1 * torch.sin(6 * time + 6 * torch.rand(batch, 1, joints, 3, generator=draw))
    noise = 0.004 * torch.randn(batch, frames, joints, 3, generator=draw)
    features = torch.randn(batch, frames, 12 * joints - 1, generator=draw) * 0.2
    features[..., :3] *= 0.05
    lengths = torch.randint(0, frames + 1, (batch,), generator=draw)
    lengths[0] = frames
    return body + swing + noise, features, lengths


def run_both(tensors: Sequence[Tensor], backend: str = "cuda") -> list[Tensor]:
    """Return all terms, the recovered joints, and the gradients of both functions, of joints, features and lengths."""
    joints, features = (tensor.detach().requires_grad_() for tensor in tensors[:2])
    lengths = tensors[2]
    terms = physics_terms(joints, lengths, feet=FEET, heights=HEIGHTS, backend=backend)
    (terms.skate.sum() + 2.0 * terms.jerk.sum() + 0.01 * terms.contact.sum()).backward()
    recovered = features_to_joints(features, joints=joints.shape[2], unit=0.75, lengths=lengths, backend=backend)
    recovered.square().sum().backward()
    assert joints.grad is not None
    assert features.grad is not None
    return [*(term.detach() for term in terms), recovered.detach(), joints.grad, features.grad]


def distance(value: Tensor, truth: Tensor) -> float:
    """Return the relative error in norm; infinite if only one of both is NaN somewhere."""
    value, truth = value.double().cpu(), truth.double().cpu()
    if not torch.equal(value.isnan(), truth.isnan()):
        return float("inf")
    value, truth = value.nan_to_num(), truth.nan_to_num()
    return float((value - truth).norm() / truth.norm().clamp(min=1e-30))


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Return whether results are bitwise equal."""
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


# Here the backward kernel is the first one to run, in a thread that has not used CUDA.
_FRESH = """
import sys, threading
import torch
from motionkit.kernels.selftest import FEET, HEIGHTS, inputs
device = torch.device(sys.argv[1])
joints, _, lengths = (tensor.to(device) for tensor in inputs(4, 60, 22))
stats, push = torch.ones(4, 4, device=device), torch.ones(4, device=device)
made = []
def backward():
    made.append(torch.ops.motionkit.physics_bwd(joints, lengths, stats, push, push, None, list(FEET), list(HEIGHTS)))
thread = threading.Thread(target=backward)
thread.start()
thread.join()
backward()
sys.exit(0 if torch.equal(*made) and bool(made[0].isfinite().all()) and bool(made[0].any()) else 1)
"""


def streams(device: torch.device) -> Iterator[CheckResult]:
    """Use another stream than the default one, after slow work."""
    tensors = [tensor.to(device) for tensor in inputs(64, 196, 22)]
    truth = run_both(tensors)
    torch.cuda.synchronize(device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        slow = torch.zeros(4096, 4096, device=device)
        for _ in range(8):
            slow = slow @ slow
        late = [tensors[0] + slow[0, 0], tensors[1] + slow[0, 0], tensors[2]]
        results = run_both(late)
    stream.synchronize()
    yield CheckResult("another stream", same(truth, results), "the same bits, in order")


def graphs(device: torch.device) -> Iterator[CheckResult]:
    """Capture forward and backward in a CUDA graph and replay it on other numbers."""
    tensors = [tensor.to(device) for tensor in inputs(8, 196, 22, seed=1)]
    others = [tensor.to(device) for tensor in inputs(8, 196, 22, seed=2)]
    truth = run_both(others)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            run_both(tensors)
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run_both(tensors)
    for place, tensor in zip(tensors, others, strict=True):
        place.copy_(tensor)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize(device)
    yield CheckResult("graph capture and replay", same(truth, results), "the same bits")


def threads(device: torch.device) -> Iterator[CheckResult]:
    """Use a thread that has not used CUDA yet."""
    tensors = [tensor.to(device) for tensor in inputs(16, 60, 22)]
    truth = run_both(tensors)
    results: list[list[Tensor]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(run_both(tensors))
        except (MotionkitError, RuntimeError) as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    yield CheckResult(
        "a new thread", bool(results) and same(truth, results[0]), "; ".join(map(str, errors)) or "the same bits"
    )


def fresh_process(device: torch.device) -> Iterator[CheckResult]:
    """Launch the backward kernel first, in a new process."""
    command = [sys.executable, "-c", _FRESH, str(device)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    passed = done.returncode == 0
    text = "the same bits in two threads" if passed else (done.stderr.strip().splitlines() or ["other bits"])[-1]
    yield CheckResult("backward first, in a fresh process", passed, text)


def no_waiting(device: torch.device) -> Iterator[CheckResult]:
    """Let torch raise an error if the host waits for the device."""
    tensors = [tensor.to(device) for tensor in inputs(16, 60, 22)]
    run_both(tensors)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run_both(tensors)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    yield CheckResult("no waiting for the device", True, "nothing synchronises")


def compiled(device: torch.device) -> Iterator[CheckResult]:
    """Compile a loss into one graph."""
    joints, _, lengths = (tensor.to(device) for tensor in inputs(8, 60, 22))

    def loss(joints: Tensor) -> Tensor:
        terms = physics_terms(joints, lengths, feet=FEET, backend="cuda")
        return (terms.skate + torch.log(terms.jerk + 1e-3)).sum()

    grads = []
    for function in (loss, torch.compile(loss, fullgraph=True)):
        leaf = joints.clone().requires_grad_()
        function(leaf).backward()
        assert leaf.grad is not None
        grads.append(leaf.grad)
    error = distance(grads[1], grads[0])
    yield CheckResult("torch.compile(fullgraph=True)", error <= GRADIENT, f"gradient {error:.1e} from eager")


def other_device(device: torch.device) -> Iterator[CheckResult]:
    """Use a device that is not the current one."""
    count = torch.cuda.device_count()
    if count < 2:
        yield CheckResult("second device", True, "not run: there is one")
        return
    second = torch.device("cuda", (torch.cuda.current_device() + 1) % count)
    tensors = inputs(16, 196, 22)
    first = run_both([tensor.to(device) for tensor in tensors])
    results = run_both([tensor.to(second) for tensor in tensors])
    close = all(distance(a, b) <= GRADIENT for a, b in zip(results, first, strict=True))
    yield CheckResult("second device", close and results[0].device == second, str(second))


def accuracy(device: torch.device) -> Iterator[CheckResult]:
    """Compare with float64 on the CPU, for many shapes, with NaN in the padding."""
    shapes = ((1, 196, 22), (4, 197, 22), (64, 61, 21), (513, 40, 22), (3, 1, 22), (3, 3, 22), (5, 4, 12), (2, 120, 52))
    for shape in shapes:
        joints, features, lengths = inputs(*shape)
        valid = torch.arange(joints.shape[1]) < lengths[:, None]
        truth = run_both((joints.double(), features.double(), lengths), "torch")
        joints = torch.where(valid[..., None, None], joints, torch.nan)
        features = torch.where(valid[..., None], features, torch.nan)
        results = run_both([tensor.to(device) for tensor in (joints, features, lengths)])
        values = max(distance(a, b) for a, b in zip(results[:5], truth[:5], strict=True))
        slopes = max(distance(a, b) for a, b in zip(results[5:], truth[5:], strict=True))
        name = "accuracy " + "x".join(str(size) for size in shape)
        yield CheckResult(
            name, values <= FORWARD and slopes <= GRADIENT, f"values {values:.1e}, gradients {slopes:.1e}"
        )


def repeats(device: torch.device) -> Iterator[CheckResult]:
    """Run twice, and in another batch; results must be bitwise equal."""
    tensors = [tensor.to(device) for tensor in inputs(300, 196, 22)]
    first, second = run_both(tensors), run_both(tensors)
    yield CheckResult("two runs", same(first, second), "the same bits")
    alone = run_both([tensor[17:18] for tensor in tensors])
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
    sys.stdout.write(f"{count(failed, 'check')} failed\n" if failed else "all checks passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
