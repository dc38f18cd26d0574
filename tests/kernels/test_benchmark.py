"""The parts of the CUDA benchmark that can be tried without a GPU."""

from __future__ import annotations

import pytest
import torch

from ..benchmarks import gpu_timing, test_kernels
from .cases import rows, walkers

# The benchmark's own: Inductor's warnings as errors would end it before it measures.
pytestmark = [mark for mark in test_kernels.pytestmark if mark.name == "filterwarnings"]
LENGTHS = torch.tensor([20, 20])


@pytest.mark.slow  # inductor compiles for 20 s
def test_its_baseline_compiles_with_inductor(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # nothing that an earlier run has left
    torch._dynamo.reset()
    compiled = torch.compile(test_kernels.eager, fullgraph=True, dynamic=False)
    joints = walkers(2, 20, 22)
    gpu_timing.forward(compiled, [joints], LENGTHS)()
    torch.testing.assert_close(compiled(joints, LENGTHS), test_kernels.eager(joints, LENGTHS))


def gradients(function, inputs):
    """What the benchmark computes and throws away."""
    seen, real = [], torch.autograd.grad
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.autograd, "grad", lambda *given: seen.append(real(*given)))
        gpu_timing.both_ways(function, [inputs], LENGTHS)()
    return seen


def test_every_row_measures_the_same_thing(emulated):
    """Kernel and eager agree in values and gradient, as the benchmark calls them."""
    for inputs, eager, kernel in (
        (walkers(2, 20, 22), test_kernels.eager, test_kernels.kernel),
        (rows(2, 20, 263), test_kernels.recover_eager, test_kernels.recover_kernel),
    ):
        torch.testing.assert_close(gradients(kernel, inputs), gradients(eager, inputs), rtol=1e-3, atol=1e-5)


def test_bytes_are_those_that_must_move():
    frame = 196 * 4
    assert test_kernels.physics_bytes(3) == (3 * frame * 66, 9 * frame * 66)
    # 67 columns in, 66 coordinates and a turn of two out; back: both, the gradient of the joints, and 263 columns out.
    assert test_kernels.recover_bytes(3, 263) == (3 * frame * (67 + 66 + 2), 3 * frame * (2 * 135 + 263))


def test_inputs_overflow_the_cache_and_fit_the_memory():
    def count(size, cache, free):
        return len(gpu_timing.rotating(torch.zeros(size), cache=cache, free=free))

    assert count(250, 10_000, 10**9) == 20  # 1000 bytes each, twice the cache
    assert count(2500, 10_000, 10**9) == gpu_timing.LEAST_COPIES
    assert count(2500, 10_000, 200_000) == 5
    assert count(2500, 10_000, 0) == 2
