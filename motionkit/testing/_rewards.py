"""The contract of a reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.plugins import Component
from motionkit.rewards.base import Reward, RewardScores
from motionkit.testing._component import check_component
from motionkit.testing._report import Findings, component_of, options_of
from motionkit.testing._samples import sample_motions, sample_prompts
from motionkit.text import Prompt

TOLERANCE = 1e-4


def check_reward(
    reward: str | Component | Reward,
    *,
    options: dict[str, Any] | None = None,
    dataset: object = None,
    motions: MotionBatch | None = None,
    prompts: Sequence[Prompt] | None = None,
) -> None:
    """Check what GRPO relies on in every reward.

    One finite float32 score per motion; the same scores for the same input; no influence of padding (NaN included),
    of the order of the batch, or of the other samples; a motion that is NaN spoils only its own score; the input is
    left alone; per-segment scores, where there are any, have the total as their mean.

    Args:
        reward: Its name, its component, or a reward that is built already.
        options: Options to build it with.
        dataset: Dataset to build it with, for rewards that need one.
        motions: Motions to score; small random ones by default.
        prompts: Their prompts.

    Raises:
        AssertionError: Lists, in sentences, everything that is wrong.
    """
    if isinstance(reward, str):
        check_component("rewards", reward)
    if isinstance(reward, (str, Component)):
        component = component_of("rewards", reward)
        built = cast("Reward", component.build(options_of(component, options), dataset=dataset, device="cpu"))
    else:
        built = reward
    batch = motions if motions is not None else sample_motions()
    asked = list(prompts) if prompts is not None else sample_prompts(batch)
    found = Findings(f"reward {getattr(built, 'name', type(built).__name__)!r}")
    found.expect(isinstance(getattr(built, "name", None), str), "It needs a 'name'; metrics are logged under it.")
    before = batch.features.clone()
    scores = _score(built, batch, asked)
    if _check_shape(found, scores, batch):
        unchanged = torch.equal(batch.features.nan_to_num(7.0), before.nan_to_num(7.0))
        found.expect(unchanged, "It changes the features it is given.")
        again = _score(built, _copy(batch), asked).total
        found.expect(torch.equal(again, scores.total), "Scoring the same motions twice gives different scores.")
        _check_independence(found, built, batch, asked, scores.total)
        _check_segments(found, scores, asked)
    found.close()


def _score(reward: Reward, batch: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
    with torch.no_grad():
        return reward.score(batch, prompts)


def _check_shape(found: Findings, scores: RewardScores, batch: MotionBatch) -> bool:
    total = getattr(scores, "total", None)
    if not isinstance(scores, RewardScores) or not isinstance(total, Tensor):
        given = f"{type(scores).__name__}{'' if total is None else f' with a {type(total).__name__}'}"
        return found.expect(False, f"score must return RewardScores with a tensor as total, not {given}.")
    return all(
        [
            found.expect(
                tuple(total.shape) == (len(batch),), f"total must be [N] = [{len(batch)}], is {list(total.shape)}."
            ),
            found.expect(total.dtype == torch.float32, f"total must be float32, is {total.dtype}."),
            found.expect(
                bool(total.isfinite().all()), "total is not finite for ordinary motions; does padding leak in?"
            ),
        ]
    )


def _check_independence(
    found: Findings, reward: Reward, batch: MotionBatch, prompts: list[Prompt], total: Tensor
) -> None:
    filled = batch.features.clone()
    filled[~batch.mask] = 1e3
    padded = _score(reward, _with(batch, filled), prompts).total
    found.expect(_near(padded, total), "What stands in the padding changes the score.")
    longer = torch.cat([batch.features, torch.full_like(batch.features[:, :5], torch.nan)], dim=1)
    stretched = _score(reward, _with(batch, longer), prompts).total
    found.expect(_near(stretched, total), "More padding changes the score.")
    order = torch.arange(len(batch)).flip(0)
    flipped = MotionBatch(batch.features[order], batch.lengths[order], skeleton=batch.skeleton, fps=batch.fps)
    turned = _score(reward, flipped, [prompts[i] for i in order.tolist()]).total
    found.expect(_near(turned[order], total), "The order of the batch changes the scores.")
    alone = []
    for i in range(len(batch)):
        one = MotionBatch(batch.features[i : i + 1], batch.lengths[i : i + 1], skeleton=batch.skeleton, fps=batch.fps)
        alone.append(_score(reward, one, prompts[i : i + 1]).total)
    found.expect(_near(torch.cat(alone), total), "A motion scored alone gets another score than in a batch.")
    broken = batch.features.clone()
    broken[0] = torch.nan
    spread = _score(reward, _with(batch, broken), prompts).total
    found.expect(_near(spread[1:], total[1:]), "A motion that is NaN changes the scores of the others.")


def _check_segments(found: Findings, scores: RewardScores, prompts: Sequence[Prompt]) -> None:
    if scores.segments is None:
        return
    counts = torch.tensor([len(prompt.segments) for prompt in prompts])
    shape = (len(prompts), int(counts.max()))
    if not found.expect(
        scores.segments.shape[0] == shape[0] and scores.segments.shape[1] >= shape[1],
        f"segments must be [N, K] = {list(shape)}, is {list(scores.segments.shape)}.",
    ):
        return
    own = torch.arange(scores.segments.shape[1]) < counts[:, None]
    found.expect(bool((scores.segments[~own] == 0).all()), "segments must be 0 past a sample's last segment.")
    mean = (scores.segments * own).sum(dim=1) / counts
    found.expect(_near(mean, scores.total), "The mean of a sample's segments must be its total.")


def _copy(batch: MotionBatch) -> MotionBatch:
    return _with(batch, batch.features.clone())


def _with(batch: MotionBatch, features: Tensor) -> MotionBatch:
    return MotionBatch(features, batch.lengths, skeleton=batch.skeleton, fps=batch.fps)


def _near(first: Tensor, second: Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE))
