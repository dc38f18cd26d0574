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
    noisy = broken.NOISE + "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    broken.install(site, "noisy", noisy + broken.GOOD.format(module="noisy"))
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["error"]["code"]) == ("plugins list", "failed", 1)
    assert {"noisy", "crashes", "physics"} <= {row["name"] for row in document["plugins"]}
    problems = {text.partition(":")[0]: text for text in document["problems"]}
    assert set(problems) == {f"broken-{name}" for name in (*broken.ENDING, "interrupts")}
    for name, (_, said) in (*broken.ENDING.items(), ("interrupts", broken.RAISING["interrupts"])):
        assert f"rewards {name!r}: " in problems[f"broken-{name}"]
        assert said in problems[f"broken-{name}"]


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
