"""Reference motions for prompts, and how much a policy's motions move beside them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit import load_dataset, load_policy
from motionkit.contracts.reward import RewardScores
from motionkit.metrics.paired import Paired
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.data.real_actions import RealActions
from motionkit.text_to_motion.evaluation.heldout import HeldOut, compare_measured
from motionkit.text_to_motion.evaluation.judge import open_judge
from motionkit.text_to_motion.evaluation.quality import measure_quality
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.generating import plan_steps
from motionkit.text_to_motion.grpo.measurements import drift_alarms, still_alarms
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix

from ...made.plain import plain_dataset


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
    composite: Any = plain_dataset(
        name="composite", splits=("val",), skeleton=dataset.skeleton, fps=dataset.fps, clips=lambda split: clips
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


class Oracle:
    """A policy that knows the clip behind each prompt, and adds an offset to it."""

    def __init__(self, policy: Any, clips: Sequence[Any], offset: float = 0.0) -> None:
        self._policy, self._offset = policy, offset
        self._clips = {clip.key: clip.features for clip in clips}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def condition(self, prompts: Sequence[Prompt]) -> Any:
        self._asked = list(prompts)
        return self._policy.condition(prompts)

    def predict(self, x: Tensor, t: Tensor, condition: Any, lengths: Tensor, *, guidance: float) -> Tensor:
        out = torch.zeros_like(x)
        for row, prompt in enumerate(self._asked):
            normal = self._policy.normalizer.normalize(self._clips[prompt.key][: prompt.length])
            out[row, : prompt.length] = normal + self._offset * torch.randn(
                normal.shape, generator=torch.Generator().manual_seed(row)
            )
        return out

    denoise = DiffusionPolicy.denoise


@pytest.fixture(scope="module")
def parts() -> tuple[Any, list[Any], Any]:
    dataset = load_dataset("starter", clips=144, val_clips=96, test_clips=48, prompts=8)
    judge, _ = open_judge(None, dataset, device=torch.device("cpu"))
    return load_policy("starter", dataset=dataset), list(dataset.clips("val"))[:80], judge


def test_clips_themselves_have_distance_zero(parts: tuple[Any, list[Any], Any]) -> None:
    policy, clips, judge = parts
    actions = RealActions(clips, policy.skeleton, policy.fps)
    same = measure_quality(
        Oracle(policy, clips),  # type: ignore[arg-type]
        clips,
        judge,
        judge.space,
        plan=plan_steps(policy, "ddim", 3),
        guidance=1.0,
        actions=actions,
    )
    for name, (made, real) in same.moving.items():
        assert made == pytest.approx(real, abs=1e-3), name
    assert set(same.moving) == {"movement", "statues", "side"}
    assert same.moving["movement"][1] == pytest.approx(1.0, abs=0.1)
    assert same.fid == pytest.approx(0.0, abs=1e-3)
    assert same.score == pytest.approx(same.real, abs=1e-4)
    assert same.count == 80
    assert len(same.shown.texts) == 12


def test_spoilt_clips_are_farther_and_score_less(parts: tuple[Any, list[Any], Any]) -> None:
    policy, clips, judge = parts
    plan = plan_steps(policy, "ddim", 3)
    found = [
        measure_quality(Oracle(policy, clips, offset), clips, judge, judge.space, plan=plan, guidance=1.0)  # type: ignore[arg-type]
        for offset in (0.3, 1.0)
    ]
    assert 0.01 < found[0].fid < found[1].fid
    assert found[1].score < found[0].score < found[0].real
