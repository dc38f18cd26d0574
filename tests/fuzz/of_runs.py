"""Readers of run folders, settings files and installed packages."""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from pathlib import Path

import safetensors.torch
import torch

from motionkit import runs
from motionkit.clips.profile.settings_file import merge_settings
from motionkit.config import resolve
from motionkit.contracts.search import Choice, Range
from motionkit.errors import MotionkitError
from motionkit.plugins import scan
from motionkit.plugins._discovery import forget
from motionkit.plugins.check import diagnose
from motionkit.runs._checkpoint import RANDOM, capture_random, newest_checkpoint
from motionkit.runs._folder import claim_new
from motionkit.runs._resume import cut_metrics, refuse_changes, refuse_command, refuse_links
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.tuning.base import Base, open_base
from motionkit.tuning.plan import PLAN, Plan, make_plan, read_plan
from motionkit.tuning.settings import TuneBayesSettings
from motionkit.tuning.study import Study
from motionkit.tuning.trials import Ended

from .mutate import Files, Special
from .reader import Reader

_RUN = "runs/grpo/mine"
_ATTEMPT = {
    "argv": ["motionkit", "grpo"], "start": "2026-11-20T10:00:00+00:00", "start_step": 0, "host": "h", "pid": 7,
    "cwd": "/nowhere", "status": "interrupted", "exit_code": 130, "end": "2026-11-20T10:01:00+00:00", "end_step": 2,
}  # fmt: skip
_RECORD = {
    "schema": 1, "kind": "motionkit-run", "id": "0123456789abcdef", "command": "grpo",
    "created": "2026-11-20T10:00:00+00:00",
    "artifacts": ["policy"], "attempts": [_ATTEMPT], "argv": ["motionkit", "grpo"], "seed": 0, "device": "cpu",
    "status": "interrupted", "versions": {"python": "3.11", "torch": "2.13"}, "plugins": {"motionkit": "0.1"},
    "git": None,
    "executable": "/usr/bin/python", "origins": {"seed": "default"}, "steps": 2, "seconds": 60.0, "cpu_seconds": 59.5,
    "exit_code": 130, "summary": {"status": "interrupted", "steps": 2, "heldout": {}, "metrics": {"reward/mean": 0.5}},
}  # fmt: skip
_METRICS = [{"step": step, "seconds": 10.0 * step, "reward/mean": 0.5, "loss/total": None} for step in range(4)]


