"""The guide's three rules, on figures made here and on recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motionkit.config import resolve
from motionkit.errors import MotionkitError
from motionkit_predictor.training.guide_figures import write_epoch
from motionkit_predictor.training.schedule import schedule_problems
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.tuning.recorded import LONGEST, Change, adjust, average, judge, run_metrics, value_in

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


CONFIG = """{
  // the guide's
  "epochs": 4, "batch": 8, "seq_len": 60, "w_fk_pos": 0.07,
  "freerun_stage_schedule": [
    {"range": [1, 2], "label": "a", "trainer": {"freerun_weight": 0.1, "freerun_horizon": 8}},
    {"range": [3, 4], "label": "b", "trainer": {"freerun_weight": 0.3, "freerun_horizon": 12}}
  ]
}
"""


def made(folder: Path, *, yaw: float, config: str = "", own: bool = True) -> Path:
    """Make a run with figures of four epochs, in which holding the pose has a heading error of 10 degrees."""
    for epoch in range(1, 5):
        hold = {"Hold/YawAbsDeg": 10.0, "Hold/RootVelMAE": 1.0, "Hold/InputRotGeoDeg": 1.0} if own else {}
        free = {"YawAbsDeg": yaw, "RootVelMAE": 0.5, "InputRotGeoDeg": 0.5, **hold}
        write_epoch(folder / "metrics", epoch, teacher={"GeoDeg": 1.0, "YawAbsDeg": 0.5}, free=free)
    if config:
        (folder / "config.json").write_text(config)
    return folder


def read(path: Path) -> TrainMplSettings:
    return resolve(TrainMplSettings, files=(path,)).settings


def test_the_guides_file_is_adjusted_and_its_comments_are_in_a_copy(tmp_path: Path) -> None:
    run, file = made(tmp_path / "run", yaw=12.0), tmp_path / "exp.json"
    file.write_text(CONFIG)
    found = run_metrics(run, base=file, write_config=file)
    assert [one["key"] for one in found["changes"]] == [
        "stages.0.freerun_weight", "stages.0.freerun_horizon", "stages.1.freerun_weight", "stages.1.freerun_horizon",
    ]  # fmt: skip
    assert file.with_name("exp.json.bak").read_text() == CONFIG
    weights = [stage.trainer["freerun_weight"] for stage in read(file).stages]
    assert weights == pytest.approx([0.11, 0.31])
    assert [stage.trainer["freerun_horizon"] for stage in read(file).stages] == [9, 13]
    assert "above 10 (holding the last pose)" in found["changes"][0]["evidence"]
    assert found["written"] == str(file)


def test_a_dry_run_and_a_run_without_a_file_write_nothing(tmp_path: Path) -> None:
    run, file = made(tmp_path / "run", yaw=12.0), tmp_path / "exp.json"
    file.write_text(CONFIG)
    for target in (None, file):
        found = run_metrics(run, base=file, write_config=target, dry_run=target is not None)
        assert len(found["changes"]) == 4
        assert found["written"] is None
        assert file.read_text() == CONFIG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exp.json", "run"]


def test_nothing_to_change_says_so_with_the_figures(tmp_path: Path) -> None:
    file = tmp_path / "exp.json"
    file.write_text(CONFIG)
    found = run_metrics(made(tmp_path / "run", yaw=9.0), base=file, write_config=file)
    assert found["changes"] == []
    assert found["closing"][-1].startswith("nothing to change")
    assert any("YawAbsDeg 9, 9 in epochs 3, 4 is not above 10" in text for text in found["notes"])
    assert file.read_text() == CONFIG


def test_a_runs_own_settings_are_the_base_and_a_new_file_holds_all_of_them(tmp_path: Path) -> None:
    settings = TrainMplSettings(run={"epochs": 4}, freerun={"weight": 0.5})  # type: ignore[arg-type]
    run = made(tmp_path / "run", yaw=12.0, config=json.dumps(settings.model_dump(mode="json")))
    run_metrics(run / "metrics", write_config=tmp_path / "new.json")
    found = read(tmp_path / "new.json")
    assert (found.freerun.weight, found.freerun.horizon) == (0.55, 16)
    assert found.model_copy(update={"freerun": settings.freerun}) == settings


def test_the_guides_folder_is_found_where_it_says_and_copied_figures_are_not_used(tmp_path: Path) -> None:
    run, file = made(tmp_path / "models/exp", yaw=99.0, own=False), tmp_path / "exp.json"
    file.write_text(CONFIG)
    found = run_metrics(run / "exp_phase_AllDebug" / "metrics", base=file)
    assert found["metrics"] == str(run / "metrics")
    assert found["changes"] == []
    assert "copied from the command" in found["notes"][0]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="no recorded figures"):
        run_metrics(tmp_path)
    with pytest.raises(MotionkitError) as caught:
        run_metrics(made(tmp_path / "run", yaw=1.0))
    assert "--base" in caught.value.fix


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"summary": {"long": {"alarms": ["the motion dies out: after 5 s."]}}}, ["the motion dies out: after 5 s."]),
        ({"summary": {"long": None}}, []),
        ({"summary": {"long": {"alarms": [3, {}]}}}, []),
        ({"summary": 4}, []),
        (None, []),
    ],
)
def test_what_is_wrong_with_long_runs_is_told_though_no_rule_reads_it(
    tmp_path: Path, record: object, said: list[str]
) -> None:
    run = made(tmp_path / "run", yaw=5.0, config="{}")
    if record is not None:
        (run / "run.json").write_text(json.dumps(record))
    found = run_metrics(run)
    assert found["long_alarms"] == said
    assert [line for line in found["closing"] if line.startswith("long runs")] == [
        f"long runs, which no rule reads: {text}" for text in said
    ]
    assert found["changes"] == []
