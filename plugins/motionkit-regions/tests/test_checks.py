"""The checks of policies and datasets of regions pass what is right and find what is not."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.motion.corpus.ids import Split
from motionkit.testing import check_dataset, check_policy, check_reward
from motionkit_regions.checks import check_region_dataset, check_region_policy
from motionkit_regions.datasets.base import Regions, Scene, Thing
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.policy import Captions, WordScores
from motionkit_regions.small import ShapesPolicy
from motionkit_regions.small_settings import RegionSettings

SMALL = RegionSettings(width=16, layers=1, vision=8, channels=8, prompt=6)


def small(cls: type[ShapesPolicy] = ShapesPolicy) -> ShapesPolicy:
    torch.manual_seed(0)
    return cls(SMALL, Shapes().words)


def test_the_built_ins_keep_their_contracts() -> None:
    check_policy("tiny-sa2va")  # by what they give
    check_region_policy(small())
    check_dataset("shapes", clips=6)


@pytest.mark.parametrize(
    "name", ["iou", "iou-truth", "box-iou", "mask-confidence", "meteor", "length", "distinct", "format", "rule"]
)
def test_rewards_of_masks_and_texts_keep_theirs(name: str) -> None:
    check_reward(name)


class Moody(ShapesPolicy):
    """Samples without the noise that it is given."""

    def sample_captions(self, *given: Any, noise: Any = None, **more: Any) -> Captions:
        return super().sample_captions(*given, **more)


class Hot(ShapesPolicy):
    """Its log-probabilities count the words behind the end."""

    def score_words(self, *given: Any, **more: Any) -> WordScores:
        found = super().score_words(*given, **more)
        return WordScores(found.log_prob - 1.0, found.entropy, found.mask)


class Mixing(ShapesPolicy):
    """A mask depends on the batch."""

    def draw(self, seen: Any, prompts: torch.Tensor) -> torch.Tensor:
        return super().draw(seen, prompts - prompts.mean(0))


class Groups(ShapesPolicy):
    """Names a part that nothing reaches, and one that is not there."""

    groups: ClassVar = {**ShapesPolicy.groups, "frozen": ("vision_model.*",), "lost": ("lora.*",)}


class Forgetting(ShapesPolicy):
    """Does not put weights back."""

    def load_tensors(self, tensors: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (Moody, "The same noise gives other captions"),
        (Hot, "must be 0 behind the end"),
        (Mixing, "A mask drawn alone differs"),
        (Groups, r"(?s)groups\['frozen'\].*groups\['lost'\] matches no parameter"),
        (Forgetting, "does not put back"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_told_how(cls: type[ShapesPolicy], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_region_policy(small(cls))


class Wrong(Shapes):
    """One fault at a time."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.calls = fault, 0

    def scenes(self, split: Split, index: NDArray[np.int64]) -> tuple[Scene, ...]:
        found = super().scenes(split, index)
        if self.fault == "other scenes":
            return super().scenes(split, index + 100)
        if self.fault == "bare things":
            return (Scene((Thing({"shape": "circle"}, (0.5, 0.5)),)), *found[1:])
        return found[:-1] if self.fault == "few scenes" else found

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        self.calls += 1
        found = super().regions("train" if self.fault == "leak" else split, index)
        images, masks, captions = list(found.images), list(found.masks), list(found.captions)
        if self.fault == "empty":
            masks[1] = np.zeros_like(masks[1])
        elif self.fault == "grey":
            images[0] = images[0][..., 0]
        elif self.fault == "mute":
            captions[-1] = " "
        elif self.fault == "restless":
            captions[0] += f" {self.calls}"
        elif self.fault == "short":
            captions = captions[:-1]
        return Regions(images, masks, tuple(captions))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("empty", "has an empty mask"),
        ("grey", r"must be \[H, W, 3\] uint8"),
        ("mute", "has no caption"),
        ("restless", "gives other regions"),
        ("short", "images, masks and captions"),
        ("leak", "is in 'train' as well"),
        ("few scenes", "must give a scene for each region"),
        ("bare things", "must have the attributes"),
        ("other scenes", "captions of the data are not true of their object"),
    ],
)
def test_a_dataset_that_breaks_its_contract_is_told_how(fault: str, said: str) -> None:
    check_region_dataset(Wrong(""), clips=3)
    with pytest.raises(AssertionError, match=said):
        check_region_dataset(Wrong(fault), clips=3)