def _make_runs(scratch: Path) -> None:
    folder = scratch / "runs" / _RUN
    checkpoint = folder / "checkpoints" / "step-00000002"
    checkpoint.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(_RECORD, indent=2))
    (folder / "config.json").write_text(json.dumps(resolve(GrpoSettings).snapshot()))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _METRICS))
    groups = {"model": {"a.weight": torch.ones(3, 2)}, "optimizer": {"0.exp_avg": torch.zeros(3, 2)}}
    groups[RANDOM] = {name: value for name, value in capture_random().items() if "cuda" not in name}
    for name, tensors in groups.items():
        (checkpoint / f"{name}.safetensors").write_bytes(safetensors.torch.save(tensors))
    state = {"schema": 1, "step": 2, "files": {}, "state": {"cursor": {"epoch": 0}, "optimizer": {"0": {"lr": 0.1}}}}
    (checkpoint / "state.json").write_text(json.dumps(state))
    (folder / "checkpoints" / "last").write_text("step-00000002\n")
    files = {str(path.relative_to(scratch / "runs")): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name, content in _mend_runs(files).items():
        (scratch / "runs" / name).write_bytes(content)


def _mend_runs(files: Files) -> Files:
    """Make sizes and hashes in state.json those of the files."""
    folder = f"{_RUN}/checkpoints/step-00000002"
    mended = dict(files)
    try:
        state = json.loads(files[f"{folder}/state.json"])
        state["files"] = {
            Path(name).name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
            if name.startswith(folder) and name.endswith(".safetensors") and not isinstance(content, Special)
        }
        mended[f"{folder}/state.json"] = json.dumps(state).encode()
    except (KeyError, ValueError, TypeError, RecursionError):
        pass
    return mended


def _list_runs(folder: Path) -> None:
    """Do what ``runs list`` and ``runs show`` do."""
    for info in runs.find(None, folder / "runs"):
        repr((info.directory, info.command, info.status, info.created, info.summary))
        for line in info.metrics():
            sorted(line.items())
    runs.load(folder / _RUN)


def _resume(folder: Path) -> None:
    """Do what ``--resume`` does up to where the trainer takes over."""
    place = folder / _RUN
    directory, _, record, settings = runs.locate(place)
    refuse_command(record, "grpo", directory)
    refuse_changes(settings, resolve(GrpoSettings).snapshot(), ("policy", "optim"), directory)
    refuse_links(directory, record)
    resolve(GrpoSettings, files=[place], command="grpo")
    checkpoint = newest_checkpoint(directory / "checkpoints")
    cut_metrics(directory / "metrics.jsonl", checkpoint.step if checkpoint else -1)
    if checkpoint is not None:
        checkpoint.restore_random()


def _overwrite(folder: Path) -> None:
    """Do what ``--overwrite`` does; what is beside the run stays as it is."""
    (folder / "beside").write_text("mine")
    (folder / "runs" / "grpo" / "beside").write_text("mine")
    claim_new(folder / _RUN, overwrite=True)
    assert (folder / "beside").read_text() == (folder / "runs" / "grpo" / "beside").read_text() == "mine"


_TOML = """# mine
seed = 3
reward = ["tmr-dense", "physics=0.1"]
[optim]
learning_rate = 1e-4
[policy]
name = "mdm"
checkpoint = "starter"
[dataset]
name = "humanml"
root = "data"
"""
_YAML = """# mine
seed: 3
reward: [tmr-dense, physics=0.1]
optim: {learning_rate: 1.0e-4}
policy:
  name: mdm
  checkpoint: starter
dataset:
  name: humanml
  root: data
"""
_JSONC = """// mine
{"seed": 3, "reward": ["tmr-dense", "physics=0.1"], /* x */ "optim": {"learning_rate": 1e-4,},
 "policy": {"name": "mdm", "checkpoint": "starter"}, "dataset": {"name": "humanml", "root": "data"}}
"""
_CODE = "from pathlib import Path\nPath('executed').write_text('x')\ncomponent = 1\n"


def _make_settings(scratch: Path) -> None:
    for name, text in {"a.toml": _TOML, "a.yaml": _YAML, "a.json": _JSONC}.items():
        (scratch / name).mkdir()
        (scratch / name / name).write_text(text)


def _read_settings(folder: Path) -> None:
    (folder / "evil.py").write_text(_CODE)
    path = next(path for path in folder.iterdir() if path.name != "evil.py")
    resolved = resolve(GrpoSettings, files=[path], command="grpo")
    json.dumps(resolved.snapshot(), allow_nan=False)
    resolved.rows()


def _read_code(folder: Path) -> None:
    """Settings of a stranger that name a file of code beside them, which must not run."""
    code = folder / "evil.py"
    code.write_text(_CODE)
    path = next(path for path in folder.iterdir() if path.name != "evil.py")
    if path.is_file():
        path.write_bytes(path.read_bytes().replace(b"CODE", str(code).encode()))
    resolve(GrpoSettings, files=[path], command="grpo")


def _make_code(scratch: Path) -> None:
    for name, text in {"a.toml": _TOML, "a.yaml": _YAML, "a.json": _JSONC}.items():
        (scratch / name).mkdir()
        (scratch / name / name).write_text(text.replace("physics=0.1", "CODE:component"))


def _merge(folder: Path) -> None:
    (path,) = folder.iterdir()
    merge_settings(path, {"seed": 4, "max_length": 60}, {"clips": 3, "mean_speed": 1.5, "none": None}, overwrite=True)


_MARKS = tuple(f"{number:02x}" * 16 for number in range(4))


def _make_trained(scratch: Path) -> None:
    runs.TrainedOn.of(_MARKS[:2]).write(scratch / "all")
    (runs.TrainedOn.of(_MARKS[2:]) | runs.TrainedOn.unknown()).write(scratch / "some")
    later = {"kind": "motionkit-trained-on", "complete": True, "items": [], "model": "of a later version"}
    (scratch / "later").mkdir()
    (scratch / "later" / "trained-on.json").write_text(json.dumps(later))


def _read_trained(folder: Path) -> None:
    """Do what evaluations do with what a model was trained on, and what a training does that begins with it."""
    trained = runs.TrainedOn.read(folder)
    kept = trained.leave_out(_MARKS)
    assert kept.left_out + len(kept.places) == len(_MARKS)
    kept.sentence("clips")
    (trained | runs.TrainedOn.of(_MARKS)).write(folder / "next")


@cache
def _search() -> tuple[Base, Plan]:
    """Return a search's base and plan, whose inputs are none of these files."""
    space = {"optim.learning_rate": Range(1e-4, 4e-3, log=True), "model.width": Choice((128, 256))}
    settings = TuneBayesSettings(trials=9, seeds=1, sampler="random", pruner="none")
    base, plan, _ = make_plan(open_base("train-mpl"), settings, study="s", space=space)
    return base, plan


def _make_studies(scratch: Path) -> None:
    """Make a study with a trial that ended, one that failed and one that was cut off, and one that repeats seeds."""
    for name in ("search", "seeds"):
        base, plan = _search()
        folder = scratch / name / "study"
        folder.mkdir(parents=True)
        (folder / PLAN).write_text(plan.model_dump_json())
        study = Study(base, plan, folder)
        for value in (0.5, None, 0.7):
            trial = study.trials.claim("7-00000000")
            assert trial is not None
            trial.report(0.4, 1)
            study.trials.tell(trial, Ended("failed") if value is None else Ended("complete", value))
        if name == "seeds":
            study.seeds.begin()
            trial = study.seeds.claim("7-00000000")
            assert trial is not None
            study.seeds.tell(trial, Ended("complete", 0.6))
        else:
            study.trials.claim("7-00000000")


def _read_study(folder: Path) -> None:
    """Do what ``tune-bayes --resume`` does with a study, but for the training."""
    folder = folder / "study"
    base, plan = _search()
    study = Study(base, plan.model_copy(update={"study": read_plan(folder).study}), folder)
    study.trials.recover()
    study.trials.begin()
    study.trials.claim("8-00000000")
    if study.trials.best is not None:
        study.seeds.recover()
        study.seeds.begin()
        result = study.result
        json.dumps(result.document(), allow_nan=False)
        result.write()
        result.tables()
        result.counts()


_ENTRY_POINTS = """[console_scripts]
near = near.cli:main

[motionkit.rewards]
near = near_reward:component
far = near_reward.far:component [extra]

[motionkit.trainers]
count = near_reward:trainer
"""
_METADATA = (
    "Metadata-Version: 2.1\nName: near-reward\nVersion: 1.0\nSummary: Near.\nRequires-Dist: torch; extra == 'x'\n"
)


def _make_packages(scratch: Path) -> None:
    info = scratch / "site" / "near_reward-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    (info / "METADATA").write_text(_METADATA)


def _scan(folder: Path) -> None:
    """Do what every command does with installed packages, and what ``plugins list --check`` does before it imports."""
    sys.path.insert(0, str(folder))
    try:
        forget()
        found = scan()
        assert any(entry.builtin for entry in found.entries)
        problems = [str(broken) for broken in found.broken] + [finding.text for finding in diagnose(imports={})]
        if problems:
            raise MotionkitError("; ".join(problems))
    finally:
        sys.path.remove(str(folder))
        forget()


READERS = (
    Reader("runs-list", _make_runs, _list_runs),
    Reader("runs-resume", _make_runs, _resume, mend=_mend_runs),
    Reader("runs-overwrite", _make_runs, _overwrite),
    Reader("trained-on", _make_trained, _read_trained),
    Reader("study", _make_studies, _read_study),
    Reader("settings", _make_settings, _read_settings),
    Reader("settings-with-code", _make_code, _read_code, closed=True),
    Reader("settings-merge", _make_settings, _merge),
    Reader("packages", _make_packages, _scan),
)
