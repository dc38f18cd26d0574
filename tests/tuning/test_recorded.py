"""``tune --metrics``: from the figures of a run to a settings file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motionkit.cli.commands.tune import run_metrics
from motionkit.config import Given, resolve
from motionkit.errors import MotionkitError
from motionkit.predictor.guide_figures import write_epoch
from motionkit.predictor.train_settings import TrainMplSettings

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
    return resolve(TrainMplSettings, Given(files=(path,))).settings


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
    with pytest.raises(MotionkitError, match="no settings to adjust") as caught:
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
