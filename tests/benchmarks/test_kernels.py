"""Skate and jerk, and joint recovery: CUDA kernels against eager, torch.compile, graph replay and a plain copy.

Inputs rotate through more memory than the L2 cache holds, every number is a median of many, and all rows of a table
come from one run; a rate counts the bytes that a row cannot do without. The goals are an H200's and fail the run only
there; elsewhere the ratios are printed.
"""

from __future__ import annotations

import statistics
import sys
import time

import pytest
import torch

from motionkit.kernels import features_to_joints, physics_terms
from motionkit.kernels.definitions import columns_in_use, physics_definition, recover_definition
from motionkit.kernels.selftest import inputs
from motionkit.motion import HUMANML

from .gpu_timing import both_ways, copies, forward, median, replayed, rotating, spin
from .ratios import Ratios

FRAMES, JOINTS = 196, 22
FEET = HUMANML.feet
HEIGHTS = (0.05,) * 4
SIZES = (4, 64, 512, 4096)

# Inductor warns of its own old habits, which is no reason not to measure.
pytestmark = [pytest.mark.benchmark, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def eager(joints, lengths):
    return physics_definition(joints, lengths, FEET, HEIGHTS)[:2]


def kernel(joints, lengths):
    return physics_terms(joints, lengths, feet=FEET, heights=HEIGHTS, backend="cuda")[:2]


def recover_eager(features, lengths):
    return (recover_definition(features, lengths, None, None, JOINTS, 1.0),)


def recover_kernel(features, lengths):
    return (features_to_joints(features, joints=JOINTS, lengths=lengths, backend="cuda"),)


def physics_bytes(batch):
    """What must move: the joints once forward; once more and their gradient backward."""
    joints = 4 * batch * FRAMES * JOINTS * 3
    return joints, 3 * joints


def recover_bytes(batch, width):
    """Forward reads the columns in use and writes joints and turns; backward reads all three and writes the width."""
    used = columns_in_use(JOINTS) + 3 * JOINTS + 2
    rows = 4 * batch * FRAMES
    return rows * used, rows * (2 * used + width)


def on_device(batch, pick):
    """Copies of one input, and the lengths that go with them."""
    made = inputs(min(batch, 64), FRAMES, JOINTS)[pick]
    tensor = made.repeat(-(-batch // 64), *[1] * (made.ndim - 1))[:batch].cuda()
    cache, free = torch.cuda.get_device_properties(0).L2_cache_size, torch.cuda.mem_get_info()[0]
    return rotating(tensor, cache=cache, free=free), torch.full((batch,), FRAMES).cuda()


@pytest.fixture
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    spin()


def timed(call, count):
    """The median, or nothing where the device has too little memory for this row."""
    try:
        return median(call(), count)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


def add(ratios: Ratios, group: str, rows: dict[str, float | None], moved: int, copied: int) -> None:
    for row, seconds in rows.items():
        if seconds is not None:
            rate = (copied if row == "copy" else moved) / seconds / 1e9
            ratios.add(group, f"{row:<20} {seconds * 1e6:9.1f} us {rate:7.0f} GB/s", seconds)


def measure(passes, shape, tensors, lengths):
    """Seconds of every implementation, launched one by one and replayed from a graph."""
    rows = {}
    for name, function in passes.items():
        rows[name] = timed(lambda function=function: shape(function, tensors, lengths), len(tensors))
    for name in [name for name in passes if name != "eager"]:
        call = lambda name=name: replayed(shape(passes[name], tensors, lengths))  # noqa: E731
        rows[f"{name}, graph"] = timed(call, len(tensors))
    return rows


def table(ratios, title, passes, tensors, lengths, moved):
    """Measure and print forward, and forward and backward; a copy before and after, of which the faster counts."""
    copied = 2 * tensors[0].numel() * 4
    before = median(copies(tensors), len(tensors))
    rows = [measure(passes, shape, tensors, lengths) for shape in (forward, both_ways)]
    copy = min(before, median(copies(tensors), len(tensors)))
    for name, seconds, size in zip(("forward", "forward + backward"), rows, moved, strict=True):
        add(ratios, f"{title}, {name}", seconds | {"copy": copy}, size, copied)
    return *rows, copied / copy


@pytest.mark.parametrize("batch", SIZES)
def test_physics(cuda, ratios, capsys, batch):
    tensors, lengths = on_device(batch, 0)
    passes = {"eager": eager, "torch.compile": torch.compile(eager, fullgraph=True, dynamic=False), "kernel": kernel}
    moved = physics_bytes(batch)
    title = f"skate and jerk of {batch} motions"
    one, both, rate = table(ratios, title, passes, tensors, lengths, moved)
    goals = [
        ("times faster than eager", both["eager"] / both["kernel"], 10.0 if batch >= 512 else 8.0),
        ("times faster than torch.compile", both["torch.compile"] / both["kernel"], 1.5),
    ]
    if batch >= 4096:
        for name in ("kernel", "kernel, graph"):
            goals.append((f"of three passes at the copy's rate ({name})", moved[1] / rate / both[name], 1 / 1.5))
        goals.append(("of the copy's rate, forward (kernel, graph)", moved[0] / rate / one["kernel, graph"], 0.70))
    with capsys.disabled():
        for what, value, goal in goals:
            sys.stdout.write(f"\n{batch} motions: {value:.2f} {what} (goal on an H200: {goal:.2f})")
    assert "H200" not in torch.cuda.get_device_name(0) or all(value >= goal for _, value, goal in goals)


@pytest.mark.parametrize("batch", SIZES)
def test_recovery(cuda, ratios, batch):
    tensors, lengths = on_device(batch, 1)
    passes = {"eager": recover_eager, "kernel": recover_kernel}
    table(ratios, f"joints of {batch} motions", passes, tensors, lengths, recover_bytes(batch, tensors[0].shape[-1]))


def test_plain_torch_on_the_cpu(ratios):
    """Pieces of 64 samples against all at once: time of 512 motions, forward and backward."""
    joints, _, lengths = inputs(512, FRAMES, JOINTS)

    def pieces(joints, lengths):
        return physics_terms(joints, lengths, feet=FEET, heights=HEIGHTS, backend="torch")[:2]

    for name, shape in (("forward", forward), ("forward + backward", both_ways)):
        for row, function in (("all at once", eager), ("pieces of 64", pieces)):
            call = shape(function, [joints], lengths)
            call()
            times = []
            for _ in range(7):
                start = time.process_time()
                call()
                times.append(time.process_time() - start)
            ratios.add(f"skate and jerk of 512 motions on the CPU, {name}", row, statistics.median(times))
