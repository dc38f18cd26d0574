"""The checks of environments and of images with regions pass what is right and find what is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.contracts.dataset import Split
from motionkit.regions.datasets.base import Regions, Scene, Thing
from motionkit.regions.datasets.scenes import Shapes
from motionkit.regions.policy import Captions, WordScores
from motionkit.regions.small import ShapesPolicy
from motionkit.regions.small_settings import RegionSettings
from motionkit.success.environments.arm import CAMERA, Reach
from motionkit.success.environments.base import Step
from motionkit.success.environments.tasks import ReachSettings
from motionkit.testing import check_dataset, check_environment, check_policy, check_reward


class Small(Reach):
    """`reach` with short episodes and small pictures."""

    def __init__(self, *, max_steps: int = 20, num_envs: int = 2) -> None:
        super().__init__(ReachSettings(max_steps=max_steps, size=16), num_envs=num_envs)


class Unseeded(Small):
    drawn = 0

    def _begin(self, copy: int, seed: int) -> None:
        Unseeded.drawn += 1
        super()._begin(copy, Unseeded.drawn)


class ByCopy(Small):
    def reset(self, copies: Any, seeds: Any) -> None:
        super().reset(copies, seeds + copies)


class ResetsAll(Small):
    def reset(self, copies: Any, seeds: Any) -> None:
        super().reset(np.arange(2), np.resize(seeds, 2))


class AutoReset(Small):
    """What gymnasium's vector environments do: the last state of an episode is gone."""

    def step(self, actions: Any) -> Step:
        if self._over.any():
            over = np.flatnonzero(self._over)
            self.reset(over, over + 500)
        return super().step(actions)


class Unclipped(Small):
    def step(self, actions: Any) -> Step:
        self._places[:, 0] += np.where(self._over[:, None], 0, 0.01 * np.asarray(actions, np.float32))
        return super().step(actions)


class Endless(Small):
    def step(self, actions: Any) -> Step:
        step = super().step(actions)
        self._over[:] = False
        return Step(step.reward, step.success, step.terminated, step.terminated, step.infos)


class Shared(Small):
    """Returns the very array that it goes on writing to."""

    def states(self) -> Any:
        self.kept = getattr(self, "kept", np.zeros((2, 6), np.float32))
        self.kept[:] = super().states()
        return self.kept


class Wide(Small):
    def frames(self) -> Any:
        return {CAMERA: super().frames()[CAMERA].astype(np.float32) / 255}


class Misnamed(Small):
    def frames(self) -> Any:
        return {"front": super().frames()[CAMERA]}


class Silent(Small):
    def step(self, actions: Any) -> Step:
        step = super().step(actions)
        return Step(step.reward, step.reward, step.terminated, step.truncated, step.infos)


class Forgetful(Small):
    def get_state(self) -> Mapping[str, Any]:
        return {**super().get_state(), "places": self._places}


class Lost(Small):
    def scripted(self) -> Any:
        return -super().scripted()


class Blind(Small):
    def __init__(self) -> None:
        super().__init__()
        self.cameras, self.state_size = {}, 0


class Unserial(Small):
    def __init__(self) -> None:
        super().__init__()
        self.spec = {**self.spec, "space": self.action_space}


def test_builtin_environments() -> None:
    check_environment("reach")
    check_environment(Small(num_envs=1))
    check_environment(Small(max_steps=200), steps=10)  # only its beginning is looked at


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (Unseeded, "The same seeds give another start"),
        (ByCopy, "The start of a seed depends on the copy"),
        (ResetsAll, "reset changes a copy that it was not called for"),
        (AutoReset, "A step changes a copy whose episode is over"),
        (Unclipped, "An action beyond its space does something else"),
        (Endless, "An episode is not over after max_steps, 20"),
        (Shared, "What states returned changes with a later reset"),
        (Wide, "frames of base_camera must be [2, 16, 16, 3] uint8, are [2, 16, 16, 3] float32"),
        (Misnamed, "frames are of ['front'], cameras are ['base_camera']"),
        (Silent, "success must be [2] bool, is [2] float32"),
        (Forgetful, "set_state does not go back to what get_state returned"),
        (Lost, "Its scripted policy reaches no success in an episode"),
        (Blind, "It shows nothing"),
        (Unserial, "Its spec is not JSON-able"),
    ],
)
def test_broken_environments(environment: type[Small], said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_environment(environment())
    assert said in str(caught.value)


def test_a_start_must_not_depend_on_the_number_of_copies(site: Any) -> None:
    from motionkit.plugins import Component

    source = "from motionkit.success.environments.arm import Reach\n\nclass ByNumber(Reach):\n"
    source += "    def reset(self, copies, seeds):\n        super().reset(copies, seeds + self.num_envs)\n"
    site.install("by-number", "", by_number=source)
    component = Component("By N.", ReachSettings, "by_number:ByNumber")
    with pytest.raises(AssertionError, match="depends on the number of copies"):
        check_environment(component, options={"max_steps": 20, "size": 16})


SMALL = RegionSettings(width=16, layers=1, vision=8, channels=8, prompt=6)


def small(cls: type[ShapesPolicy] = ShapesPolicy) -> ShapesPolicy:
    torch.manual_seed(0)
    return cls(SMALL, Shapes().words)


def test_the_built_ins_keep_their_contracts() -> None:
    check_policy("tiny-sa2va")
    check_policy(small())
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
        check_policy(small(cls))


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
    check_dataset(Wrong(""), clips=3)
    with pytest.raises(AssertionError, match=said):
        check_dataset(Wrong(fault), clips=3)
