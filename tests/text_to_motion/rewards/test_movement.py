"""The movement reward: its formula, its gradient, and that neither statues nor exaggeration win."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit import load_dataset
from motionkit.errors import MotionkitError
from motionkit.metrics import band_power
from motionkit.motion import HUMANML, MotionBatch
from motionkit.testing import check_reward
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.components import MovementOptions
from motionkit.text_to_motion.rewards.motion_terms import BANDS, Movement

from ...made.plain import plain_dataset


@pytest.fixture(scope="module")
def dataset() -> Any:
    return load_dataset("starter", clips=576, val_clips=144, test_clips=144, max_frames=64)


@pytest.fixture(scope="module")
def reward(dataset: Any) -> Movement:
    return Movement(MovementOptions(), dataset=dataset)


def batch(features: list[Tensor]) -> MotionBatch:
    lengths = torch.tensor([len(one) for one in features])
    padded = torch.nn.utils.rnn.pad_sequence(features, batch_first=True, padding_value=torch.nan)
    return MotionBatch(padded, lengths, skeleton=HUMANML, fps=20.0)


def prompts_of(clips: Any) -> list[Prompt]:
    return [Prompt((clip.captions[0],), (len(clip.features),)) for clip in clips]


def scaled(features: Tensor, factor: float) -> Tensor:
    """Return features whose joints swing by another factor about their mean."""
    return features.mean(0) + factor * (features - features.mean(0))


def test_it_keeps_the_contract(reward: Movement, dataset: Any) -> None:
    clips = dataset.clips("val")[:4]
    both = batch([clip.features for clip in clips])
    prompts = prompts_of(clips)
    prompts[0] = Prompt((clips[0].captions[0], clips[1].captions[0]), (20, prompts[0].length - 20))
    finite = MotionBatch(both.features.nan_to_num(), both.lengths, skeleton=HUMANML, fps=20.0)
    check_reward(reward, samples=finite, prompts=prompts)


def test_real_clips_score_best_statues_and_exaggeration_less(reward: Movement, dataset: Any) -> None:
    clips = [clip for clip in dataset.clips("val") if "walk" in clip.captions[0] or "wav" in clip.captions[0]][:12]
    prompts = prompts_of(clips)
    mean = {
        factor: float(reward.score(batch([scaled(clip.features, factor) for clip in clips]), prompts).total.mean())
        for factor in (0.0, 0.3, 1.0, 3.0)
    }
    assert 0.7 < mean[1.0] <= 1.0
    assert mean[0.0] < mean[0.3] < mean[1.0] - 0.2
    assert mean[3.0] < mean[1.0] - 0.2


def test_training_clips_have_all_of_it(reward: Movement, dataset: Any) -> None:
    clips = dataset.clips("train")[:144:13]
    found = reward.score(batch([clip.features for clip in clips]), prompts_of(clips)).total
    torch.testing.assert_close(found, torch.ones_like(found))


def test_the_formula(dataset: Any) -> None:
    clips = dataset.clips("train")
    two = [SimpleNamespace(features=clips[number].features, captions=("one action",)) for number in (3, 40)]
    reward = Movement(MovementOptions(), dataset=plain_dataset(clips=lambda split: two, skeleton=HUMANML, fps=20.0))

    def energies(features: Tensor) -> list[float]:
        one = batch([features])
        ends = [20, 21, 10, 11]
        powers = [band_power(one.joints, one.headings, one.lengths, 20.0, band=band)[0, ends] for band in BANDS]
        return [math.log(float(power) + 1e-4) for part in powers for power in part]

    made = clips[100].features
    known = [energies(clip.features) for clip in two]
    away = [max(0.0, min(real) - x) + max(0.0, x - max(real)) for x, *real in zip(energies(made), *known, strict=True)]
    asked = Prompt(("one action", "something else"), (len(made), 30))
    features = torch.cat([made, made[:30]])
    scores = reward.score(batch([features]), [asked])
    expected = math.exp(-sum(away) / 12)
    assert 0.01 < expected < 0.99
    # The other segment has no reference clip and says nothing.
    assert float(scores.total) == pytest.approx(expected, rel=1e-4)
    assert scores.segments is not None
    assert scores.segments[0].tolist() == pytest.approx([expected, expected], rel=1e-4)
    short = Prompt(("one action",), (19,))
    assert scores.applying.tolist() == [True]
    assert reward.score(batch([made[:19]]), [short]).applying.tolist() == [False]
    assert reward.score(batch([made]), [Prompt(("xyz",), (len(made),))]).applying.tolist() == [False]


def test_the_gradient_is_that_of_differences_and_leads_a_small_swing_to_a_larger_one(
    reward: Movement, dataset: Any
) -> None:
    clip = next(clip for clip in dataset.clips("val") if "walk" in clip.captions[0])
    prompts = prompts_of([clip])
    small = scaled(clip.features, 0.3).double()

    def score(features: Tensor) -> Tensor:
        motion = MotionBatch(features[None], torch.tensor([len(features)]), skeleton=HUMANML, fps=20.0)
        return reward.score(motion, prompts).total[0]

    start = small.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(score(start), start)
    assert bool(gradient.isfinite().all())
    draw = torch.Generator().manual_seed(0)
    for _ in range(3):
        direction = torch.randn(small.shape, generator=draw, dtype=torch.float64)
        step = 1e-6
        slope = float(score(small + step * direction) - score(small - step * direction)) / (2 * step)
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-4)
    swing = clip.features.double() - clip.features.double().mean(0)
    assert float((gradient * swing).sum()) > 0
    frozen = small.mean(0).expand_as(small).clone().requires_grad_()
    assert bool(torch.autograd.grad(score(frozen), frozen)[0].isfinite().all())


def test_data_without_single_clips_are_refused() -> None:
    composite: Any = plain_dataset(splits=("val",), source=None)
    for dataset in (None, composite):
        with pytest.raises(MotionkitError, match="reference clips"):
            Movement(MovementOptions(), dataset=dataset)
