"""The contract checks of rewards, datasets, policies, trainers and algorithms find what they are there to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from motionkit.contracts.dataset import TextClip
from motionkit.contracts.reward import FrameBatch, MaskBatch, Reward, RewardScores, TextBatch
from motionkit.motion import HUMANML, MotionBatch, Normalizer, feature_width
from motionkit.testing import (
    check_component,
    check_dataset,
    check_policy,
    check_reward,
    check_trainer,
    sample_motions,
    sample_prompts,
)
from motionkit.text import Prompt


def height(motions: MotionBatch) -> Tensor:
    return torch.where(motions.mask, motions.features[..., 3], 0.0).sum(dim=1) / motions.lengths


class Height:
    """A reward: by default the mean height of the root, which keeps the contract."""

    name = "height"

    def __init__(self, scored: Callable[[MotionBatch], Any] = lambda motions: RewardScores(height(motions))) -> None:
        self.scored = scored

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> Any:
        return self.scored(motions)


def ranked(motions: MotionBatch) -> RewardScores:
    total = height(motions)
    return RewardScores((total - total.mean()) / (total.std(correction=0) + 1))


def meddling(motions: MotionBatch) -> RewardScores:
    scores = RewardScores(height(motions))
    motions.features[0, 0] += 1
    return scores


BROKEN: dict[str, Callable[[MotionBatch], Any]] = {
    "More padding changes the score": lambda motions: RewardScores(motions.features[..., 3].nan_to_num().mean(dim=1)),
    "A sample scored alone gets another score": ranked,
    "Scoring the same samples twice": lambda motions: RewardScores(torch.rand(len(motions))),
    "It changes what it is given": meddling,
    "total must be float32": lambda motions: RewardScores(height(motions).double()),
    "It returns a Tensor, not RewardScores.": height,
    "It returns total as a list; it must be a tensor.": lambda motions: RewardScores([0.0] * len(motions)),
    "segments must be 0 past a sample's last segment": lambda motions: RewardScores(
        height(motions), segments=height(motions)[:, None].expand(-1, 3)
    ),
}


def test_a_reward_that_keeps_the_contract_passes() -> None:
    check_reward(Height())


@pytest.mark.parametrize("said", BROKEN)
def test_each_broken_promise_is_a_sentence(said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_reward(Height(BROKEN[said]))
    assert said in str(caught.value)


class Bright:
    """Reads images: mean brightness of the valid frames."""

    name = "bright"

    def score(self, frames: FrameBatch, prompts: Sequence[Prompt]) -> RewardScores:
        each = frames.frames.float().mean((2, 3, 4))  # [N, T]
        return RewardScores(total=torch.where(frames.mask, each, 0.0).sum(1) / frames.lengths)


class Flickering(Bright):
    def score(self, frames: FrameBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=frames.frames.float().mean((1, 2, 3, 4)))


class Overlap:
    """Reads masks: intersection over union."""

    name = "overlap"

    def score(self, masks: MaskBatch, prompts: Sequence[Prompt]) -> RewardScores:
        both = (masks.masks & masks.references).sum((1, 2))
        return RewardScores(total=both / (masks.masks | masks.references).sum((1, 2)))


class Relative(Overlap):
    def score(self, masks: MaskBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(masks, prompts).total
        return RewardScores(total=total / total.max())


class Words:
    """Reads texts: share of the words of a reference."""

    name = "words"

    def score(self, texts: TextBatch, prompts: Sequence[Prompt]) -> RewardScores:
        wanted = [set(" ".join(reference).split()) for reference in texts.references]
        shares = [len(set(text.split()) & all) / len(all) for text, all in zip(texts.texts, wanted, strict=True)]
        return RewardScores(total=torch.tensor(shares))


class Editing(Words):
    def score(self, texts: TextBatch, prompts: Sequence[Prompt]) -> RewardScores:
        scores = super().score(texts, prompts)
        texts.texts[0] += "!"  # type: ignore[index]
        return scores


@pytest.mark.parametrize(("reward", "reads"), [(Bright(), "image"), (Overlap(), "mask"), (Words(), "text")])
def test_rewards_of_other_records_are_given_theirs(reward: Reward, reads: str) -> None:
    check_reward(reward, reads=reads)


@pytest.mark.parametrize(
    ("reward", "reads", "said"),
    [
        (Flickering(), "image", "padding"),
        (Relative(), "mask", "scored alone"),
        (Editing(), "text", "changes what it is given"),
    ],
)
def test_rewards_of_other_records_are_checked(reward: Reward, reads: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_reward(reward, reads=reads)


def test_a_component_says_what_its_reward_reads(site: Any) -> None:
    source = (
        "from motionkit.config import Group\nfrom motionkit.plugins import Component\n"
        "class Options(Group):\n    pass\n"
        "class Count:\n"
        "    name = 'count'\n"
        "    def __init__(self, options, **runtime):\n        pass\n"
        "    def score(self, texts, prompts):\n"
        "        import torch\n"
        "        from motionkit.contracts.reward import FrameBatch, MaskBatch, Reward, RewardScores, TextBatch\n"
        "        return RewardScores(torch.tensor([float(len(text)) for text in texts.texts]))\n"
        "component = Component('Length of a text.', Options, 'count_words:Count', reads='text')\n"
        "odd = Component('Odd.', Options, 'count_words:Count', reads='sound')\n"
        "lost = Component('Lost.', Options, 'count_words:Count', reads='text', twin='nobody')\n"
        "paired = Component('Paired.', Options, 'count_words:Count', reads='text', twin='count')\n"
    )
    names = {"count": "component", "odd": "odd", "lost": "lost", "paired": "paired"}
    entries = "[motionkit.rewards]\n" + "".join(f"{name} = count_words:{of}\n" for name, of in names.items())
    site.install("count-words", entries, count_words=source)
    check_reward("count")
    for name, word in (("odd", "'sound'"), ("lost", "'nobody'")):
        with pytest.raises(AssertionError, match=word):
            check_component("rewards", name)
    check_component("rewards", "paired")


def test_samples_have_lengths_segments_and_nan_padding() -> None:
    motions = sample_motions()
    assert bool(motions.features[~motions.mask].isnan().all())
    assert bool(motions.features[motions.mask].isfinite().all())
    assert [prompt.length for prompt in sample_prompts(motions)] == motions.lengths.tolist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("rewards", "tmr-cosine"),
        ("rewards", "tmr-matching"),
        ("rewards", "tmr-dense"),
        ("rewards", "physics"),
        ("datasets", "starter"),
        ("datasets", "humanml"),
        ("datasets", "kit"),
        ("datasets", "composite"),
        ("policies", "mdm"),
        ("algorithms", "grpo"),
        ("algorithms", "awm"),
        ("algorithms", "nft"),
        ("algorithms", "dpo"),
        ("trainers", "grpo"),
        ("trainers", "pretrain.mdm"),
        ("trainers", "pretrain.tmr"),
    ],
)
def test_light_half_of_every_builtin(kind: str, name: str) -> None:
    check_component(kind, name)


def test_physics_keeps_the_contract() -> None:
    check_reward("physics", options={"r_s": 0.1, "r_j": 100.0})


WIDTH = feature_width(HUMANML)


class Toy:
    """A dataset of zeros."""

    name, skeleton, fps, max_length, random_crop = "toy", HUMANML, 20.0, 60, True

    def __init__(self) -> None:
        self.normalizer = Normalizer(torch.zeros(WIDTH), torch.ones(WIDTH))

    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip(f"{split}-{i}", torch.zeros(40, WIDTH), ("a person stands",)) for i in range(3)]

    def prompts(self, split: str, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        count = k_segments or 1
        return [Prompt(("stand",) * count, (40 // count,) * count, key=f"{split}-{i}") for i in range(3)]


class Leaky(Toy):
    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip("same", torch.zeros(40, WIDTH), ("a person stands",))]


class Narrow(Toy):
    def clips(self, split: str) -> Sequence[TextClip]:
        return [TextClip(f"{split}-0", torch.zeros(40, 3), ("",))]


class OneSegment(Toy):
    def prompts(self, split: str, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        return super().prompts(split)


def test_datasets() -> None:
    check_dataset(Toy())  # type: ignore[arg-type]  # a protocol with class attributes


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (Leaky(), "is in 'val' and in another split"),
        (Narrow(), "features must be [T, 263] float32"),
        (Narrow(), "has no caption"),
        (OneSegment(), "k_segments=2 must give 2 segments"),
    ],
)
def test_broken_datasets(dataset: Toy, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_dataset(dataset)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_starter_dataset_keeps_the_contract() -> None:
    check_dataset("starter", options={"clips": 64, "val_clips": 16, "test_clips": 16})


class Line:
    """A policy that scales its input."""

    max_length = 60
    random_crop = True

    def __init__(self) -> None:
        self.network: nn.Module = nn.Linear(1, 1).eval()
        self.normalizer = Normalizer(torch.zeros(WIDTH), torch.ones(WIDTH))

    def condition(self, prompts: Sequence[Prompt]) -> Any:
        return list(prompts)

    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        return self.network(x[..., None])[..., 0] * guidance


class Mixing(Line):
    def predict(self, x: Tensor, timestep: Tensor, condition: Any, lengths: Tensor, *, guidance: float = 1.0) -> Tensor:
        return super().predict(x, timestep, condition, lengths, guidance=guidance) + x.nan_to_num().mean()


class Training(Line):
    def __init__(self) -> None:
        super().__init__()
        self.network.train()


class Frozen(Line):
    def __init__(self) -> None:
        super().__init__()
        self.network.requires_grad_(False)


def test_policies() -> None:
    check_policy(Line())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Mixing(), "What stands in the padding changes the prediction"),
        (Mixing(), "A sample predicted alone differs"),
        (Training(), "must be in eval mode"),
        (Frozen(), "No parameter of its network can be trained"),
    ],
)
def test_broken_policies(policy: Line, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_policy(policy)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_trainers(trainer: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    document = check_trainer("count", folder, settings={"run": {"num_steps": 3}})
    assert document["metrics"] == {"count": 3.0}
