"""The contract checks find what they are there to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from motionkit.contracts.reward import FrameBatch, MaskBatch, Reward, RewardScores, TextBatch
from motionkit.motion import MotionBatch
from motionkit.testing import check_component, check_reward, sample_motions, sample_prompts
from motionkit.text import Prompt


class Height:
    """A reward that keeps the contract: mean height of the root."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.features[..., 3], 0.0)
        return RewardScores(total=height.sum(dim=1) / motions.lengths)


class Padded(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=motions.features[..., 3].nan_to_num().mean(dim=1))


class Ranked(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(motions, prompts).total
        return RewardScores(total=(total - total.mean()) / (total.std(correction=0) + 1))


class Forgetful(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=torch.rand(len(motions)))


class Meddling(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        scores = super().score(motions, prompts)
        motions.features[0, 0] += 1
        return scores


class Double(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=super().score(motions, prompts).total.double())


class Bare(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return super().score(motions, prompts).total  # type: ignore[return-value]


class Listing(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=[0.0] * len(motions))  # type: ignore[arg-type]


class Segmented(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(motions, prompts).total
        return RewardScores(total=total, segments=total[:, None].expand(-1, 3))


def test_a_reward_that_keeps_the_contract_passes() -> None:
    check_reward(Height())


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (Padded(), "More padding changes the score"),
        (Ranked(), "A sample scored alone gets another score"),
        (Forgetful(), "Scoring the same samples twice"),
        (Meddling(), "It changes what it is given"),
        (Double(), "total must be float32"),
        (Bare(), "It returns a Tensor, not RewardScores."),
        (Listing(), "It returns total as a list; it must be a tensor."),
        (Segmented(), "segments must be 0 past a sample's last segment"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Height) else "",
)
def test_each_broken_promise_is_a_sentence(reward: Height, said: str) -> None:
    with pytest.raises(AssertionError, match="reward 'height' breaks its contract") as caught:
        check_reward(reward)
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
        (Flickering(), "image", "What stands in the padding changes the score"),
        (Relative(), "mask", "A sample scored alone gets another score"),
        (Editing(), "text", "It changes what it is given"),
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
    with pytest.raises(AssertionError, match="It reads 'sound'; rewards read motion, image, mask, text or step"):
        check_component("rewards", "odd")
    with pytest.raises(AssertionError, match="Its twin 'nobody' is not another installed reward"):
        check_component("rewards", "lost")
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
