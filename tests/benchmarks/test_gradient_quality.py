"""How well one batch of each algorithm points to the true gradient of the mean reward, and what it costs.

The true gradient is that of the mean reward of all prompts through the deterministic sampler, estimated by the mean of
many training prompts, exact for each of them. Its two halves tell how far that estimate is from the truth, and cosines
are corrected for it. It is taken at the start, where holds and anchors have no gradient, in the space of the adapters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from motionkit import GRPO, load_dataset, load_policy, load_reward, plugins
from motionkit.config import choose_one
from motionkit.text import Prompt

from .ratios import Ratios

GROUP = "gradient of one batch: cosine to the true one (mean, of the mean of 8), cost"
BATCHES = 8
ORACLE = 384
NO_PHYSICS: dict[str, dict[str, object]] = {"objective": {"jerk": 0.0, "skate": 0.0}}
TRUE = {**NO_PHYSICS, "sampler": {"jitter": False}}
ROWS: dict[str, tuple[str, dict[str, dict[str, object]]]] = {
    "grpo": ("grpo", {}),
    "grpo, one advantage per sample": ("grpo", {"objective": {"credit": "sample"}}),
    "grpo, 32 prompts x 2": ("grpo", {"rollout": {"prompts": 32, "group_size": 2}}),
}


def rows() -> Iterator[tuple[str, str, dict[str, dict[str, object]]]]:
    """Every algorithm with its defaults; those that follow a gradient without their own physics terms."""
    for row, (name, options) in ROWS.items():
        yield row, name, options
    for entry in plugins.available("algorithms"):
        if entry.builtin and entry.name not in ("grpo", "mixed"):
            has_physics = hasattr(choose_one("algorithms", entry.name, {}).options.objective, "jerk")
            yield entry.name, entry.name, NO_PHYSICS if has_physics else {}


def estimate(
    name: str, options: dict[str, dict[str, object]], batches: int, prompts: Sequence[Prompt]
) -> Iterator[Tensor]:
    """Yield the gradient of each batch, flat; the policy stays as it is."""
    chosen = choose_one("algorithms", name, options)
    grpo = GRPO(load_policy("starter"), load_reward("tmr-dense"), algorithm=chosen)
    size = chosen.options.rollout.prompts
    for number in range(batches):
        own = [prompts[(number * size + place) % len(prompts)] for place in range(size)]
        grpo.updates = number
        grpo.learner.zero_grad()
        with torch.set_grad_enabled(grpo.algorithm.graph):
            batch = grpo._sample(own)
            scored = grpo.rewards.score(batch.motions, batch.prompts)
        grpo.algorithm.update(batch, scored, number).backward()
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for _, p in grpo.learner.trained]
        yield torch.cat([part.flatten() for part in parts])


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_gradient_of_one_batch(ratios: Ratios) -> None:
    torch.set_num_threads(1)
    prompts = load_dataset("starter").prompts("train")
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(prompts), generator=generator).tolist()
    asked = [prompts[index] for index in order]
    halves = list(estimate("reward-gradient", TRUE, ORACLE // 16, asked[:ORACLE]))
    first, second = torch.stack(halves[::2]).mean(0), torch.stack(halves[1::2]).mean(0)
    true = first + second
    agree = float(torch.cosine_similarity(first, second, dim=0))
    # Spearman-Brown: two halves that agree by a make a whole whose cosine to the truth is sqrt(2 a / (1 + a)).
    known = (2 * agree / (1 + agree)) ** 0.5
    ratios.tell(GROUP, f"{'two halves of the true gradient':<44} {agree:5.2f}")
    cost: dict[str, float] = {}
    quality: dict[str, float] = {}
    for row, name, options in rows():
        started = time.process_time()
        found = torch.stack(list(estimate(name, options, BATCHES, asked[ORACLE:])))
        cost[row] = (time.process_time() - started) / BATCHES
        each = torch.cosine_similarity(found, true[None], dim=1) / known
        error = float(each.std()) / BATCHES**0.5
        quality[row] = float(each.mean())
        whole = float(torch.cosine_similarity(found.mean(0), true, dim=0)) / known
        relative = cost[row] / cost["grpo"]
        ratios.tell(
            GROUP, f"{row:<44} {quality[row]:5.2f} +- {error:.2f}  {whole:5.2f}  {relative:5.2f}x the cost of grpo"
        )
    assert agree > 0.2
    assert quality["reward-gradient"] > 1.5 * quality["grpo"]
