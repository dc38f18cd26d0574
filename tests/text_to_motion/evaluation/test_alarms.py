"""Alarms: reward curves that cannot be right, and the known ways to win a reward without doing what was asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.kernels import physics_sums
from motionkit.metrics.paired import Paired, compare
from motionkit.motion import HUMANML
from motionkit.starter import CATALOGUE, Order, perform
from motionkit.text_to_motion.grpo.measurements import PATIENCE, RewardAlarms, drift_alarms


def line(mean: float, low: float, high: float, **more: float) -> dict[str, float]:
    return {"reward/mean": mean, "reward/min": low, "reward/max": high, **more}


def test_a_constant_reward_is_said_once_after_twenty_steps() -> None:
    alarms = RewardAlarms()
    said = [alarms.look(line(0.5, 0.5, 0.5)) for _ in range(PATIENCE + 5)]
    assert [bool(texts) for texts in said] == [False] * (PATIENCE - 1) + [True] + [False] * 5
    assert "constant (0.5) for 20 steps" in said[PATIENCE - 1][0]


@pytest.mark.parametrize(("mean", "name"), [(0.9999, "upper"), (0.0001, "lower")])
def test_a_reward_at_an_end_of_its_range(mean: float, name: str) -> None:
    alarms = RewardAlarms((0.0, 1.0))
    said = [alarms.look(line(mean, mean - 1e-4, mean + 1e-4)) for _ in range(PATIENCE)]
    assert [f"at the {name} end of its range" in text for text in said[-1]] == [True]


def test_samples_without_a_finite_reward_are_said() -> None:
    assert "no finite reward" in RewardAlarms().look(line(0.5, 0.1, 0.9, **{"reward/nan": 2.0}))[0]


def test_a_reward_without_any_finite_score_is_named_once() -> None:
    alarms, nan = RewardAlarms(), float("nan")
    first = line(0.5, 0.1, 0.9, **{"reward/near/mean": 0.5, "reward/far/mean": nan, "reward/far/part": nan})
    assert [text.split(" gave")[0] for text in alarms.look(first)] == ["the reward far"]
    assert alarms.look(first) == []


def test_a_heldout_measurement_without_numbers_is_said() -> None:
    nan = np.full((3, 2), np.nan)
    assert "no held-out prompt has a finite reward" in drift_alarms({"reward": compare(np.ones((3, 2)), nan)})[0]


def measured(joints: list[Tensor]) -> dict[str, np.ndarray]:
    lengths = torch.tensor([len(motion) for motion in joints])
    padded = torch.nn.utils.rnn.pad_sequence(joints, batch_first=True)
    skate, jerk = physics_sums(padded, lengths, fps=20.0, feet=HUMANML.feet)
    return {"skate": skate.double().numpy()[:, None], "jerk": jerk.double().numpy()[:, None]}


def changes(before: list[Tensor], after: list[Tensor]) -> dict[str, Paired]:
    first, second = measured(before), measured(after)
    return {name: compare(first[name], second[name]) for name in first}


@pytest.fixture(scope="module")
def motions() -> list[Tensor]:
    """Sixteen actions of the starter, with the slight sliding of a generator's feet."""
    orders = [Order(entry.name, 60, number) for number, entry in enumerate(CATALOGUE[::9])]
    clips = [torch.from_numpy(clip.joints).float() for clip in perform(orders, fps=20.0)]
    return [clip + 0.01 * torch.arange(len(clip))[:, None, None] * torch.tensor([1.0, 0.0, 0.0]) for clip in clips]


def test_motions_that_freeze_swing_wildly_or_slide_are_an_alarm(motions: list[Tensor]) -> None:
    frozen = [motion[:1].expand_as(motion).clone() for motion in motions]
    scaled = [motion.mean(0) + 2 * (motion - motion.mean(0)) for motion in motions]
    slid = [m + 0.05 * torch.arange(len(m))[:, None, None] * torch.tensor([0.0, 0.0, 1.0]) for m in motions]
    for after, said in ((frozen, "standing still"), (scaled, "jerk rose"), (slid, "skate rose")):
        assert any(said in text for text in drift_alarms(changes(motions, after)))
    assert drift_alarms(changes(motions, [1.02 * motion for motion in motions])) == []


def test_a_rise_of_jerk_towards_that_of_reference_clips_is_no_alarm() -> None:
    rise = {"jerk": Paired(40.0, 58.0, 18.0, (16.0, 20.0), 64)}
    assert drift_alarms(rise, reference_jerk=60.0) == []
    for reference in (None, 45.0):
        (text,) = drift_alarms(rise, reference_jerk=reference)
        assert text.startswith("jerk rose from 40 to 58")


def test_a_reward_that_rises_while_the_judge_falls_is_an_alarm() -> None:
    reward = Paired(0.5, 0.6, 0.1, (0.08, 0.12), 64)
    found = drift_alarms({"reward": reward, "judge": Paired(0.5, 0.4, -0.1, (-0.12, -0.08), 64)})
    assert len(found) == 1
    assert "gamed" in found[0]
    uncertain = drift_alarms({"reward": reward, "judge": Paired(0.5, 0.49, -0.01, (-0.03, 0.01), 64)})
    assert len(uncertain) == 1
    assert "less than 0.6 of it" in uncertain[0]
    assert drift_alarms({"reward": reward, "judge": Paired(0.5, 0.57, 0.07, (0.05, 0.09), 64)}) == []
    unclear = Paired(0.5, 0.51, 0.01, (-0.01, 0.03), 64)
    assert drift_alarms({"reward": unclear, "judge": Paired(0.5, 0.49, -0.01, (-0.03, 0.01), 64)}) == []


@pytest.mark.parametrize("name", ["diversity", "speed", "path"])
def test_motions_that_become_alike_or_slow_are_an_alarm(name: str) -> None:
    assert any(name in text for text in drift_alarms({name: Paired(1.0, 0.7, -0.3, (-0.4, -0.2), 64)}))
    assert drift_alarms({name: Paired(1.0, 0.8, -0.2, (-0.3, -0.1), 64)}) == []
