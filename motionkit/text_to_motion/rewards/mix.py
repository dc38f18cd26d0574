"""The weighted sum of several rewards; a sample that cannot be scored does not affect the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from motionkit.contracts.reward import Record, Reward, RewardScores
from motionkit.contracts.scoring import valid_segments
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.rl import group_std
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.ask import asking
from motionkit.text_to_motion.rewards.function_reward import Function, as_reward


def standardised(scores: RewardScores, groups: Tensor, valid: Tensor, usable: Tensor) -> RewardScores:
    """Centre a reward within each group and divide by its standard deviation there.

    Total and segments have separate means and deviations, so the total is no longer the mean of the segments. A group
    (of a segment) whose scores do not differ becomes 0.

    Source: GDPO (Liu et al. 2026, arXiv:2601.05242), the step before the weighted sum.

    Args:
        scores: Scores of N samples.
        groups: ``[N]`` int64 group ids.
        valid: ``[N, K]`` bool, the segments of each sample.
        usable: ``[N]`` bool, False leaves a sample out of mean and deviation; it becomes 0.
    """
    usable = usable & scores.applying
    total = group_std(scores.total, groups, valid=usable, clip=None).values
    if scores.segments is None:
        return RewardScores(total)
    segments = scores.segments[:, : valid.shape[1]]
    return RewardScores(total, group_std(segments, groups, valid=valid & usable[:, None], clip=None).values)


def correlations(totals: dict[str, tuple[Tensor, Tensor]], groups: Tensor) -> dict[tuple[str, str], float]:
    """Return Pearson's correlation of each pair of rewards within groups.

    Every reward is centred within its group; groups are not weighted, so one with a wide spread counts more.

    Args:
        totals: By the name of the reward, ``[N]`` scores and the ``[N]`` bool mask of scored samples.
        groups: ``[N]`` int64 group ids.

    Returns:
        By the names of a pair, in the order of `totals`; NaN if one of the two does not differ within any group.

    Example:
        >>> every = torch.ones(4, dtype=torch.bool)
        >>> two = {"a": torch.tensor([0.0, 1.0, 5.0, 6.0]), "b": torch.tensor([1.0, 0.0, 2.0, 1.0])}
        >>> correlations({name: (total, every) for name, total in two.items()}, torch.tensor([0, 0, 1, 1]))
        {('a', 'b'): -1.0}
    """
    result = {}
    for (first, (a, has_a)), (second, (b, has_b)) in combinations(totals.items(), 2):
        both = has_a & has_b
        x, y = (_centred(total, groups, both) for total in (a, b))
        scale = float(x.norm() * y.norm())
        result[first, second] = float(x @ y) / scale if scale > 0 else float("nan")
    return result


def _centred(total: Tensor, groups: Tensor, usable: Tensor) -> Tensor:
    """Return scores minus the mean of their group, 0 where not usable."""
    member = ((torch.unique(groups)[:, None] == groups) & usable).double()  # [P, N]
    plain = torch.where(usable, total.detach(), 0.0).double()
    mean = (member @ plain) / member.sum(1).clamp(min=1)
    return torch.where(usable, plain - mean @ member, 0.0)


@dataclass(frozen=True)
class Term:
    """Scores of one reward of a mix."""

    name: str
    weight: float
    scores: RewardScores
    gradient: bool  # whether the scores carry a graph


@dataclass(frozen=True)
class Scored:
    """Rewards of N samples."""

    total: Tensor  # [N] weighted reward; 0 where `finite` is False
    # [N, K] weighted reward per segment; its mean over a sample's segments is `total`. A reward without segments counts
    # fully for each of them.
    segments: Tensor
    valid: Tensor  # [N, K] bool, the segments of each sample
    finite: Tensor  # [N] bool, False if a reward could not be computed
    metrics: dict[str, float]  # means of every reward and part, by metric name
    dead: tuple[str, ...] = ()  # names of the rewards that gave no sample a finite score
    terms: tuple[Term, ...] = field(default=(), repr=False)  # scores of each reward

    def within(self, groups: Tensor) -> Scored:
        """Return the sum of the rewards after each was standardised within its group; see `standardised`."""
        terms = tuple(
            replace(term, scores=standardised(term.scores, groups, self.valid, self.finite)) for term in self.terms
        )
        return replace(_added(terms, self.valid, self.metrics, leave_out=True), finite=self.finite, dead=self.dead)

    def correlations(self, groups: Tensor) -> dict[str, float]:
        """Return the correlations of the rewards within groups, by metric name; empty for one reward."""
        totals = {term.name: (term.scores.total, self.finite & term.scores.applying) for term in self.terms}
        result = correlations(totals, groups) if len(totals) > 1 else {}
        return {f"reward/correlation/{first}/{second}": value for (first, second), value in result.items()}

    def part(self, *, gradient: bool) -> Scored:
        """Return the sum of the rewards with a gradient alone, or of those without.

        `finite` depends on the rewards of the part alone. A reward that gave no sample a finite score is left out of
        its part if the part has another.
        """
        terms = tuple(term for term in self.terms if term.gradient is gradient)
        return _added(terms, self.valid, self.metrics, leave_out=True)


def unscored(prompts: Sequence[Prompt]) -> Scored:
    """Return the scores of N motions that nothing scores: NaN ``[N]`` and ``[N, K]``."""
    unknown = torch.full((len(prompts),), torch.nan)
    parts = unknown[:, None].expand(-1, max(len(prompt.segments) for prompt in prompts))
    return Scored(unknown, parts, parts.isnan(), unknown.isfinite(), {})


class RewardMix:
    """Several rewards as one.

    Args:
        terms: Rewards or functions (see `FunctionReward`) with their weights, in the order of summation.
        gradient: Whether each of them is differentiable. Those that are not are scored without a graph. None: a reward
            has a gradient if its scores carry a graph.
        normalize: ``group`` standardises each reward within its group before it is weighted, in training; see
            `Scored.within`. `score` returns the plain sum either way.

    Example:
        >>> from motionkit import load_reward
        >>> from motionkit.testing import sample_motions, sample_prompts
        >>> motions = sample_motions(count=2)
        >>> mix = RewardMix([(load_reward("physics", r_s=0.1, r_j=100.0), 0.5)])
        >>> mix.score(motions, sample_prompts(motions)).total.shape
        torch.Size([2])
    """

    def __init__(
        self,
        terms: Sequence[tuple[Reward | Function, float]],
        *,
        gradient: Sequence[bool] | None = None,
        normalize: Literal["off", "group"] = "off",
    ) -> None:
        self.terms = tuple((as_reward(reward), weight) for reward, weight in terms)
        self.normalize = normalize
        self.gradient = None if gradient is None else tuple(gradient)

    @property
    def without_gradient(self) -> list[str]:
        """Names of the rewards that are not differentiable; empty if `gradient` was not given."""
        able = self.gradient or (True,) * len(self.terms)
        return [reward.name for (reward, _), gradient in zip(self.terms, able, strict=True) if not gradient]

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest total of the mix, or None if a reward has no bounds."""
        ends = [(reward.bounds, weight) for reward, weight in self.terms]
        if any(bounds is None for bounds, _ in ends):
            return None
        spans = [sorted(weight * end for end in bounds) for bounds, weight in ends if bounds is not None]
        return sum(low for low, _ in spans), sum(high for _, high in spans)

    def score(self, samples: Record, prompts: Sequence[Prompt], *, leave_out: bool = False) -> Scored:
        """Score N samples; ``prompts[i]`` belongs to sample i. Differentiable unless the caller disables gradients.

        Args:
            samples: The record that all rewards of the mix read.
            prompts: N prompts.
            leave_out: Leave a reward that gives no sample a finite score out of the sum, if another one remains;
                otherwise no sample is finite.
        """
        valid = valid_segments(prompts, samples.device)
        plain = samples.detach() if isinstance(samples, MotionBatch) else samples  # other records have no graph
        able = self.gradient or (True,) * len(self.terms)
        result: list[Term] = []
        with asking(reward for reward, _ in self.terms) as start:
            answers = [
                start(reward, samples if gradient else plain, prompts)
                for (reward, _), gradient in zip(self.terms, able, strict=True)
            ]
            for (reward, weight), gradient, answer in zip(self.terms, able, answers, strict=True):
                with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
                    scores = answer()
                result.append(Term(reward.name, weight, scores, scores.total.requires_grad))
        metrics: dict[str, float] = {}
        for term in result:
            metrics |= _metrics(term)
        return _added(tuple(result), valid, metrics, leave_out=leave_out)


