"""CPU time of an update next to that of the matrix products in it: what could be saved at most.

``OMP_NUM_THREADS=1 python -m tests.benchmarks.floor first`` is an update of README's first command, ``... floor mdm`` a
GRPO step at MDM's size (8 layers of 512, 196 frames, 8 motions, 10 steps of which 2 are trained, all weights). Every
product of one update is computed again, alone, at the same shapes; attention's are those that its formula has.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from motionkit import GRPO, load_dataset, load_policy, load_reward
from motionkit.text import Prompt

from .test_grpo_step import Size, Tower, grpo_of

TURNS = 5


class Products(TorchDispatchMode):
    """Counts matrix products and attentions by their shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[tuple[Any, ...]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm"):
            left, right = args[-2:] if name != "addmm" else args[1:3]
            shapes = tuple(left.shape), left.stride(-1) == 1, tuple(right.shape), right.stride(-1) == 1
            self.counts["product", *shapes] += 1
        elif "scaled_dot_product" in name:
            backward = "backward" in name
            self.counts["backward" if backward else "forward", tuple(args[int(backward)].shape)] += 1
        return func(*args, **(kwargs or {}))


def seconds(action: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of an action."""
    action()
    begun = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - begun) / times


def product(left: Tensor, right: Tensor) -> float:
    """Return the CPU seconds of a product."""
    out = torch.empty(*left.shape[:-1], right.shape[-1])
    operations = left.numel() * right.shape[-1]
    return seconds(lambda: torch.matmul(left, right, out=out), 3 if operations > 10_000_000 else 30)


def stored(shape: tuple[int, ...], by_rows: bool) -> Tensor:
    """Return a matrix that is stored by rows or by columns."""
    return torch.randn(shape) if by_rows else torch.randn(*shape[:-2], shape[-1], shape[-2]).mT


def floors(counts: Counter[tuple[Any, ...]]) -> tuple[float, float]:
    """Return the CPU seconds of the products of layers, and of those of attention."""
    layers = attention = 0.0
    for (kind, *shapes), count in counts.items():
        if kind == "product":
            layers += count * product(stored(*shapes[:2]), stored(*shapes[2:]))
            continue
        (rows, heads, length, width), *_ = shapes
        query, share = torch.randn(rows * heads, length, width), torch.randn(rows * heads, length, length)
        scores, mixed = product(query, torch.randn_like(query).mT), product(share, query)
        # Forward Q K' and P V. Backward Q K' again and G V', then P' G, dS K and dS' Q.
        attention += count * (scores + mixed if kind == "forward" else 2 * scores + 3 * mixed)
    return layers, attention


def first() -> tuple[GRPO, Callable[[int], list[Prompt]]]:
    """Return what README's first command trains, and the prompts of an update."""
    dataset = load_dataset("starter")
    grpo = GRPO(load_policy("starter"), load_reward("tmr-dense"), algorithm="reward-gradient", dataset=dataset)
    prompts, count = dataset.prompts("train"), 16
    return grpo, lambda number: prompts[number * count : (number + 1) * count]


def mdm() -> tuple[GRPO, Callable[[int], list[Prompt]]]:
    """Return a network of MDM's size with random weights, and a prompt."""
    size, cpu = Size(1, 8, 196, 77, 10, 2, 4, goal=0.0, rounds=TURNS), torch.device("cpu")
    grpo = grpo_of(size, Tower(size.tokens, cpu), cpu)
    return grpo, lambda number: [Prompt(("a person walks",), (size.frames,), "a")]


def main() -> None:
    """Print the medians of a few turns."""
    torch.set_num_threads(1)
    grpo, prompts = {"first": first, "mdm": mdm}[sys.argv[1]]()
    for number in range(2):  # texts are encoded once
        grpo.step(prompts(number))
    rows = []
    for number in range(2, 2 + TURNS):
        with Products() as products:
            grpo.step(prompts(number))
        begun = time.process_time()
        grpo.step(prompts(number))
        taken = time.process_time() - begun
        rows.append((taken, *floors(products.counts)))
    taken, layers, attention = map(statistics.median, zip(*rows, strict=True))
    both = layers + attention
    print(f"update {taken:.3f} s, products of layers {layers:.3f} s, of attention {attention:.3f} s")  # noqa: T201
    print(f"update / products {taken / both:.2f}; without those of attention {taken / layers:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
