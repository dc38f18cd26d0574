"""Trackers get what they can digest, and never cost a run; lines of JSON are appended and read back."""

from __future__ import annotations

import errno
import importlib
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from motionkit.errors import MotionkitError
from motionkit.runs import Run
from motionkit.runs._resume import cut_metrics
from motionkit.tracking import JsonlWriter, Trackers, _trackers, finite, flatten, read_metrics, require_trackers


class FakeTracker:
    """Remembers everything; fails from the step it is told to fail at."""

    def __init__(self, title: str, place: Path, fail_at: int = 99) -> None:
        self.title, self.place, self.fail_at = title, place, fail_at
        self.settings: dict[str, Any] = {}
        self.lines: list[tuple[int | None, dict[str, Any]]] = []
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.settings = values

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        if step is not None and step >= self.fail_at:
            raise ConnectionError("server went away")
        self.lines.append((step, values))

    def finish(self) -> None:
        self.calls.append("finish")


def test_settings_are_flat_and_have_no_none() -> None:
    nested = {"a": {"b": 1, "c": {"d": None, "e": [1, 2]}}, "f": "x", "g": True, "h": {}}
    assert flatten(nested) == {"a.b": 1, "a.c.e": "[1, 2]", "f": "x", "g": True}


def test_a_failing_tracker_is_switched_off_and_the_other_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = FakeTracker("", tmp_path), FakeTracker("", tmp_path, fail_at=2)
    made = {"tensorboard": lambda title, run_id, place: good, "wandb": lambda title, run_id, place: bad}
    trackers = Trackers(["tensorboard", "wandb"], tmp_path, "grpo/x", "id", {"seed": 1}, factories=made)
    trackers.open()
    with caplog.at_level(logging.WARNING, logger="motionkit"):
        for step in (1, 2, 3):
            trackers.log(step, {"loss/total": 0.5, "reward/mean": math.nan})
    assert trackers.names == ("tensorboard",)
    assert caplog.text.count("switched off") == 1
    assert "server went away" in caplog.text
    trackers.finish()
    assert good.settings == {"seed": 1}
    assert good.lines == [(step, {"loss/total": 0.5}) for step in (1, 2, 3)]
    assert [len(bad.lines), good.calls, bad.calls] == [1, ["start", "finish"], ["start"]]


def test_motions_are_drawn_once_for_all_trackers_and_one_that_fails_costs_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, bytes]] = []
    drawn: list[Path] = []

    def take(tracker: object, name: str, path: Path, step: int) -> None:
        shown.append((name, step, path.read_bytes()))

    def draw(path: Path) -> None:
        drawn.append(path)
        if len(drawn) == 3:
            raise OSError("disk full")
        path.write_bytes(b"GIF")

    monkeypatch.setitem(_trackers._SHOW, "wandb", take)
    made = {name: lambda title, run_id, place: FakeTracker(title, place) for name in ("tensorboard", "wandb")}
    trackers = Trackers(["tensorboard", "wandb"], tmp_path, "grpo/x", "id", {}, factories=made)
    trackers.show(0, "heldout/motions", draw)
    assert not drawn, "nothing is drawn for nobody"
    trackers.open()
    with caplog.at_level(logging.WARNING, logger="motionkit"):
        for step in (1, 2, 3):
            trackers.show(step, "heldout/motions", draw)
    assert trackers.names == ("wandb",), "the other one has no writer, and is switched off"
    assert shown == [("heldout/motions", step, b"GIF") for step in (1, 2)]
    assert [path.name for path in drawn] == [f"heldout-motions-{step:08d}.gif" for step in (1, 2, 3)]
    assert caplog.text.count("switched off") == 1
    assert "trackers get no heldout/motions of step 3 (disk full)" in caplog.text


def test_a_tracker_that_cannot_start_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(title: str, run_id: str, place: Path) -> FakeTracker:
        raise PermissionError("no login")

    trackers = Trackers(["wandb"], tmp_path, "grpo/x", "id", {}, factories={"wandb": refuse})
    trackers.open()
    assert trackers.names == ()
    assert "no login" in caplog.text


