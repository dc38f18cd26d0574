"""Imports in other processes: what no process survives is reported by name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.plugins import _trial
from motionkit.plugins._trial import try_imports

from . import broken_packages as broken

Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trial, "SECONDS", 6.0)
    monkeypatch.setattr(_trial, "MEMORY", 2**29)


def test_check_survives_every_import_and_prints_one_document(cli: Cli, site: Any) -> None:
    broken.install_ending(site)
    broken.install(site, "interrupts", broken.RAISING["interrupts"][0])
    heavy = "class Reward: ...\n"
    noisy = broken.NOISE + "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    broken.install(site, "noisy", heavy + noisy + broken.GOOD.format(module="noisy"))
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["error"]["code"]) == ("plugins list", "failed", 1)
    assert {"noisy", "crashes", "physics"} <= {row["name"] for row in document["plugins"]}
    problems = {text.partition(":")[0]: text for text in document["problems"]}
    assert problems.pop("broken-noisy") == ("broken-noisy: rewards 'noisy': noisy:Reward is no reward: it has no score")
    assert set(problems) == {f"broken-{name}" for name in (*broken.ENDING, "interrupts")}
    for name, (_, said) in (*broken.ENDING.items(), ("interrupts", broken.RAISING["interrupts"])):
        assert f"rewards {name!r}: " in problems[f"broken-{name}"]
        assert said in problems[f"broken-{name}"]


HALVES = """
from motionkit.config import Group
from motionkit.plugins import Component
class Options(Group):
    {option}
component = Component("It is tried.", Options, "{module}_heavy:Heavy"{more})
"""
SCORE = """
class Heavy:
    name = "tried"
    def __init__(self, options, *, dataset=None, device="cpu"):
        {start}
    def score(self, motions, prompts):
        import torch
        from motionkit.rewards.base import RewardScores
        return RewardScores({total})
"""
GOOD = "torch.ones(len(motions))"
NEEDED = "x: int = __import__('pydantic').Field(description='Needed.')"
TRIED = {
    "lost": ("rewards", "import nonexistent_pkg\n",
             "cannot import lost_heavy:Heavy: No module named 'nonexistent_pkg'"),
    "wide": ("rewards", SCORE.format(start="pass", total="motions.features[..., 0]"),
             "It returns total [4, 48]; it must be [4]"),
    "narrow": (
        "rewards", SCORE.format(start="pass", total=GOOD).replace(', *, dataset=None, device="cpu"', ""),
        "narrow_heavy:Heavy cannot be called as motionkit calls it, (options, dataset=..., device=...)",
    ),
    "strange": (
        "policies", SCORE.format(start="pass", total=GOOD),
        "strange_heavy:Heavy is no policy: it has no frames, condition, predict and 5 more; it looks like a reward, "
        "whose group is motionkit.rewards",
    ),
    "exiting": ("rewards", SCORE.format(start="raise SystemExit(0)", total=GOOD), "raised SystemExit: 0"),
    "sound": ("rewards", SCORE.format(start="dataset.physics_reference()", total=GOOD), ""),
    "needy": ("rewards", SCORE.format(start="pass", total=GOOD), ""),
}  # fmt: skip
"""Kind, heavy half, and what --check says."""


def test_check_builds_what_it_lists(cli: Cli, site: Any) -> None:
    for name, (kind, heavy, _) in TRIED.items():
        light = HALVES.format(module=name, option=NEEDED if name == "needy" else "pass", more="")
        modules = {name: light, f"{name}_heavy": heavy}
        site.install(f"tried-{name}", f"[motionkit.{kind}]\n{name} = {name}:component\n", **modules)
    site.install("tried-group", "[motionkit.reward]\nlost = lost:component\n[motionkit.x]\na = b:c\n")
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1, done.stderr
    document = json.loads(done.stdout)
    assert len(document["problems"]) == sum(bool(said) for *_, said in TRIED.values()) + 2
    problems = " ".join(document["problems"])
    for name, (kind, _, said) in TRIED.items():
        assert (f"tried-{name}: {kind} {name!r}: " in problems) == bool(said), problems
        assert said in problems
    assert "tried-group: its entry points have the group motionkit.reward, " in problems
    assert "motionkit does not read; did you mean motionkit.rewards?" in problems
    assert "the group motionkit.x, which motionkit does not read; one of: motionkit.rewards, " in problems
    assert any("tried-needy" in text and "default options" in text for text in document["warnings"])


def test_doctor_survives_too(cli: Cli, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for slow in ("_torch", "_kernels"):
        monkeypatch.setattr(f"motionkit.cli.commands.doctor.{slow}", lambda: iter(()))
    broken.install(site, "crashes", broken.ENDING["crashes"][0])
    source = "import os\nos._exit(0)\n"
    site.install("bad-trainer", "[motionkit.trainers]\nbad = bad_trainer:component\n", bad_trainer=source)
    done = cli("doctor", "--json", env={"MOTIONKIT_SEED": "1"})
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert document["status"] == "failed"
    found = {check["text"] for check in document["checks"] if check["state"] == "fail"}
    assert found == {
        "broken-crashes: rewards 'crashes': its import ended the process by SIGSEGV",
        "bad-trainer: trainers 'bad': its import ended the process with code 0",
    }
    assert {"name": "variable", "state": "ok", "text": "MOTIONKIT_SEED=1"} in document["checks"]


def test_the_rest_of_a_group_is_tried_again(site: Any, sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.install(site, "exits-hard", broken.ENDING["exits-hard"][0])
    entries = [plugins.find("rewards", name) for name in ("near", "exits-hard", "far")]
    monkeypatch.setattr(plugins.Entry, "builtin", True)  # those of motionkit share a process
    outcomes = try_imports(entries)
    assert [outcomes[entry].problem for entry in entries] == ["", "its import ended the process with code 0", ""]
    assert outcomes[entries[2]].options == ("alpha", "reach", "causal")


def test_processes_end_with_the_one_that_asked(site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    broken.install(site, "hangs", source)
    pause = time.sleep

    def stop(seconds: float) -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise KeyboardInterrupt
        pause(seconds)

    monkeypatch.setattr(_trial.time, "sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        try_imports([plugins.find("rewards", "hangs")])
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
