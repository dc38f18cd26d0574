"""Figures of regions and their captions: overlap of masks and boxes (IoU), and CIDEr-D."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LONGEST, _SIGMA, _SCALE = 4, 6.0, 10.0
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")

_Grams = list["Counter[tuple[str, ...]]"]


def cider_d(texts: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return CIDEr-D (Vedantam et al. 2015, equation 4 and section 5) of N captions, each from 0 to 10.

    Counts of 1- to 4-grams are weighted by the logarithm of N over the number of images whose references contain the
    n-gram, and compared by their cosine, in which no n-gram counts more often than in the reference. The cosine is
    multiplied by a Gaussian (sigma 6) of the difference in words. The score is the mean over n and references, times
    10. N-grams that all images share weigh 0; so a caption of k words, k below 4, has at most 10 k / 4, and a single
    image has 0.

    Words are in lower case, without punctuation and not stemmed. Published figures come from the COCO captions code,
    which splits words by the Penn Treebank rules: the two agree if the words do. Document frequencies are those of
    these N references, so scores of different sets do not compare.

    Args:
        texts: N captions.
        references: N lists of wanted captions, each at least one.

    Example:
        >>> wanted = [["a red circle at the top"], ["a blue square in the middle"]]
        >>> cider_d(["a red circle at the top", "a red circle"], wanted).round(2).tolist()
        [10.0, 0.0]
    """
    wanted = [[_grams(text) for text in captions] for captions in references]
    images: Counter[tuple[str, ...]] = Counter()
    for captions in wanted:
        images.update({gram for grams in captions for counts in grams for gram in counts})
    total = math.log(max(1, len(references)))
    weight = {gram: total - math.log(number) for gram, number in images.items()}
    scores = [
        sum(_pair(_grams(text), grams, weight, total) for grams in captions) / len(captions)
        for text, captions in zip(texts, wanted, strict=True)
    ]
    return np.array(scores, dtype=np.float64)


def _grams(text: str) -> _Grams:
    words = _WORD.findall(text.lower())
    return [
        Counter(tuple(words[place : place + size]) for place in range(len(words) - size + 1))
        for size in range(1, _LONGEST + 1)
    ]


def _pair(candidate: _Grams, wanted: _Grams, weight: dict[tuple[str, ...], float], unknown: float) -> float:
    """Return the score of one candidate and one reference; n-grams outside `weight` weigh `unknown`."""
    words_apart = candidate[0].total() - wanted[0].total()
    cosines = 0.0
    for pair in zip(candidate, wanted, strict=True):
        first, second = ({gram: count * weight.get(gram, unknown) for gram, count in counts.items()} for counts in pair)
        length = math.sqrt(sum(v * v for v in first.values()) * sum(v * v for v in second.values()))
        if length > 0:
            cosines += sum(min(v, second[gram]) * second[gram] for gram, v in first.items() if gram in second) / length
    return _SCALE * cosines / _LONGEST * math.exp(-(words_apart**2) / (2 * _SIGMA**2))


def region_iou(masks: Tensor, references: Tensor) -> Tensor:
    """Return the intersection over union ``[N]`` of masks ``[N, h, w]`` bool; 1 if both are empty.

    Example:
        >>> mask = torch.tensor([[[True, True, False, False]]])
        >>> region_iou(mask, mask.flip(-1)).item(), region_iou(mask & False, mask & False).item()
        (0.0, 1.0)
    """
    both = (masks & references).flatten(1).sum(1)
    either = (masks | references).flatten(1).sum(1)
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


def box_iou(masks: Tensor, references: Tensor) -> Tensor:
    """Return the intersection over union ``[N]`` of the masks' bounding boxes; 1 if both are empty."""
    return region_iou(_boxes(masks), _boxes(references))


def _boxes(masks: Tensor) -> Tensor:
    """Return the filled bounding box of each mask."""
    sides = []
    for axis in (2, 1):
        line = masks.any(axis).int()  # [N, h], then [N, w]
        sides.append((line.cummax(1).values & line.flip(1).cummax(1).values.flip(1)).bool())
    return sides[0][:, :, None] & sides[1][:, None, :]
