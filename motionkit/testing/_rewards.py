"""The contract of a reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from motionkit.plugins import Component, reads_of
from motionkit.rewards._ask import answer_of, valid_segments
from motionkit.rewards._records import rows
from motionkit.rewards._scores import fault_of
from motionkit.rewards.base import Record, Reward, RewardScores
from motionkit.testing._component import check_component
from motionkit.testing._records import equal, padded, prompts_for, sample_record, spoiled
from motionkit.testing._report import Findings, component_of, options_of
from motionkit.text import Prompt

TOLERANCE = 1e-4


def check_reward(
    reward: str | Component | Reward,
    *,
    options: dict[str, Any] | None = None,
    dataset: object = None,
    reads: str = "motion",
    samples: Record | None = None,
    prompts: Sequence[Prompt] | None = None,
) -> None:
    """Check what training relies on in every reward.

    One finite float32 score per sample; the same scores for the same input; no influence of padding (NaN included),
    of the order of the batch, or of the other samples; a sample that is unusable spoils only its own score; the input
    is left alone; per-segment scores, where there are any, have the total as their mean. Of a sample that the reward
    does not apply to (`RewardScores.applies`) only that is checked. ``async def score`` and ``threads`` are used as in
    training.

    Args:
        reward: Its name, its component, or a reward that is built already.
        options: Options to build it with.
        dataset: Dataset to build it with, for rewards that need one.
        reads: What a reward that is built already reads; a component has its own word.
        samples: What to score; small random motions, images, masks or texts by default.
        prompts: Their prompts.

    Raises:
        AssertionError: Lists all violations, a sentence each.

    Example:
        >>> from motionkit import load_reward
        >>> check_reward(load_reward("physics", r_s=0.1, r_j=100.0))
    """
    if isinstance(reward, str):
        check_component("rewards", reward)
    if isinstance(reward, (str, Component)):
        component = component_of("rewards", reward)
        reads = reads_of("rewards", component)
        built = cast("Reward", component.build(options_of(component, options), dataset=dataset, device="cpu"))
    else:
        built = reward
    batch = samples if samples is not None else sample_record(reads)
    asked = list(prompts) if prompts is not None else prompts_for(batch)
    found = Findings(f"reward {getattr(built, 'name', type(built).__name__)!r}")
    found.expect(isinstance(getattr(built, "name", None), str), "It needs a 'name'; metrics are logged under it.")
    everyone = range(len(batch))
    before = rows(batch, everyone)
    scores = _score(built, batch, asked)
    if _check_shape(found, scores, asked):
        found.expect(equal(batch, before), "It changes what it is given.")
        again = _total(built, rows(before, everyone), asked)
        total = _told(scores)
        found.expect(torch.equal(again, total), "Scoring the same samples twice gives different scores.")
        _check_independence(found, built, before, asked, total)
        _check_segments(found, scores, asked)
    found.close()


def _score(reward: Reward, batch: Record, prompts: Sequence[Prompt]) -> RewardScores:
    """Return what the reward returns, which need not be scores."""
    with torch.no_grad():
        return cast("RewardScores", answer_of(reward, batch, prompts))


def _told(scores: RewardScores) -> Tensor:
    """Return the totals, 0 where the reward does not apply."""
    return torch.where(scores.applying, scores.total, 0.0)


def _total(reward: Reward, batch: Record, prompts: Sequence[Prompt]) -> Tensor:
    return _told(_score(reward, batch, prompts))


def _check_shape(found: Findings, scores: RewardScores, prompts: Sequence[Prompt]) -> bool:
    fault = fault_of(scores, valid_segments(prompts, torch.device("cpu")))
    if not found.expect(not fault, f"It returns {fault}."):
        return False
    return all(
        [
            found.expect(scores.total.dtype == torch.float32, f"total must be float32, is {scores.total.dtype}."),
            found.expect(
                bool(_told(scores).isfinite().all()), "total is not finite for ordinary samples; does padding leak in?"
            ),
        ]
    )


def _check_independence(found: Findings, reward: Reward, batch: Record, prompts: list[Prompt], total: Tensor) -> None:
    for other, sentence in padded(batch):
        found.expect(_near(_total(reward, other, prompts), total), sentence)
    order = list(range(len(batch)))[::-1]
    turned = _total(reward, rows(batch, order), [prompts[i] for i in order])
    found.expect(_near(turned[order], total), "The order of the batch changes the scores.")
    alone = [_total(reward, rows(batch, [i]), [prompts[i]]) for i in range(len(batch))]
    found.expect(_near(torch.cat(alone), total), "A sample scored alone gets another score than in a batch.")
    spread = _total(reward, spoiled(batch), prompts)
    found.expect(_near(spread[1:], total[1:]), "A sample that is unusable changes the scores of the others.")


def _check_segments(found: Findings, scores: RewardScores, prompts: Sequence[Prompt]) -> None:
    if scores.segments is None:
        return
    counts = torch.tensor([len(prompt.segments) for prompt in prompts])
    own = torch.arange(scores.segments.shape[1]) < counts[:, None]
    found.expect(bool((scores.segments[~own] == 0).all()), "segments must be 0 past a sample's last segment.")
    mean = (scores.segments * own).sum(dim=1) / counts
    told = scores.applying
    found.expect(_near(mean[told], scores.total[told]), "The mean of a sample's segments must be its total.")


def _near(first: Tensor, second: Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE))
