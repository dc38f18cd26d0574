"""Times of CUDA work that can be compared: warm clocks, inputs that no cache holds, medians, graph replay."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ROUNDS = 30
WARM_UP = 0.4
"""Seconds of work after which the clocks of an idle GPU are up."""

LEAST_COPIES, MOST_COPIES = 8, 1200
"""Inputs of a round. Eight, so that what it takes to start a round or a graph is a small part of it."""

Call = Callable[[], None]


def device() -> torch.device:
    """Return the card, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def row(name: str, step: Callable[[], object], rounds: int = 3) -> str:
    """Return a row of a table: the median seconds of a step, and the peak of its memory on a card."""
    on_card = torch.cuda.is_available()
    if on_card:  # the peak is this row's, not that of one before in this process
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step()  # caches are filled, networks compiled
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        step()
        if on_card:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    memory = f"{torch.cuda.max_memory_allocated() / 1e9:.1f}" if on_card else "-"
    return f"| {name} | {statistics.median(times):.3g} | {memory} |"


def rotating(tensor: Tensor, *, cache: int, free: int) -> list[Tensor]:
    """Return copies of `tensor`: enough to overflow a cache of `cache` bytes twice, in at most a quarter of `free`."""
    size = tensor.numel() * tensor.element_size()
    wanted = max(LEAST_COPIES, -(-2 * cache // size))
    return [tensor.clone() for _ in range(max(2, min(wanted, MOST_COPIES, free // 4 // size)))]


def spin(seconds: float = WARM_UP) -> None:
    """Keep the device busy until its clocks are up."""
    values = torch.ones(4096, 4096, device="cuda")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(8):
            values = (values @ values).clamp_(-1, 1)
        torch.cuda.synchronize()


def median(call: Call, count: int) -> float:
    """Return the seconds of one of the `count` steps of `call`, between two events, median over rounds."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(ROUNDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000 / count)
    return statistics.median(times)


def replayed(call: Call) -> Call:
    """Return the same work, captured in one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def forward(function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], lengths: Tensor) -> Call:
    """Return a round of `function` without a gradient."""

    def call() -> None:
        with torch.no_grad():
            for tensor in tensors:
                function(tensor, lengths)

    return call


def both_ways(function: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], lengths: Tensor) -> Call:
    """Return a round of `function` and the gradient of its inputs, from gradients of its outputs that are there."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    with torch.no_grad():
        pushes = [torch.ones_like(made) for made in function(tensors[0], lengths)]

    def call() -> None:
        for leaf in leaves:
            torch.autograd.grad(function(leaf, lengths), leaf, pushes)

    return call


def copies(tensors: Sequence[Tensor]) -> Call:
    """Return a round of device copies: each reads and writes its bytes once."""
    target = torch.empty_like(tensors[0])

    def call() -> None:
        for tensor in tensors:
            target.copy_(tensor)

    return call
