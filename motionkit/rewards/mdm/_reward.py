"""The four rewards of the text-to-motion evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.encoders._crops import CropLatents
from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.motion import MotionBatch
from motionkit.rewards._matching.rewards import (
    DenseReward,
    JointSpace,
    JointSpaceReward,
    MatchingReward,
    unscored,
)
from motionkit.rewards.base import RewardScores
from motionkit.rewards.mdm import CombinedOptions, DenseOptions, EvaluatorOptions, MatchingOptions, PrecisionOptions
from motionkit.rewards.mdm._others import OTHERS, OtherTexts, Place, place
from motionkit.rewards.mdm.opening import open_evaluator, stored_tokens
from motionkit.text import Prompt


def _open(options: EvaluatorOptions, dataset: object, device: torch.device | str) -> T2MEvaluator:
    evaluator = open_evaluator(options.weights, glove=options.glove, stats=options.stats, device=device)
    evaluator.use_tokens(stored_tokens(dataset))
    return evaluator


class MdmMatching(MatchingReward[MatchingOptions]):
    """``1 - min(d / max_distance, 1)`` of the distance between motion and text, or another score of the two."""

    name = "mdm-matching"
    open_space = staticmethod(_open)


class MdmDense(DenseReward[DenseOptions]):
    """Score per segment, minus the confusion with the prompt's other texts."""

    name = "mdm-dense"
    open_space = staticmethod(_open)


class MdmRPrecision(JointSpaceReward[PrecisionOptions]):
    """R-precision of a motion: its own text is ranked among 31 others by euclidean distance (Guo et al. 2022).

    The mean of hit@1, hit@2 and hit@3, which is 0, 1/3, 2/3 or 1 but for ties; graded, ``1 - rank / 31``. A tie counts
    by its expectation, as in `motionkit.metrics.r_precision`. No gradient.
    """

    name = "mdm-r-precision"
    bounds = (0.0, 1.0)
    open_space = staticmethod(_open)

    def __init__(self, options: PrecisionOptions, *, dataset: object = None, **runtime: Any) -> None:
        super().__init__(options, dataset=dataset, **runtime)
        self._others = OtherTexts(dataset, options.split, options.seed, self.space.whole_text)

    @torch.no_grad()
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.rewards.base.Reward`."""
        motion, text = self.whole(motions, prompts)
        found = _place(self.space, self._others, motion, text, prompts)
        total = found.precision(graded=self.options.graded)
        parts = {"rank": unscored(found.rank, motion), "clamped": motion.clamped}
        return RewardScores(unscored(total, motion), parts=parts)


class MdmCombined(MatchingReward[CombinedOptions]):
    """``matching_weight * matching + precision_weight * R-precision``, from one encoding. No gradient."""

    name = "mdm-combined"
    open_space = staticmethod(_open)

    def __init__(self, options: CombinedOptions, *, dataset: object = None, **runtime: Any) -> None:
        super().__init__(options, dataset=dataset, **runtime)
        self._others = OtherTexts(dataset, options.split, options.seed, self.space.whole_text)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest total."""
        lowest, highest = super().bounds
        near, hit = self.options.matching_weight, self.options.precision_weight
        return near * lowest, near * highest + hit

    @torch.no_grad()
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.rewards.base.Reward`."""
        motion, text = self.whole(motions, prompts)
        near = self.matching(motion, text)
        found = _place(self.space, self._others, motion, text, prompts)
        hit = found.precision(graded=self.options.graded)
        total = self.options.matching_weight * near + self.options.precision_weight * hit
        parts = {"matching": near, "r_precision": hit, "rank": found.rank}
        parts = {name: unscored(values, motion) for name, values in parts.items()}
        return RewardScores(unscored(total, motion), parts={**parts, "clamped": motion.clamped})


def _place(space: JointSpace, others: OtherTexts, motion: CropLatents, own: Tensor, prompts: Sequence[Prompt]) -> Place:
    """Return where each motion's own text stands among the others."""
    texts = [text for prompt in prompts for text in others.of(prompt)]
    return place(motion.mu, own, space.encode_texts(texts).view(len(prompts), OTHERS, -1))
