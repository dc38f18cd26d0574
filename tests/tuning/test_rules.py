"""The guide's three rules: what they raise, by what evidence, and what they never do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motionkit.predictor.schedule import schedule_problems
from motionkit.tuning.recorded import LONGEST, Change, adjust, average, judge, value_in

BASE = {"freerun_weight": 1.0, "freerun_horizon": 15.0, "w_fk_pos": 0.07, "w_rot_local": 0.07,
        "w_latent_consistency": 0.03}  # fmt: skip
HOLD = {"YawAbsDeg": 10.0, "RootVelMAE": 0.1, "InputRotGeoDeg": 5.0}
GUIDE = (("stage1_teacher", 1, 9, 0.0, 8), ("stage2_mixed", 10, 21, 0.175, 14), ("stage3_freerun", 22, 30, 0.325, 18))


def stages(rows: Any = GUIDE) -> list[dict[str, Any]]:
    return [
        {"label": label, "range": [first, last],
         "trainer": {"freerun_weight": weight, "freerun_horizon": horizon, "w_latent_consistency": 0.12},
         "loss_groups": {"core": {"w_fk_pos": 0.2, "w_rot_local": 0.2}}}
        for label, first, last, weight, horizon in rows
    ]  # fmt: skip


def recorded(last: int = 30, *, hold: bool = True, **figures: float) -> dict[int, dict[str, float]]:
    """Return the same figures in every epoch: half of the baseline's unless they are given."""
    values = {name: 0.5 * value for name, value in HOLD.items()} | figures
    limits = {f"Hold/{name}": value for name, value in HOLD.items()} if hold else {}
    return {epoch: {**values, **limits} for epoch in range(1, last + 1)}


def changed(**figures: float) -> dict[str, tuple[float, float]]:
    found = adjust(stages(), recorded(**figures), {}, base=BASE, epochs=30)
    return {f"{one.stage}.{one.key}": (one.before, one.after) for one in found.changes}


def test_a_model_that_beats_the_baseline_changes_nothing() -> None:
    found = adjust(stages(), recorded(), {}, base=BASE, epochs=30)
    assert found.changes == []
    assert found.stages == stages()
    assert len(found.notes) == 9
    assert "stage2_mixed: YawAbsDeg 5, 5 in epochs 20, 21 is not above 10 (holding the last pose)." in found.notes


def test_a_high_heading_error_raises_weight_and_horizon_of_free_runs() -> None:
    assert changed(YawAbsDeg=11.0) == {
        "1.freerun_weight": (0.175, 0.1925), "1.freerun_horizon": (14, 15),
        "2.freerun_weight": (0.325, 0.3575), "2.freerun_horizon": (18, 20),
    }  # fmt: skip


def test_a_high_speed_error_raises_the_weight_of_free_runs() -> None:
    assert changed(RootVelMAE=0.2) == {"1.freerun_weight": (0.175, 0.2), "2.freerun_weight": (0.325, 0.39)}


def test_high_errors_of_what_is_read_raise_latent_and_posture() -> None:
    found = changed(InputRotGeoDeg=6.0)
    assert set(found) == {
        f"{stage}.{key}" for stage in range(3) for key in ("w_latent_consistency", "w_fk_pos", "w_rot_local")
    }
    assert found["1.w_fk_pos"] == (0.2, pytest.approx(0.23))
    assert found["2.w_latent_consistency"] == (0.12, pytest.approx(0.138))


def test_two_rules_for_one_value_are_one_change_with_both_reasons() -> None:
    found = adjust(stages(), recorded(YawAbsDeg=11.0, RootVelMAE=0.2), {}, base=BASE, epochs=30)
    (one,) = [each for each in found.changes if (each.stage, each.key) == (2, "freerun_weight")]
    assert isinstance(one, Change)
    assert (one.before, one.after) == (0.325, 0.4), "1.1 x 1.2, but 0.2 above the stage before at most"
    assert "YawAbsDeg 11, 11 in epochs 29, 30 is above 10 (holding the last pose)" in one.evidence
    assert "RootVelMAE" in one.evidence


def test_only_the_stage_whose_epochs_are_bad_changes() -> None:
    free = recorded()
    for epoch in (20, 21):
        free[epoch]["RootVelMAE"] = 1.0
    found = adjust(stages(), free, {}, base=BASE, epochs=30)
    assert [(one.stage, one.key) for one in found.changes] == [(1, "freerun_weight")]


