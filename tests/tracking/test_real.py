"""Each tracker for real, without a network, in a process of its own; skipped by name where its package is absent."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from typing import Any

import pytest

from motionkit.tracking import read_metrics

# A tracker patches, starts servers and prints at exit: what it does to a run is seen in a process of its own.
RUN = """
import sys
from motionkit.runs import Run

name, out, fail = sys.argv[1:]

def draw(path):
    from PIL import Image
    pictures = [Image.new("RGB", (64, 48), (80 * int(path.stem[-8:]), grey, grey)) for grey in (0, 255)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=100)

with Run.create("grpo", {"track": [name], "seed": 1, "optim": {"rate": 0.5}}, out=out) as run:
    run.log(1, {"loss/total": 0.5, "reward/mean": float("nan")})
    if fail:
        exec(fail)
    for step in (2, 3):
        run.show(step, "heldout/motions", draw)
        run.log(step, {"loss/total": step / 2, "reward/mean": 0.25})
"""
OFFLINE = {"WANDB_MODE": "offline", "CLEARML_OFFLINE_MODE": "1", "WANDB_SILENT": "true"}
LOSS = [(1, 0.5), (2, 1.0), (3, 1.5)]
PACKAGES = {"tensorboard": ("tensorboard",), "wandb": ("wandb",), "clearml": ("clearml",),
            "mlflow": ("mlflow", "sqlalchemy", "alembic")}  # fmt: skip


def run(name: str, out: Path, fail: str = "") -> CompletedProcess[str]:
    """Log three steps in a process of its own."""
    for package in PACKAGES[name]:
        pytest.importorskip(package)
    own = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "CLEARML_", "MLFLOW_"))}
    home = out.parent / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {**own, **OFFLINE, "HOME": str(home), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-X", "faulthandler", "-c", RUN, name, str(out), fail]
    done = _within(100, line, environment, out.parent)
    assert done.returncode == 0, done.stderr
    found = [(line["step"], line["loss/total"]) for line in read_metrics(out / "metrics.jsonl")]
    assert found == LOSS, "metrics.jsonl does not depend on trackers"
    return done


def _within(seconds: float, line: list[str], environment: dict[str, str], folder: Path) -> CompletedProcess[str]:
    """Run a command; one that takes longer is aborted, and the stacks of its threads are in stderr."""
    with subprocess.Popen(
        line, env=environment, cwd=folder, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            try:
                stdout, stderr = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:  # a process that it started keeps the pipes open
                os.killpg(process.pid, signal.SIGKILL)
                stdout, stderr = process.communicate()
    return CompletedProcess(line, process.returncode, stdout, stderr)


def log_of(out: Path) -> str:
    return (out / "log.txt").read_text(encoding="utf-8")


def films(out: Path) -> dict[int, bytes]:
    """Return the animations that a run gave its trackers, by step."""
    found = {step: out / "trackers" / "media" / f"heldout-motions-{step:08d}.gif" for step in (2, 3)}
    assert sorted(found.values()) == sorted((out / "trackers" / "media").iterdir())
    assert all(path.read_bytes().startswith(b"GIF8") for path in found.values())
    return {step: path.read_bytes() for step, path in found.items()}


def scalars(folder: Path, name: str) -> dict[str, list[tuple[int, float]]]:
    """Return what ``tensorboard --logdir FOLDER`` shows of one metric, by run."""
    events = importlib.import_module("tensorboard.backend.event_processing.plugin_event_multiplexer")
    found = events.EventMultiplexer()
    found.AddRunsFromDirectory(str(folder))
    found.Reload()
    return {
        run: [(row.step, float(row.tensor_proto.float_val[0])) for row in found.Tensors(run, name)]
        for run, tags in found.Runs().items()
        if name in tags["tensors"]
    }


def records(path: Path) -> Iterator[Any]:
    """Read an offline file of W&B: records in blocks of 32 kB, as LevelDB writes its log."""
    kinds = importlib.import_module("wandb.proto.wandb_internal_pb2")
    data, at, whole, block = path.read_bytes(), 7, b"", 1 << 15
    while at + 7 <= len(data):
        if (left := block - at % block) < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        part = data[at + 7 : at + 7 + size]
        at, whole = at + 7 + size, part if kind in (1, 2) else whole + part
        if kind in (1, 4):
            record = kinds.Record()
            record.ParseFromString(whole)
            yield record


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder ``runs`` with two runs, which no test changes."""
    folder = tmp_path_factory.mktemp("boards") / "runs"
    for name in ("first", "second"):
        run("tensorboard", folder / "grpo" / name)
    return folder


