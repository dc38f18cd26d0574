"""The four rewards of the text-to-motion evaluator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.metrics import expected_hits
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.crops import CropLatents, JointSpace
from motionkit.text_to_motion.evaluator.files import open_evaluator
from motionkit.text_to_motion.evaluator.model import T2MEvaluator
from motionkit.text_to_motion.rewards.joint_space import (
    DenseReward,
    JointSpaceReward,
    MatchingReward,
    unscored,
)
from motionkit.text_to_motion.rewards.mdm import (
    CombinedOptions,
    DenseOptions,
    EvaluatorOptions,
    MatchingOptions,
    PrecisionOptions,
)

OTHERS = 31  # wrong texts: R-precision is measured among 32


class OtherTexts:
    """Draws 31 texts with as many segments for each prompt, by seed and by the prompt's text.

    All samples of a group are ranked among the same texts, whatever else is in the batch. Texts equal to the prompt's
    (up to case, spaces and a full stop) are not drawn, and no text is drawn twice.

    Args:
        dataset: Gives the texts.
        split: Split that they are drawn from.
        seed: Seed of the draws.
        whole_text: Returns the text of a prompt.
    """

    def __init__(
        self,
        dataset: TextMotionDataset | None,
        split: Literal["train", "val"],
        seed: int,
        whole_text: Callable[[Prompt], str],
    ) -> None:
        if dataset is None:
            raise MotionkitError(
                "R-precision needs a dataset.",
                why=f"a motion's own text is ranked among {OTHERS} others of a split.",
                fix='give one: --dataset NAME; from Python load_reward("mdm-r-precision", dataset=load_dataset(...)).',
            )
        self._dataset = dataset
        self._split = split
        self._seed = seed
        self._whole_text = whole_text
        self._pools: dict[int, list[str]] = {}
        self._drawn: dict[str, tuple[str, ...]] = {}
        try:
            self._usual = list(self._dataset.prompts(split))
        except MotionkitError:  # composite data needs k_segments
            self._usual = []
        for segments in {len(prompt.segments) for prompt in self._usual}:
            self.pool(segments)

    def of(self, prompt: Prompt) -> tuple[str, ...]:
        """Return the 31 texts for a prompt."""
        text = self._whole_text(prompt)
        if text not in self._drawn:
            pool = self.pool(len(prompt.segments))
            digest = hashlib.sha256(f"{self._seed} {_plain(text)}".encode()).digest()
            order = np.random.default_rng(int.from_bytes(digest[:16], "big")).permutation(len(pool))[: OTHERS + 1]
            self._drawn[text] = tuple(pool[i] for i in order if _plain(pool[i]) != _plain(text))[:OTHERS]
        return self._drawn[text]

    def pool(self, segments: int) -> list[str]:
        """Return the split's different texts with so many segments."""
        if segments not in self._pools:
            prompts_of = [prompt for prompt in self._usual if len(prompt.segments) == segments]
            prompts = prompts_of or self._dataset.prompts(self._split, k_segments=segments)
            texts = list({_plain(text): text for text in map(self._whole_text, prompts)}.values())
            if len(texts) <= OTHERS:
                raise MotionkitError(
                    f"R-precision needs at least {OTHERS + 1} different captions, the {self._split} split has "
                    f"{len(texts)}.",
                    why=f"a motion's own text is ranked among {OTHERS} others.",
                    fix="use a larger dataset, or a reward that needs none: --reward mdm-matching.",
                )
            self._pools[segments] = texts
        return self._pools[segments]