def test_one_bad_epoch_is_no_evidence() -> None:
    free = recorded(InputRotGeoDeg=4.0)
    free[30]["InputRotGeoDeg"] = 50.0
    assert average(free, "InputRotGeoDeg")[30] == pytest.approx(0.4 * 50 + 0.6 * 4)
    found = judge("InputRotGeoDeg", free, {}, 22, 30)
    assert found is not None
    assert not found.high
    assert judge("InputRotGeoDeg", {30: free[30]}, {}, 1, 30) is None, "fewer epochs than patience"
    free[29]["InputRotGeoDeg"] = 50.0
    found = judge("InputRotGeoDeg", free, {}, 22, 30)
    assert found is not None
    assert found.high


def test_without_a_baseline_the_runs_own_teacher_values_judge() -> None:
    free, teacher = recorded(hold=False, InputRotGeoDeg=2.1), {epoch: {"GeoDeg": 1.0} for epoch in range(1, 31)}
    found = adjust(stages(), free, teacher, base=BASE, epochs=30, copied=True)
    assert {one.key for one in found.changes} == {"w_latent_consistency", "w_fk_pos", "w_rot_local"}
    assert "above 2 (2 times GeoDeg with teacher forcing)" in found.changes[0].evidence
    assert found.notes[0].startswith("YawAbsDeg and RootVelMAE are copied from the command")
    assert adjust(stages(), free, {}, base=BASE, epochs=30).changes == []


def test_values_stay_within_their_bounds_and_never_fall() -> None:
    rows = (("a", 1, 5, 0.7, 64), ("b", 6, 10, 0.79, 64), ("c", 11, 20, 0.9, 70))
    found = adjust(stages(rows), recorded(YawAbsDeg=99.0), {}, base=BASE, epochs=20)
    assert [(one.stage, one.key, one.after) for one in found.changes] == [(1, "freerun_weight", 0.8)]
    assert value_in(found.stages[2], "freerun_weight", BASE) == 0.9
    assert "c: freerun_weight 0.9 is at its bound." in found.notes
    assert f"a: freerun_horizon {LONGEST} is at its bound." in found.notes
    short = adjust(stages(), recorded(YawAbsDeg=99.0), {}, base=BASE, epochs=30, longest=19)
    assert value_in(short.stages[2], "freerun_horizon", BASE) == 19


def test_later_stages_follow_so_that_the_schedule_keeps_rising() -> None:
    free = recorded()
    for epoch in range(10, 22):
        free[epoch]["YawAbsDeg"] = 50.0
    for epoch in range(22, 31):
        free[epoch]["YawAbsDeg"] = 0.0
    rows = (*GUIDE[:2], ("last", 22, 30, 0.18, 14))
    found = adjust(stages(rows), free, {}, base=BASE, epochs=30)
    last = {one.key: one for one in found.changes if one.stage == 2}
    assert last["freerun_weight"].after == pytest.approx(0.1925)
    assert last["freerun_horizon"].after == 15
    assert "never goes down" in last["freerun_weight"].evidence


def test_without_stages_the_settings_of_the_training_change() -> None:
    base = {**BASE, "w_fk_pos": 0.0}
    found = adjust([], recorded(YawAbsDeg=11.0, InputRotGeoDeg=9.0), {}, base=base, epochs=30, encoder=False)
    after = {one.key: (one.before, one.after) for one in found.changes}
    assert after == {"freerun_horizon": (15, 16), "w_fk_pos": (0.0, 0.1), "w_rot_local": (0.07, 0.1)}
    assert "the training: freerun_weight 1 is at its bound." in found.notes
    assert "w_latent_consistency stays: there is no encoder." in found.notes


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=4),
    st.fixed_dictionaries({name: st.floats(0, 3) for name in HOLD}),
)
def test_a_sound_schedule_stays_sound_and_nothing_falls(
    steps: list[tuple[int, int]], factors: dict[str, float]
) -> None:
    rows, weight, horizon = [], 0.0, 0
    for number, (rise, longer) in enumerate(steps):
        weight, horizon = round(weight + min(rise / 200, 0.2), 4), min(64, horizon + longer)
        rows.append((f"s{number}", 3 * number + 1, 3 * number + 3, weight, horizon))
    before, epochs = stages(rows), 3 * len(rows)
    figures = {name: factors[name] * limit for name, limit in HOLD.items()}
    found = adjust(before, recorded(epochs, **figures), {}, base=BASE, epochs=epochs)
    assert set(map(kind, schedule_problems(found.stages, epochs))) <= set(map(kind, schedule_problems(before, epochs)))
    for old, new in zip(before, found.stages, strict=True):
        for key in BASE:
            assert value_in(new, key, BASE) >= value_in(old, key, BASE)


def kind(problem: str) -> str:
    return " ".join(word for word in problem.split() if not any(letter.isdigit() for letter in word))