def test_tensorboard_shows_every_run(boards: Path) -> None:
    shown = scalars(boards, "loss/total")
    assert shown == {f"grpo/{name}/trackers/tensorboard": LOSS for name in ("first", "second")}
    (values,) = {tuple(rows) for rows in scalars(boards, "reward/mean").values()}
    assert values == ((2, 0.25), (3, 0.25)), "NaN is left out"


def test_tensorboard_plays_the_motions(boards: Path) -> None:
    out = boards / "grpo" / "first"
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    (place,) = {path.parent for path in (out / "trackers" / "tensorboard").glob("events.*")}
    events = accumulator.EventAccumulator(str(place))
    events.Reload()
    shown = events.Images("heldout/motions")
    assert {row.step: row.encoded_image_string for row in shown} == films(out)
    assert {(row.width, row.height) for row in shown} == {(64, 48)}
    assert "switched off" not in log_of(out)


def test_wandb(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    run("wandb", out)
    (file,) = (out / "trackers" / "wandb").rglob("*.wandb")
    rows, names, settings, shown = [], set(), {}, {}
    for record in records(file):
        if record.WhichOneof("record_type") == "history":
            row = {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
            if "heldout/motions/path" in row:
                shown[row["_step"]] = (file.parent / "files" / row["heldout/motions/path"]).read_bytes()
            rows.append((row["_step"], row["loss/total"]))
            assert ("reward/mean" in row) == (row["_step"] > 1)
        elif record.WhichOneof("record_type") == "run":
            names.add((record.run.project, record.run.display_name))
        elif record.WhichOneof("record_type") == "config":
            settings |= {(item.key or item.nested_key[0]): item.value_json for item in record.config.update}
    assert rows == LOSS
    assert shown == films(out)
    assert names == {("motionkit-grpo", "mine")}
    assert settings["optim.rate"] == "0.5"
    assert "switched off" not in log_of(out)


FORKED = "import psutil; assert not [child for child in psutil.Process().children() if 'python' in child.name()]"
"""A fork of ClearML's, while another thread of it starts git, has kept runs from ending."""


def test_clearml(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    run("clearml", out, FORKED)
    (session,) = (out / "trackers" / "clearml").rglob("*.zip")
    with zipfile.ZipFile(session) as archive:
        lines = [json.loads(line) for line in archive.read("metrics.jsonl").decode().splitlines()]
        task = json.loads(archive.read("task.json"))
        shown = {name.removeprefix("data/"): archive.read(name) for name in archive.namelist() if name.endswith("gif")}
    events = [event for line in lines for event in line]
    assert [(event["iter"], event["value"]) for event in events if event["metric"] == "loss/total"] == LOSS
    assert {event["iter"]: shown[event["key"]] for event in events if event["variant"] == "motions"} == films(out)
    assert task["name"] == "mine"
    assert "optim.rate" in json.dumps(task)
    assert "switched off" not in log_of(out)


def test_mlflow(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    run("mlflow", out)
    with closing(sqlite3.connect(out / "trackers" / "mlflow" / "mlflow.db")) as database:
        rows = database.execute("SELECT step, value FROM metrics WHERE key = 'loss/total' ORDER BY step").fetchall()
        ended = database.execute(
            "SELECT experiments.name, runs.name, status FROM runs JOIN experiments USING (experiment_id)"
        ).fetchall()
        ((rate,),) = database.execute("SELECT value FROM params WHERE key = 'optim.rate'").fetchall()
    assert rows == LOSS
    kept = (out / "trackers" / "mlflow" / "artifacts").rglob("heldout/motions/*.gif")
    assert {int(path.stem[-8:]): path.read_bytes() for path in kept} == films(out)
    assert ended == [("motionkit-grpo", "mine", "FINISHED")]
    assert rate == "0.5"
    assert "switched off" not in log_of(out)


FAILURES = {
    "wandb": "import psutil\nfor child in psutil.Process().children(recursive=True): child.kill()",
    "mlflow": "(run.directory / 'trackers/mlflow/mlflow.db').write_bytes(b'no database')",
    "tensorboard": "import accelerate.tracking as t; t.TensorBoardTracker.log = lambda *_, **__: 1 / 0",
    "clearml": "import clearml; clearml.Logger.report_scalar = lambda *_, **__: 1 / 0",
}


@pytest.mark.parametrize("name", list(FAILURES))
def test_one_that_dies_in_mid_run_costs_its_own_log_alone(name: str, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    run(name, out, FAILURES[name])
    assert log_of(out).count(f"tracker {name} failed and is switched off") == 1
    record = json.loads((out / "run.json").read_text())
    assert record["status"] == "done", "the run does not end otherwise"