class Place(NamedTuple):
    """Rank of a motion's text among the others."""

    nearer: Tensor  # [N] how many other texts are nearer
    tied: Tensor  # [N] how many texts are at the right one's distance, itself included

    @property
    def rank(self) -> Tensor:
        """``[N]`` in [0, M], from 0: the mean over all orders of tied texts."""
        return self.nearer + (self.tied - 1) / 2

    def precision(self, *, graded: bool) -> Tensor:
        """Return the reward ``[N]``: the mean of hit@1, hit@2 and hit@3, or ``1 - rank / 31``.

        A tie counts by its expectation in both, as in `motionkit.metrics.r_precision`.

        Example:
            >>> import torch
            >>> Place(torch.tensor([0.0, 2.0, 0.0]), torch.tensor([1.0, 1.0, 2.0])).precision(graded=False)
            tensor([1.0000, 0.3333, 0.8333])
        """
        if graded:
            return 1.0 - self.rank / OTHERS
        return expected_hits(self.nearer, self.tied).mean(0)


def place(
    motion: Tensor,  # [N, D]
    own: Tensor,  # [N, D]
    others: Tensor,  # [N, M, D]
) -> Place:
    """Rank each motion's text among the others by euclidean distance."""
    right = (motion - own).square().sum(-1, keepdim=True)
    wrong = (motion[:, None] - others).square().sum(-1)
    nearer, tied = (wrong < right).sum(1), 1 + (wrong == right).sum(1)
    return Place(nearer.to(motion.dtype), tied.to(motion.dtype))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(". ")


def _open(options: EvaluatorOptions, dataset: TextMotionDataset | None, device: torch.device | str) -> T2MEvaluator:
    evaluator = open_evaluator(options.weights, glove=options.glove, stats=options.stats, device=device)
    evaluator.use_tokens({} if dataset is None else dataset.caption_tokens())
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
    """R-precision of a motion: its text is ranked among 31 others by euclidean distance (Guo et al. 2022).

    The mean of hit@1, hit@2 and hit@3, which is 0, 1/3, 2/3 or 1 but for ties; graded, ``1 - rank / 31``. A tie counts
    by its expectation, as in `motionkit.metrics.r_precision`. No gradient.
    """

    name = "mdm-r-precision"
    bounds = (0.0, 1.0)
    open_space = staticmethod(_open)

    def __init__(self, options: PrecisionOptions, *, dataset: TextMotionDataset | None = None, **runtime: Any) -> None:
        super().__init__(options, dataset=dataset, **runtime)
        self._others = OtherTexts(dataset, options.split, options.seed, self.space.whole_text)

    @torch.no_grad()
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; see `motionkit.contracts.reward.Reward`."""
        motion, text = self.whole(motions, prompts)
        standing = _place(self.space, self._others, motion, text, prompts)
        total = standing.precision(graded=self.options.graded)
        parts = {"rank": unscored(standing.rank, motion), "clamped": motion.clamped}
        return RewardScores(unscored(total, motion), parts=parts)


class MdmCombined(MatchingReward[CombinedOptions]):
    """``matching_weight * matching + precision_weight * R-precision``, from one encoding. No gradient."""

    name = "mdm-combined"
    open_space = staticmethod(_open)

    def __init__(self, options: CombinedOptions, *, dataset: TextMotionDataset | None = None, **runtime: Any) -> None:
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
        """Score N motions in one pass; see `motionkit.contracts.reward.Reward`."""
        motion, text = self.whole(motions, prompts)
        near = self.matching(motion, text)
        standing = _place(self.space, self._others, motion, text, prompts)
        hit = standing.precision(graded=self.options.graded)
        total = self.options.matching_weight * near + self.options.precision_weight * hit
        parts = {"matching": near, "r_precision": hit, "rank": standing.rank}
        parts = {name: unscored(values, motion) for name, values in parts.items()}
        return RewardScores(unscored(total, motion), parts={**parts, "clamped": motion.clamped})


def _place(space: JointSpace, others: OtherTexts, motion: CropLatents, own: Tensor, prompts: Sequence[Prompt]) -> Place:
    """Encode the other texts, and rank each motion's text among them."""
    texts = [text for prompt in prompts for text in others.of(prompt)]
    return place(motion.mu, own, space.encode_texts(texts).view(len(prompts), OTHERS, -1))