def test_absent_and_unknown_trackers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MotionkitError, match="unknown tracker"):
        require_trackers(["excel"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MotionkitError, match="mlflow is not installed") as caught:
        require_trackers(["mlflow"])
    assert (caught.value.code, caught.value.fix) == (2, "pip install 'motionkit[mlflow]'")


def test_mlflow_needs_a_database_where_the_user_has_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """mlflow-skinny alone writes nothing: it was switched off at the start of every run."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "mlflow" or None)
    with pytest.raises(MotionkitError, match="--track mlflow: sqlalchemy is not installed") as caught:
        require_trackers(["mlflow"])
    assert caught.value.fix == "pip install 'motionkit[mlflow]'"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    require_trackers(["mlflow"])


def test_a_tracker_that_cannot_start_is_named_in_the_log_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> FakeTracker:
        raise PermissionError("no login\nand a page of details")

    monkeypatch.setattr("motionkit.tracking._trackers._accelerate_factory", lambda name: refuse)
    monkeypatch.setattr("motionkit.runs._run.require_trackers", lambda names: None)
    with Run.create("grpo", {"track": ["wandb"]}, out=tmp_path / "run") as run:
        run.log(1, {"loss/total": 0.5})
    log = (tmp_path / "run/log.txt").read_text()
    assert "WARNING tracker wandb failed and is switched off (no login); metrics.jsonl has everything\n" in log
    assert (tmp_path / "run/metrics.jsonl").read_text().count("\n") == 1


def test_tensorboard_for_real(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    settings = {"track": ["tensorboard"], "seed": 1, "run": {"name": None}}
    with Run.create("grpo", settings, out=tmp_path / "run") as run:
        for step in (1, 2):
            run.log(step, {"loss/total": step / 2, "reward/mean": math.nan})
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")

    (place,) = {path.parent for path in (tmp_path / "run/trackers/tensorboard").glob("events.*")}
    events = accumulator.EventAccumulator(str(place))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/total")] == [(1, 0.5), (2, 1.0)]
    assert "switched off" not in (tmp_path / "run/log.txt").read_text()


def test_values_that_json_lacks_become_null() -> None:
    assert finite({"a": math.nan, "b": [math.inf, 1, (2.5, -math.inf)], "c": "x", "d": True}) == {
        "a": None,
        "b": [None, 1, [2.5, None]],
        "c": "x",
        "d": True,
    }


def test_lines_are_appended_and_read_back(tmp_path: Path) -> None:
    for step in (1, 2):
        writer = JsonlWriter(tmp_path / "m.jsonl")
        writer.write({"step": step, "loss": math.nan})
        writer.close()
    with (tmp_path / "m.jsonl").open("a") as file:
        file.write('not json\n[1]\n{"step": 3}')
    assert list(read_metrics(tmp_path / "m.jsonl")) == [{"step": 1, "loss": None}, {"step": 2, "loss": None}]
    assert list(read_metrics(tmp_path / "absent")) == []


def test_lines_that_no_run_writes_are_passed_over(tmp_path: Path) -> None:
    """They were a TypeError or a UnicodeEncodeError when the run was resumed."""
    good = ['{"step": 1, "seconds": 2, "loss/total": 0.5}', '{"step": 2, "loss/total": null}']
    bad = [
        *('{"step": [1]}', '{"step": null}', '{"step": "1"}', '{"step": 1.5}', '{"step": true}', '{"step": -1}', "{}"),
        *('{"step": 3, "seconds": [1]}', '{"step": 3, "seconds": "1"}', '{"step": 3, "seconds": 1e999}'),
        *('{"step": 3, "x": "\\ud800"}', '{"step": 3, "\\ud800": 1}', '{"step": 3, "x": {}}', '{"step": 3, "x": NaN}'),
        *("[" * 2_000, '{"step": ' + "9" * 5000 + "}", '{"step": 3, "seconds": ' + "9" * 400 + "}"),
        *("", "\ufeff{}", "\x00", "1", '{"step": 3'),
    ]
    lines = [good[0], *bad, good[1], *bad]
    (tmp_path / "m.jsonl").write_text("\n".join(lines) + "\n")
    assert list(read_metrics(tmp_path / "m.jsonl")) == [json.loads(line) for line in good]
    assert cut_metrics(tmp_path / "m.jsonl", 2) == 2.0
    assert (tmp_path / "m.jsonl").read_text().splitlines() == good


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "m.jsonl")
    writer.write({"step": 1})

    class Full:
        """Takes half a line, then no more."""

        def __init__(self, file: object) -> None:
            self.file, self.left = file, 5

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken, self.left = self.left, 0
            return self.file.write(data[:taken])  # type: ignore[attr-defined, no-any-return]  # a raw file

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    whole = writer._file
    writer._file = Full(whole)  # type: ignore[assignment]  # stands in for a raw file
    with pytest.raises(OSError, match="No space"):
        writer.write({"step": 2})
    writer._file = whole
    writer.write({"step": 3})
    writer.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [1, 3]
