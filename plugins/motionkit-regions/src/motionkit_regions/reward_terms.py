"""Rewards of masks and of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit.contracts.reward import MaskBatch, Reward, RewardScores, TextBatch
from motionkit.errors import MotionkitError
from motionkit_regions.datasets.base import RegionDataset
from motionkit_regions.meteor.score import Meteor, load_lexicon
from motionkit_regions.rewards import BrevityOptions, MeteorOptions, RuleOptions
from motionkit_regions.scores import box_iou, region_iou

_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")


class _Reward(Reward):
    name = ""
    bounds = (0.0, 1.0)

    def __init__(self, options: Any, *, dataset: Any = None, device: torch.device | str = "cpu") -> None:
        self.options = options


class _Masks(_Reward):
    """A reward that compares masks."""

    def measure(self, masks: Tensor, references: Tensor) -> Tensor:
        """Return ``[N]`` scores of masks ``[N, h, w]``."""
        raise NotImplementedError

    def score(self, samples: MaskBatch, prompts: Sequence[Any]) -> RewardScores:
        """Return scores in [0, 1]; an empty mask scores 0 unless the wanted one is empty too."""
        return RewardScores(total=self.measure(samples.masks, samples.references).float())


class Iou(_Masks):
    """Intersection over union."""

    name = "iou"

    def measure(self, masks: Tensor, references: Tensor) -> Tensor:
        """Return the overlap."""
        return region_iou(masks, references)


class IouTruth(Iou):
    """Intersection over union with the data's mask."""

    name = "iou-truth"


class BoxIou(_Masks):
    """Intersection over union of boxes."""

    name = "box-iou"

    def measure(self, masks: Tensor, references: Tensor) -> Tensor:
        """Return the overlap of the boxes."""
        return box_iou(masks, references)


class Contrast(_Reward):
    """Whether a mask is of the wanted object and not of another one of its image.

    1: it is the wanted mask; 0: it is of no object, or of two equally; -1: it is another object. If no other object is
    known, it is the overlap alone.
    """

    name = "contrast"
    bounds = (-1.0, 1.0)

    def score(self, samples: MaskBatch, prompts: Sequence[Any]) -> RewardScores:
        """Return scores in [-1, 1]."""
        overlap = region_iou(samples.masks, samples.references).float()
        if samples.others is None or not samples.others.shape[1]:
            return RewardScores(total=overlap)
        count = samples.others.shape[1]
        masks = samples.masks[:, None].expand(-1, count, -1, -1)
        overlaps = region_iou(masks.flatten(0, 1), samples.others.flatten(0, 1)).view(-1, count)
        there = samples.others.flatten(2).any(2)
        best = torch.where(there, overlaps, 0.0).amax(1).float()
        return RewardScores(total=overlap - best, parts={"own": overlap, "other": best})


class MaskConfidence(_Reward):
    """The model's confidence in each mask; an empty mask scores 0."""

    name = "mask-confidence"
    reads_captions = False  # nor a region: it looks at the mask alone

    def score(self, samples: MaskBatch, prompts: Sequence[Any]) -> RewardScores:
        """Return the confidences."""
        if samples.confidence is None:
            raise MotionkitError(
                "these masks come without a confidence.", why="mask-confidence reads what the loop says of each.",
                fix="a loop gives it as MaskBatch.confidence.",
            )  # fmt: skip
        return RewardScores(total=samples.confidence.float())


class _Texts(_Reward):
    """A reward that reads texts, one by one."""

    def score(self, samples: TextBatch, prompts: Sequence[Any]) -> RewardScores:
        """Return scores in [0, 1]."""
        scores = [self.of(text, references) for text, references in zip(samples.texts, samples.references, strict=True)]
        return RewardScores(total=torch.tensor(scores, dtype=torch.float32, device=samples.device))

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return the score of one text."""
        raise NotImplementedError


class MeteorReward(_Texts):
    """METEOR; an empty text scores 0. See `motionkit_regions.meteor.score.Meteor`."""

    name = "meteor"

    def __init__(self, options: MeteorOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options
        lexicon = load_lexicon(None if options.lexicon is None else options.lexicon.expanduser())
        self._meteor = Meteor(options.tokenizer, lexicon)
        self._inputs = {"lexicon": lexicon.digest}

    @property
    def inputs(self) -> dict[str, str]:
        """Fingerprint of the lexicon."""
        return self._inputs

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return the best score over the wanted texts."""
        return self._meteor(text, wanted)


class Length(_Texts):
    """1 within a range of words, falling linearly on both sides."""

    name = "length"
    reads_captions = False

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return the score of one text."""
        words, options = len(text.split()), self.options
        if words < options.shortest:
            return float(words / options.shortest)
        return float(max(0.0, min(1.0, 2.0 - words / options.longest)))


_READ, _TIMES, _LONGEST = 64, 4, 16


class Brevity(_Texts):
    """Falls linearly from 1 to 0 with the number of words; a text without words scores 0.

    The length of the data's captions is that of the first ones that may be read.
    """

    name = "brevity"
    reads_captions = False

    def __init__(
        self, options: BrevityOptions, *, dataset: RegionDataset | None = None, device: torch.device | str = "cpu"
    ) -> None:
        self.options = options
        self.longest = options.longest or (_LONGEST if dataset is None else _longest(dataset))

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return the score of one text."""
        words = len(text.split())
        return max(0.0, 1.0 - words / self.longest) if words else 0.0


def _longest(data: RegionDataset) -> int:
    part = data.captioned("train")
    index = np.arange(min(_READ, data.count("train"))) if part is None else part[:_READ]
    counts = [len(text.split()) for text in data.regions("train", index).captions]
    return max(1, round(_TIMES * sum(counts) / len(counts))) if any(counts) else _LONGEST


class Distinct(_Texts):
    """Distinct words over all words; an empty text scores 0."""

    name = "distinct"
    reads_captions = False

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return the score of one text."""
        words = text.lower().split()
        return len(set(words)) / len(words) if words else 0.0


class Format(_Texts):
    """Whether a caption is well formed and, if that is known, ended."""

    name = "format"
    reads_captions = False

    def score(self, samples: TextBatch, prompts: Sequence[Any]) -> RewardScores:
        """Return 1 or 0."""
        scores = super().score(samples, prompts)
        if samples.ended is None:
            return scores
        return RewardScores(total=scores.total * torch.tensor(samples.ended, device=samples.device))

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return 1 or 0."""
        words, size = _words(text), self.options.repeat
        runs = [tuple(words[first : first + size]) for first in range(len(words) - size + 1)]
        return float(bool(words) and len(set(runs)) == len(runs))


class Rule(_Texts):
    """Whether a text matches: the same words, the same last number, or a regular expression."""

    name = "rule"

    def __init__(self, options: RuleOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options
        self._pattern = re.compile(options.pattern)

    def of(self, text: str, wanted: Sequence[str]) -> float:
        """Return 1 or 0."""
        if self.options.match == "pattern":
            return float(self._pattern.search(text) is not None)
        value = _words(text) if self.options.match == "exact" else _number(text)
        read = _words if self.options.match == "exact" else _number
        return float(value is not None and any(value == read(reference) for reference in wanted))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", ".")) if numbers else None
