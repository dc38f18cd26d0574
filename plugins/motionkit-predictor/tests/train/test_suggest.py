"""Suggested settings follow the rules of thumb, and schedules are sound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from motionkit.clips.profile.document import profile_statistics
from motionkit.clips.profile.measure import ClipRow, Moments
from motionkit.clips.profile.statistics import Profile
from motionkit.errors import MotionkitError
from motionkit_predictor.training.schedule import schedule_problems, values_at
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.tuning.advice import suggest

ROW = ClipRow("a", "a", "", "", "BVH", 60.0, 75, 1.25, 1.0, 0.0, 0.5, 0.0, 0.0, 0, ())


def made(lengths: list[int], *, fps: float = 60.0, yaw_std: float = 0.0, speed_std: float = 0.0) -> Profile:
    profile = Profile(rows=[replace(ROW, frames=n, fps=fps, seconds=n / fps) for n in lengths])
    # Two values at a distance of twice the deviation have it.
    profile.yaw = Moments(2, 0.0, 2 * yaw_std**2)
    profile.speed = Moments(2, 0.0, 2 * speed_std**2)
    return profile


def values(profile: Profile, fixed: dict[str, Any] | None = None) -> dict[str, Any]:
    return {one.key: one.value for one in suggest(profile, fixed)}


def test_the_guide_s_own_data_gets_the_guide_s_own_schedule() -> None:
    """5 clips, 375 frames at 60 fps; its configuration trains 30 epochs."""
    got = values(made([75] * 5), {"epochs": 30})
    stages = got["freerun_stage_schedule"]
    assert [stage["range"] for stage in stages] == [[1, 9], [10, 21], [22, 30]]
    assert [stage["label"] for stage in stages] == ["stage1_teacher", "stage2_mixed", "stage3_freerun"]
    assert [stage["trainer"]["freerun_weight"] for stage in stages] == [0.0, 0.175, 0.325]
    assert [stage["trainer"]["freerun_horizon"] for stage in stages] == [9, 14, 18]
    assert stages[1]["loss_groups"]["core"] == {"w_fk_pos": 0.2275, "w_rot_local": 0.2275}
    assert stages[1]["trainer"]["w_latent_consistency"] == 0.12
    assert got["tf_end_epoch"] == 19
    assert (got["w_fk_pos"], got["w_latent_consistency"]) == (0.07, 0.03)


@pytest.mark.parametrize(
    ("frames", "epochs"), [(1_999, 60), (2_000, 45), (9_999, 45), (10_000, 30), (49_999, 30), (50_000, 20), (10**6, 20)]
)
def test_epochs_by_the_number_of_frames(frames: int, epochs: int) -> None:
    assert values(made([frames // 2, frames - frames // 2]))["epochs"] == epochs


@pytest.mark.parametrize(("length", "batch"), [(49, 16), (50, 8), (89, 8), (90, 6), (159, 6), (160, 4)])
def test_batch_by_the_mean_length(length: int, batch: int) -> None:
    assert values(made([length - 10, length + 10]))["batch"] == batch


@pytest.mark.parametrize(("yaw", "speed", "complexity"), [(0, 0, 0.0), (30, 0.3, 1.0), (15, 0.6, 1.25), (400, 9, 2.0)])
def test_learning_rate_falls_with_complexity(yaw: float, speed: float, complexity: float) -> None:
    profile = made([100] * 50, yaw_std=yaw, speed_std=speed)
    assert profile.complexity == pytest.approx(complexity)
    expected = 1e-3 * math.log10(5000) / 5 / (1 + complexity) * math.sqrt(6 / 8)
    assert values(profile)["lr"] == pytest.approx(min(expected, 6e-4), rel=1e-3)


def test_the_window_is_one_that_nine_of_ten_clips_fill() -> None:
    lengths = [25] + [64] * 2 + [90] * 17
    assert values(made(lengths))["seq_len"] == 60
    reason = next(one.reason for one in suggest(made(lengths)) if one.key == "seq_len")
    assert "19 of 20" in reason
    assert "the shorter one is padded" in reason
    assert values(made([1000] * 3))["seq_len"] == 120
    assert values(made([12] * 3))["seq_len"] == 20


def test_roll_outs_are_kept_under_half_a_second_and_the_reason_says_so() -> None:
    stages = suggest(made([600] * 20, fps=30.0))[-1]
    assert [stage["trainer"]["freerun_horizon"] for stage in stages.value] == [8, 11, 15]
    assert "72, 108, 144" in stages.reason
    assert "0.5 s" in stages.reason


def test_fixed_settings_carry_what_follows_from_them() -> None:
    profile = made([100] * 50, yaw_std=60.0)
    free, fixed = values(profile), values(profile, {"epochs": 10, "batch": 32})
    assert fixed["epochs"] == free["epochs"] == 45  # the suggestion itself stays what it is
    assert fixed["freerun_stage_schedule"][-1]["range"][1] == 10
    assert fixed["tf_end_epoch"] == 6
    assert fixed["lr"] > free["lr"]
    assert values(profile, {"epochs": "many", "batch": True}) == free


@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=20),
    st.sampled_from([12.5, 20.0, 60.0, 120.0]),
    st.integers(3, 300),
)
def test_every_suggested_schedule_is_sound(lengths: list[int], fps: float, epochs: int) -> None:
    got = values(made(lengths, fps=fps), {"epochs": epochs})
    assert schedule_problems(got["freerun_stage_schedule"], epochs) == ()
    assert 1e-5 <= got["lr"] <= 6e-4
    assert 1 <= got["tf_end_epoch"] <= epochs
    assert all(stage["trainer"]["freerun_horizon"] < max(got["seq_len"], 2) for stage in got["freerun_stage_schedule"])


@pytest.mark.parametrize("epochs", [1, 2])
def test_few_epochs_have_a_stage_each(epochs: int) -> None:
    stages = values(made([100] * 5), {"epochs": epochs})["freerun_stage_schedule"]
    assert [stage["range"] for stage in stages] == [[n, n] for n in range(1, epochs + 1)]


def test_every_suggestion_has_a_reason_and_no_key_comes_twice() -> None:
    suggestions = suggest(made([100] * 5))
    assert len({one.key for one in suggestions}) == len(suggestions)
    assert all(one.reason.endswith(".") and len(one.reason) > 10 for one in suggestions)


def test_nothing_is_suggested_for_nothing() -> None:
    with pytest.raises(MotionkitError, match="no clip"):
        suggest(Profile())


def stage(first: int, last: int, weight: float, horizon: int = 8) -> dict[str, Any]:
    return {
        "range": [first, last], "label": f"s{first}", "trainer": {"freerun_weight": weight, "freerun_horizon": horizon},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ([stage(1, 5, 0.0), stage(7, 10, 0.2), stage(11, 30, 0.35)], "epoch 6 is next"),
        ([stage(1, 5, 0.2), stage(6, 30, 0.1)], "goes down from 0.2 to 0.1"),
        ([stage(1, 5, 0.0), stage(6, 30, 0.5)], "rises by 0.5"),
        ([stage(1, 5, 0.15, 9), stage(6, 30, 0.3, 8)], "freerun_horizon goes down"),
        ([stage(1, 5, 0.15), stage(6, 20, 0.3)], "end with epoch 20; the training has 30"),
        ([stage(1, 30, 0.1)], "ends at 0.1"),
        ([stage(1, 0, 0.0), stage(1, 30, 0.2)], "before it begins"),
        ([{"range": [1, 30], "label": "half"}], "half lacks"),
    ],
)
def test_problems_of_schedules_are_named(schedule: list[dict[str, Any]], problem: str) -> None:
    assert any(problem in sentence for sentence in schedule_problems(schedule, 30))


def test_a_sound_schedule_has_no_problem() -> None:
    assert schedule_problems([stage(1, 9, 0.0), stage(10, 21, 0.175, 14), stage(22, 30, 0.325, 18)], 30) == ()


def test_the_median_is_the_one_the_table_shows() -> None:
    profile = made([60, 70, 81, 90])
    assert profile_statistics(profile)["median_seq_len"] == 75.5
    assert "of the median 75.5 frames" in suggest(profile)[-1].reason


@pytest.mark.parametrize(
    "schedule", [["x"], [{"range": [1, 2], "trainer": {"freerun_weight": 1, "freerun_horizon": math.inf}}]]
)
def test_what_is_no_stage_is_a_problem_and_no_crash(schedule: list[Any]) -> None:
    assert "lacks range" in schedule_problems(schedule, 30)[0]


def settings(**changes: object) -> TrainMplSettings:
    return TrainMplSettings.model_validate({"run": {"epochs": 20}, **changes})


def shares(mode: str, points: list[float], **changes: object) -> list[float]:
    teacher = {"mode": mode, "start_epoch": 3, "end_epoch": 11, "max": 0.9, "min": 0.1, **changes}
    return [values_at(settings(teacher=teacher), done).teacher for done in points]


def test_linear_by_epoch_stands_still_within_one() -> None:
    """Epoch 3 begins after two: the last with the full share; epoch 11, after ten, is the first with the lowest."""
    assert shares("epoch_linear", [0, 2, 2.9, 6, 6.5, 10, 19]) == pytest.approx([0.9, 0.9, 0.9, 0.5, 0.5, 0.1, 0.1])


def test_linear_by_step() -> None:
    assert shares("step_linear", [2, 6, 6.5, 10]) == pytest.approx([0.9, 0.5, 0.45, 0.1])


def test_constant_stays() -> None:
    assert shares("constant", [0, 10, 19]) == [0.9, 0.9, 0.9]


def test_inverse_sigmoid_is_steep_in_the_middle_and_reaches_both_ends() -> None:
    found = shares("inverse_sigmoid", [2, 4, 6, 8, 10])
    assert found[0] == pytest.approx(0.9)
    assert found[2] == pytest.approx(0.5)
    assert found[4] == pytest.approx(0.1)
    top = 1 / (1 + math.exp(-6))
    quarter = (top - 1 / (1 + math.exp(-3))) / (2 * top - 1)
    assert found[1] == pytest.approx(0.9 - 0.8 * quarter)


def test_the_default_end_is_two_thirds_of_the_way() -> None:
    assert values_at(settings(), 11).teacher > 0
    assert values_at(settings(), 12).teacher == 0.0


def test_horizon_and_weight_rise_over_the_ramp() -> None:
    free = {"horizon": 15, "first_horizon": 1, "weight": 2.0, "first_weight": 0.5, "ramp_epochs": 10}
    found = [values_at(settings(freerun=free), done) for done in (0, 5, 10, 19)]
    assert [one.freerun_horizon for one in found] == [1, 8, 15, 15]
    assert [one.freerun_weight for one in found] == pytest.approx([1.0, 1.5, 2.0, 2.0])


STAGES = [
    {
        "range": [1, 5], "label": "one",
        "trainer": {"freerun_weight": 0.0, "freerun_horizon": 8, "w_latent_consistency": 0.03, "lr": 5e-4},
        "loss_groups": {"core": {"w_fk_pos": 0.07, "w_rot_local": 0.5}, "aux": {"w_limb_geo": 0.0}},
    },
    {"range": [6, 20], "label": "two", "trainer": {"freerun_weight": 0.3, "freerun_horizon": 14, "tf_max": 0.5}},
]  # fmt: skip


def test_a_stage_sets_its_own_values_and_no_others() -> None:
    made = settings(stages=STAGES)
    first, second = values_at(made, 4.9), values_at(made, 5)
    assert (first.freerun_weight, first.freerun_horizon, first.rate) == (0.0, 8, 0.5)
    assert (first.weights["fk_pos"], first.weights["rot_local"], first.weights["latent_consistency"]) == (
        0.07,
        0.5,
        0.03,
    )
    assert (second.freerun_weight, second.freerun_horizon, second.rate) == (0.3, 14, 1.0)
    assert (second.weights["fk_pos"], second.weights["rot_local"]) == (made.loss.fk_pos, made.loss.rot_local)
    assert second.teacher <= 0.5 < first.teacher


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"range": [7, 20]}, "epoch 6"),
        ({"range": [4, 20]}, "overlaps"),
        ({"range": [6, 19]}, "epoch 19"),
        ({"range": [9, 6]}, "not a range"),
        ({"trainer": {"freerun_wieght": 1}}, "freerun_wieght"),
        ({"loss_groups": {"core": {"w_fk_poss": 1}}}, "near names: w_fk_pos"),
    ],
)
def test_stages_that_do_not_fit_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(stages=[STAGES[0], STAGES[1] | change])
