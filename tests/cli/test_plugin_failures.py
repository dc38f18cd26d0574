"""Plugins that fail in a command: never exit code 0, always by name, and stdout stays motionkit's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from ..made.commands import assert_refused
from ..plugins import broken_packages as broken

Cli = Callable[..., Result]

RAISES = {
    "exit": ("raise SystemExit(0)", "SystemExit: 0"),
    "typer": ("import typer; raise typer.Exit(0)", "Exit: 0"),
    "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "base": ("raise GeneratorExit", "GeneratorExit"),
    "bug": ("1 / 0", "ZeroDivisionError: division by zero"),
    "pipe": ("raise BrokenPipeError(32, 'Broken pipe')", "BrokenPipeError: [Errno 32] Broken pipe"),
}
"""What plugins raise, and how it is called."""

SCORING = """
from motionkit.config import Group
from motionkit.plugins import Component
class Options(Group):
    pass
class Reward:
    name = "failing"
    calls = 0
    def __init__(self, options, **runtime):
        pass
    def score(self, motions, prompts):
        from motionkit.contracts.reward import RewardScores
        print("scoring")
        Reward.calls += 1
        if Reward.calls > 5:
            {statement}
        return RewardScores(motions.features[:, 0, 0].nan_to_num())
component = Component("It fails in the third step.", Options, f"{{__name__}}:Reward")
"""
"""The trial before the run is its first call, the held-out measurement the next one or two."""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as a terminal leaves it; a shell switches it off for what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def replace(trainer: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str, statement: str) -> None:
    """Let a method of the trainer run `statement`, as code of its package."""
    source = f"def {method}(self, *rest):\n    {statement}\n"
    made: dict[str, Any] = trainer.__dict__ | {}
    exec(source, made)
    monkeypatch.setattr(trainer.CountTrainer, method, made[method])


@pytest.mark.parametrize("name", list(broken.RAISING))
def test_a_reward_that_does_not_import(cli: Cli, site: Any, trainer: ModuleType, name: str) -> None:
    source, said = broken.RAISING[name]
    broken.install(site, name, source)
    for words in (["count", "--reward", name], ["count", "--reward", name, "--dry-run"], ["plugins", "show"]):
        done = cli(*words, *(["rewards", name] if words[0] == "plugins" else []), "--json")
        assert done.exit_code == (1 if name == "quiet" else 2)
        assert said in json.loads(done.stdout)["error"]["message"]
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


@pytest.mark.parametrize("method", ["__init__", "prepare", "describe", "train"])
@pytest.mark.parametrize("what", list(RAISES))
def test_a_trainer_that_fails(
    cli: Cli, trainer: ModuleType, monkeypatch: pytest.MonkeyPatch, method: str, what: str
) -> None:
    statement, said = RAISES[what]
    replace(trainer, monkeypatch, method, statement)
    dry = ["--dry-run"] if method == "describe" else []
    done = cli("count", "--num-steps", 1, "--name", "a", "--json", *dry)
    started = method == "train"
    assert done.exit_code == (1 if started else 2), done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["message"] == f"trainer 'count' of package 'count-trainer' raised {said}"
    assert error["why"].startswith(f"in {method}, ")
    assert "count-trainer" in error["fix"]
    assert Path("runs").exists() == started
    assert "Traceback" not in done.stderr
    if started:
        record = json.loads(Path("runs/count/a/run.json").read_text())
        assert (record["status"], record["exit_code"]) == ("failed", 1)
        assert said in record["error"]
        assert error["fix"].endswith("; the traceback is in runs/count/a/log.txt.")
        log = Path("runs/count/a/log.txt").read_text()
        assert log.count("Traceback") == 1, "what the plugin raised, and not what became of it"
        assert said in log


@pytest.mark.parametrize("method", ["prepare", "train"])
def test_a_real_ctrl_c_in_a_plugin_is_a_stop(
    cli: Cli, trainer: ModuleType, monkeypatch: pytest.MonkeyPatch, interruptible: None, method: str
) -> None:
    ctrl_c = "os.kill(os.getpid(), signal.SIGINT)"
    replace(trainer, monkeypatch, method, f"{ctrl_c}; {ctrl_c}; import time; time.sleep(5)")
    done = cli("count", "--num-steps", 1, "--name", "a")
    assert done.exit_code == 130
    assert "Traceback" not in done.stderr
    if method == "train":
        assert json.loads(Path("runs/count/a/run.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize("what", ["exit", "interrupt", "bug"])
def test_a_reward_that_fails_in_the_third_step(tiny: Any, cli: Cli, site: Any, what: str) -> None:
    statement, said = RAISES[what]
    module = f"failing_{what}"
    source = SCORING.format(statement=statement)
    site.install(f"failing-{what}", f"[motionkit.rewards]\n{module} = {module}:component\n", **{module: source})
    words = tiny.grpo("run", "--json", steps=9)
    for option in ("--reward", "--reward.weights"):
        place = words.index(option)
        del words[place : place + 2]
    done = cli(*words, "--reward", module)
    assert done.exit_code == 1, done.stderr
    said = f"reward {module!r} of package 'failing-{what}' raised {said}"
    assert json.loads(done.stdout)["error"]["message"] == said, "and nothing that the reward printed"
    assert "scoring" in done.stderr
    assert json.loads(Path("run/run.json").read_text())["status"] == "failed"
    assert json.loads(Path("run/run.json").read_text())["error"] == said


WRONG = {
    "flat": ("motions.features[..., 0]", "total [2, "),
    "column": ("motions.features[:, :1, 0]", "total [2, 1]; it must be [2]"),
    "mean": ("motions.features.nan_to_num().mean()", "total []; it must be [2]"),
    "whole": ("motions.lengths", "total of type int64; it must be float32"),
    "list": ("[0.0] * len(motions)", "total as a list; it must be a tensor"),
}
"""Totals that are none, and what is said of them."""


@pytest.mark.parametrize("name", [*WRONG, "bare", "unnamed"])
def test_a_wrong_result_is_one_sentence_before_there_is_a_run(tiny: Any, cli: Cli, site: Any, name: str) -> None:
    total, said = WRONG.get(name, ("motions.features[:, 0, 0]", "a Tensor, not RewardScores"))
    source = SCORING.replace("raise", "pass").format(statement="pass").replace("{total}", total)
    source = source.replace("motions.features[:, 0, 0].nan_to_num()", total)
    if name == "bare":
        source = source.replace(f"RewardScores({total})", total)
    if name == "unnamed":
        source = source.replace('    name = "failing"\n', "")
        said = "has no name"
    site.install("bounce-package", "[motionkit.rewards]\nbounce = bouncing:component\n", bouncing=source)
    words = tiny.grpo("run")
    for option in ("--reward", "--reward.weights"):
        place = words.index(option)
        del words[place : place + 2]
    done = cli(*words, "--reward", "bounce")
    assert done.exit_code == 2, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "(package bounce-package, bouncing.py:1" in errors[0]
    assert "Traceback" not in done.stderr
    assert not Path("run").exists()


def test_a_mistake_that_shows_in_motionkits_code_names_both(
    cli: Cli, trainer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(trainer, monkeypatch, "train", "return None")
    done = cli("count", "--num-steps", 1)
    assert done.exit_code == 1
    assert "why  this is a bug in motionkit, or in " in done.stderr
    assert "or in trainer 'count' of package 'count-trainer'.\n" in done.stderr


def test_validators_are_code_of_the_plugin(cli: Cli, site: Any, trainer: ModuleType) -> None:
    source = (
        "import pydantic\nfrom motionkit.config import Group\nfrom motionkit.plugins import Component\n"
        "class Options(Group):\n    x: int = 1\n"
        "    @pydantic.field_validator('x')\n    @classmethod\n    def look(cls, value): raise SystemExit(0)\n"
        "component = Component('Strict.', Options, 'a:b')\n"
    )
    broken.install(site, "strict", source)
    assert_refused(
        cli("count", "--reward", "strict"), "reward 'strict' of package 'broken-strict' raised SystemExit: 0"
    )


COMMANDS = (
    ["--help"], ["config", "show", "grpo"], ["plugins", "list"], ["plugins", "list", "--json"], ["pretrain", "--help"],
)  # fmt: skip


def test_odd_metadata_stops_no_command(cli: Cli, site: Any) -> None:
    broken.install_raising(site)
    broken.install_metadata(site)
    for words in COMMANDS:
        done = cli(*words)
        assert done.exit_code == 0, done.stderr
        assert "Traceback" not in done.stderr
        listed = words[0] == "plugins" and "--json" in words
        warned = json.loads(done.stdout)["problems"] if listed else done.stderr.splitlines()
        if words[0] not in ("--help", "pretrain"):
            for name in broken.METADATA:
                assert sum(f"package 'odd-{name}' is ignored" in line for line in warned) == 1


def test_stdout_holds_the_result_alone(site: Any, trainer: ModuleType, tmp_path: Path) -> None:
    heavy = (
        f"{broken.NOISE}import atexit\natexit.register(print, 'late noise')\n"
        "class Options(Group):\n    pass\nclass Trainer(CountTrainer):\n    def prepare(self):\n"
        "        print('noise'); os.write(1, b'noise'); subprocess.run(['echo', 'noise'])\n"
        "        print('noise', file=sys.__stdout__)\n"
    )
    source = f"from sample_trainer import *\nfrom motionkit.config import Group\n{heavy}"
    source += "component = Component('Loud.', CountSettings, 'loud:Trainer')\n"
    site.install("loud", "[motionkit.trainers]\nloud = loud:component\n", loud=source)
    environment = {**os.environ, "PYTHONPATH": str(site.folder)}
    line = [sys.executable, "-m", "motionkit", "loud", "--dry-run", "--json"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dry_run"] is True
    assert done.stderr.count("noise") == 8


def test_a_malformed_package_that_stops_other_libraries_is_named(site: Any, tmp_path: Path) -> None:
    """`import pydantic` reads the entry points of all packages, and fails in a process that begins."""
    site.install("unrelated", "[console_scripts]\nnonsense\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")])}
    line = [sys.executable, "-m", "motionkit", "config", "show", "grpo"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "the entry points of the package 'unrelated' are malformed" in done.stderr
    assert "line 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_code_that_exits_is_no_success(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.cli.commands.runs.list_runs", lambda: sys.exit(0))
    done = cli("runs", "list")
    assert done.exit_code == 1
    assert "error: something in this process asked Python to exit with 0." in done.stderr
