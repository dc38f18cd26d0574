"""Real motions for prompts, and how much a policy's motions move beside them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from motionkit import load_dataset, load_policy
from motionkit.contracts.reward import RewardScores
from motionkit.metrics.paired import Paired
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.heldout import HeldOut, compare_measured
from motionkit.text_to_motion.evaluation.quality import RealMotions
from motionkit.text_to_motion.grpo.measurements import drift_alarms, still_alarms
from motionkit.text_to_motion.rewards.mix import RewardMix


class Half:
    """A reward that is the same for every motion."""

    name = "half"

    def score(self, motions: MotionBatch, prompts: Any) -> RewardScores:
        return RewardScores(torch.full((len(motions),), 0.5))


@pytest.fixture(scope="module")
def dataset() -> Any:
    return load_dataset("starter", clips=288, val_clips=288, test_clips=144, max_frames=64, prompts=12)


def test_a_real_motion_does_what_the_segments_ask_for(dataset: Any) -> None:
    prompts = dataset.prompts("val")
    real = RealMotions(dataset, "val")
    found = real.answers(prompts)
    assert found is not None
    assert found.places == tuple(range(12))
    for prompt, shown, length in zip(prompts, found.prompts, found.motions.lengths.tolist(), strict=True):
        assert (shown.segments, shown.key) == (prompt.segments, prompt.key)
        assert shown.length == length
        assert all(0 < own <= asked for own, asked in zip(shown.frames, prompt.frames, strict=True))
    measured = real.actions.measure(found.motions, found.prompts)
    assert float(measured["movement"].nanmean()) == pytest.approx(1.0, abs=0.12)
    assert float(measured["statues"].nansum()) == 0.0
    # The frozen first pose of each is not.
    frozen = found.motions.features[:, :1].expand_as(found.motions.features).clone()
    still = MotionBatch(frozen, found.motions.lengths, skeleton=dataset.skeleton, fps=dataset.fps)
    measured = real.actions.measure(still, found.prompts)
    assert float(measured["movement"].nanmean()) < 0.01
    assert float(measured["statues"].nanmean()) == 1.0


def test_a_single_caption_is_answered_by_its_own_clip(dataset: Any) -> None:
    prompts = dataset.prompts("val", k_segments=1)[5:8]
    found = RealMotions(dataset, "val").answers(prompts)
    assert found is not None
    for row, prompt in enumerate(prompts):
        clip = dataset.clips("val")[5 + row]
        assert prompt.source_ids == (clip.key,)
        assert torch.equal(found.motions.features[row, : prompt.length], clip.features[: prompt.length])


def test_a_long_clip_is_cut_in_its_middle_and_nothing_like_it_is_no_answer(dataset: Any) -> None:
    clip = max(dataset.clips("val")[:144], key=lambda one: len(one.features))
    prompts = [Prompt(("zzz",), (40,)), Prompt((clip.captions[0],), (40,), f"{clip.key}#0")]
    real = RealMotions(dataset, "val")
    found = real.answers(prompts)
    assert found is not None
    assert found.places == (1,)
    start = (len(clip.features) - 40) // 2
    assert torch.equal(found.motions.features[0, :40], clip.features[start : start + 40])
    assert real.answers(prompts[:1]) is None


def test_parts_of_reference_motions_stand_for_clips_where_these_are_not_known(dataset: Any) -> None:
    prompts = [Prompt(("he walks", "he waves"), (40, 44), f"composite {number}") for number in range(2)]
    clips = [
        SimpleNamespace(key=prompt.key, features=dataset.clips("val")[5 * number + 20].features, captions=("both",))
        for number, prompt in enumerate(prompts)
    ]
    clips = [SimpleNamespace(**vars(clip) | {"features": clip.features.repeat(3, 1)[:84]}) for clip in clips]
    composite: Any = SimpleNamespace(
        name="composite",
        splits=("val",),
        skeleton=dataset.skeleton,
        fps=dataset.fps,
        clips=lambda split: clips,
    )
    real = RealMotions(composite, "val", prompts)
    assert [clip.captions for clip in real.actions.clips] == [("he walks",), ("he waves",)] * 2
    found = real.answers(prompts[:1])
    assert found is not None
    assert found.prompts[0].frames == (40, 44)
    parts = real.actions.clips
    assert torch.equal(parts[0].features, clips[0].features[:40])
    assert torch.equal(parts[1].features, clips[0].features[40:])
    only = RealMotions(composite, "val", ())
    assert len(only.actions.clips) == 0
    assert only.answers(prompts) is None


def test_a_measurement_has_movement_and_real_motions_beside_it(dataset: Any) -> None:
    asked = dataset.prompts("val")[:4]
    common: dict[str, Any] = {"steps": 2, "guidance": 1.0, "rewards": RewardMix([(Half(), 1.0)])}
    heldout = HeldOut(asked, samples=2, real=RealMotions(dataset, "val"), **common)
    policy = load_policy("starter")
    made = heldout.measure(policy)
    names = {"reward", "skate", "jerk", "speed", "path", "diversity", "movement", "statues", "side"}
    assert set(made.quantities) == names
    assert all(values.shape == (4, 2) for values in made.quantities.values())
    real = heldout.measure_real()
    assert real is not None
    assert set(real.quantities) == names - {"diversity"}
    assert real.mean("movement") == pytest.approx(1.0, abs=0.2)
    assert real.mean("statues") == 0.0
    assert real.mean("jerk") != made.mean("jerk")
    assert real.shown is not None
    assert real.shown.texts == [" | ".join(prompt.segments) for prompt in asked]
    assert real.first(2).quantities["movement"].shape == (2, 1)
    other = heldout.measure(policy, guidance=4.0)
    assert not np.array_equal(other.quantities["jerk"], made.quantities["jerk"])
    plain = HeldOut(asked, samples=2, **common)
    assert plain.measure_real() is None
    assert set(compare_measured(plain.measure(policy), made)) == names - {"movement", "statues", "side"}


def _paired(before: float, after: float, n: int = 64) -> Paired:
    return Paired(before, after, after - before, (after - before, after - before), n)


def test_motions_that_hardly_move_are_an_alarm() -> None:
    assert "below 0.6" in still_alarms({"movement": _paired(0.3, 0.55)})[0]
    assert still_alarms({"movement": _paired(0.3, 0.65)}) == []
    assert "statues are 8%" in still_alarms({"statues": _paired(0.2, 0.08)})[0]
    assert still_alarms({"statues": _paired(0.2, 0.04)}) == []
    assert still_alarms({"movement": _paired(float("nan"), float("nan"), 0)}) == []
    assert still_alarms({}) == []
    assert "movement fell from 0.9 to 0.8" in drift_alarms({"movement": _paired(0.9, 0.8)})[0]
    assert drift_alarms({"movement": _paired(0.9, 0.85)}) == []
