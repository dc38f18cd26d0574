"""Self-test checks of CUDA streams, graphs, threads, processes and a second device."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._compare import FEET, GRADIENT, CheckResult, distance, inputs, run_both, same
from motionkit.kernels._functions import physics_terms

# Here the backward kernel is the first one to run, in a thread that has not used CUDA.
_FRESH = """
import sys, threading
import torch
from motionkit.kernels._compare import FEET, HEIGHTS, inputs
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
    """Use another stream than the default one, behind work that takes a while."""
    given = [tensor.to(device) for tensor in inputs(64, 196, 22)]
    truth = run_both(given)
    torch.cuda.synchronize(device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        slow = torch.zeros(4096, 4096, device=device)
        for _ in range(8):
            slow = slow @ slow
        late = [given[0] + slow[0, 0], given[1] + slow[0, 0], given[2]]
        made = run_both(late)
    stream.synchronize()
    yield CheckResult("another stream", same(truth, made), "the same bits, in order")


def graphs(device: torch.device) -> Iterator[CheckResult]:
    """Capture forward and backward in a CUDA graph and replay it on other numbers."""
    given = [tensor.to(device) for tensor in inputs(8, 196, 22, seed=1)]
    other = [tensor.to(device) for tensor in inputs(8, 196, 22, seed=2)]
    truth = run_both(other)
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            run_both(given)
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = run_both(given)
    for place, tensor in zip(given, other, strict=True):
        place.copy_(tensor)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize(device)
    yield CheckResult("graph capture and replay", same(truth, made), "the same bits")


def threads(device: torch.device) -> Iterator[CheckResult]:
    """Use a thread that has not used CUDA yet."""
    given = [tensor.to(device) for tensor in inputs(16, 60, 22)]
    truth = run_both(given)
    made: list[list[Tensor]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            made.append(run_both(given))
        except (MotionkitError, RuntimeError) as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    yield CheckResult(
        "a new thread", bool(made) and same(truth, made[0]), "; ".join(map(str, errors)) or "the same bits"
    )


def fresh_process(device: torch.device) -> Iterator[CheckResult]:
    """Launch the backward kernel before anything else, in a process of its own."""
    command = [sys.executable, "-c", _FRESH, str(device)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    passed = done.returncode == 0
    text = "the same bits in two threads" if passed else (done.stderr.strip().splitlines() or ["other bits"])[-1]
    yield CheckResult("backward first, in a fresh process", passed, text)


def no_waiting(device: torch.device) -> Iterator[CheckResult]:
    """Make torch raise an error wherever the host waits for the device."""
    given = [tensor.to(device) for tensor in inputs(16, 60, 22)]
    run_both(given)
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run_both(given)
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
    given = inputs(16, 196, 22)
    first = run_both([tensor.to(device) for tensor in given])
    made = run_both([tensor.to(second) for tensor in given])
    close = all(distance(a, b) <= GRADIENT for a, b in zip(made, first, strict=True))
    yield CheckResult("second device", close and made[0].device == second, str(second))