def _metrics(term: Term) -> dict[str, float]:
    """Return the mean of a reward and of its parts over the samples that it applies to."""
    scores, applying = term.scores, term.scores.applying
    known = scores.total[applying & scores.total.isfinite()]
    result = {"mean": float(known.detach().mean()) if len(known) else float("nan")}
    result |= {part: float(value.detach()[applying].nanmean()) for part, value in scores.parts.items()}
    if scores.applies is not None:
        result["applies"] = float(applying.float().mean())
    return {f"reward/{term.name}/{part}": value for part, value in result.items()}


def _is_dead(scores: RewardScores) -> bool:
    """Return whether a reward applies to samples and gives none of them a finite score."""
    applying = scores.applying
    return bool(applying.any()) and not bool(scores.total[applying].isfinite().any())


def _added(terms: tuple[Term, ...], valid: Tensor, metrics: dict[str, float], *, leave_out: bool) -> Scored:
    dead = [term.name for term in terms if _is_dead(term.scores)]
    without = dead if leave_out and len(dead) < len(terms) else []
    total = torch.zeros(len(valid), device=valid.device)
    segments = torch.zeros(valid.shape, device=valid.device)
    for term in terms:
        if term.name in without:
            continue
        scores = term.scores
        columns = scores.total[:, None] if scores.segments is None else scores.segments[:, : valid.shape[1]]
        plain = scores.total
        if scores.applies is not None:
            plain = torch.where(scores.applies, plain, 0.0)
            columns = torch.where(scores.applies[:, None], columns, 0.0)
        total = total + term.weight * plain
        segments = segments + term.weight * columns
    finite = total.isfinite()
    return Scored(
        total=torch.where(finite, total, 0.0),
        segments=torch.where(valid & finite[:, None], segments, 0.0),
        valid=valid,
        finite=finite,
        metrics=metrics | {"reward/left_out": float(len(without))},
        dead=tuple(dead),
        terms=terms,
    )


def refuse_dead(names: Sequence[str], scored: str) -> None:
    """Refuse rewards that gave no sample a finite score in the first step."""
    if names:
        raise MotionkitError(
            f"the reward {' and the reward '.join(names)} gave none of the {scored} a finite score.",
            why="nothing can be learnt from such a reward.",
            fix="check its options and its weights, or train without it; motionkit.testing.check_reward tests a reward "
            "of your own.",
            code=1,
        )
