"""``python -m motionkit.kernels.selftest``: are the CUDA kernels right on this machine?

Exit code 0: every check passed. 1: one failed. 2: there is no CUDA device, or the kernels cannot be had.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import backend_report
from motionkit.kernels._functions import features_to_joints, physics_terms

FORWARD, GRADIENT = 1e-6, 5e-6
"""Largest relative errors (ratio of norms) against float64."""

_FEET = (7, 10, 8, 11)
_HEIGHTS = (0.05, 0.08, 0.03, 0.06)


class Outcome(NamedTuple):
    """One line of the report."""

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


def run_both(given: Sequence[Tensor], backend: str = "cuda") -> list[Tensor]:
    """Return all terms, the recovered joints, and the gradients of both functions, of joints, features and lengths."""
    joints, features = (tensor.detach().requires_grad_() for tensor in given[:2])
    lengths = given[2]
    terms = physics_terms(joints, lengths, feet=_FEET, heights=_HEIGHTS, backend=backend)
    (terms.skate.sum() + 2.0 * terms.jerk.sum() + 0.01 * terms.contact.sum()).backward()
    made = features_to_joints(features, joints=joints.shape[2], unit=0.75, lengths=lengths, backend=backend)
    made.square().sum().backward()
    assert joints.grad is not None
    assert features.grad is not None
    return [*(term.detach() for term in terms), made.detach(), joints.grad, features.grad]


def accuracy(device: torch.device) -> Iterator[Outcome]:
    """Compare with float64 on the CPU, over odd shapes, with NaN in the padding."""
    shapes = ((1, 196, 22), (4, 197, 22), (64, 61, 21), (513, 40, 22), (3, 1, 22), (3, 3, 22), (5, 4, 12), (2, 120, 52))
    for shape in shapes:
        joints, features, lengths = inputs(*shape)
        valid = torch.arange(joints.shape[1]) < lengths[:, None]
        truth = run_both((joints.double(), features.double(), lengths), "torch")
        joints = torch.where(valid[..., None, None], joints, torch.nan)
        features = torch.where(valid[..., None], features, torch.nan)
        made = run_both([tensor.to(device) for tensor in (joints, features, lengths)])
        values = max(_distance(a, b) for a, b in zip(made[:5], truth[:5], strict=True))
        slopes = max(_distance(a, b) for a, b in zip(made[5:], truth[5:], strict=True))
        name = "accuracy " + "x".join(str(size) for size in shape)
        yield Outcome(name, values <= FORWARD and slopes <= GRADIENT, f"values {values:.1e}, gradients {slopes:.1e}")


def repeats(device: torch.device) -> Iterator[Outcome]:
    """Run twice and in another batch: the same bits."""
    given = [tensor.to(device) for tensor in inputs(300, 196, 22)]
    first, second = run_both(given), run_both(given)
    yield Outcome("two runs", _same(first, second), "the same bits")
    alone = run_both([tensor[17:18] for tensor in given])
    yield Outcome("alone and in a batch", _same([tensor[17:18] for tensor in first], alone), "the same bits")


def streams(device: torch.device) -> Iterator[Outcome]:
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
    yield Outcome("another stream", _same(truth, made), "the same bits, in order")


def graphs(device: torch.device) -> Iterator[Outcome]:
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
    yield Outcome("graph capture and replay", _same(truth, made), "the same bits")


def compiled(device: torch.device) -> Iterator[Outcome]:
    """Compile a loss into one graph."""
    joints, _, lengths = (tensor.to(device) for tensor in inputs(8, 60, 22))

    def loss(joints: Tensor) -> Tensor:
        terms = physics_terms(joints, lengths, feet=_FEET, backend="cuda")
        return (terms.skate + torch.log(terms.jerk + 1e-3)).sum()

    grads = []
    for function in (loss, torch.compile(loss, fullgraph=True)):
        leaf = joints.clone().requires_grad_()
        function(leaf).backward()
        assert leaf.grad is not None
        grads.append(leaf.grad)
    error = _distance(grads[1], grads[0])
    yield Outcome("torch.compile(fullgraph=True)", error <= GRADIENT, f"gradient {error:.1e} from eager")


def other_device(device: torch.device) -> Iterator[Outcome]:
    """Use a device that is not the current one."""
    count = torch.cuda.device_count()
    if count < 2:
        yield Outcome("second device", True, "not run: there is one")
        return
    second = torch.device("cuda", (torch.cuda.current_device() + 1) % count)
    given = inputs(16, 196, 22)
    first = run_both([tensor.to(device) for tensor in given])
    made = run_both([tensor.to(second) for tensor in given])
    close = all(_distance(a, b) <= GRADIENT for a, b in zip(made, first, strict=True))
    yield Outcome("second device", close and made[0].device == second, str(second))


CHECKS: tuple[Callable[[torch.device], Iterator[Outcome]], ...] = (
    accuracy, repeats, streams, graphs, compiled, other_device,
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
            outcomes = [Outcome(check.__name__, False, str(error))]
        for outcome in outcomes:
            failed += not outcome.passed
            sys.stdout.write(f"{'ok' if outcome.passed else 'FAIL':<4}  {outcome.name}: {outcome.text}\n")
    sys.stdout.write(f"{failed} check(s) failed\n" if failed else "all checks passed\n")
    return 1 if failed else 0


def _distance(value: Tensor, truth: Tensor) -> float:
    value, truth = value.double().cpu(), truth.double().cpu()
    if not torch.equal(value.isnan(), truth.isnan()):
        return float("inf")
    value, truth = value.nan_to_num(), truth.nan_to_num()
    return float((value - truth).norm() / truth.norm().clamp(min=1e-30))


def _same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


if __name__ == "__main__":
    sys.exit(main())
