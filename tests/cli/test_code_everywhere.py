"""No file makes code run: every command, every setting, a study and a model's document that name ./evil.py."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from safetensors.torch import load_file
from typer.main import get_command
from typer.testing import Result

from motionkit import plugins
from motionkit.cli import settings
from motionkit.cli._app import load_register
from motionkit.cli._trainer import trainer_command
from motionkit.cli.table import rows
from motionkit.config import leaves, slots_of
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.training.settings import TrainerSettings
from motionkit.tuning import worker

from ..made.commands import assert_refused
from ..made.idle import Idle

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]
EVIL, MARK = "./evil.py:component", Path("ran")
ARGUMENTS = {"eval compare": ["starter", "starter"], "generate": ["a person walks", "out.npz"]}


@pytest.fixture
def evil(cli: Cli) -> None:
    """A plugin file in the current folder that leaves a mark when it is imported."""
    Path("evil.py").write_text(
        "from pathlib import Path\nPath('ran').touch()\n"
        "from motionkit.training.settings import TrainerSettings\nfrom motionkit.plugins import Component\n"
        "component = Component(summary='x', options=TrainerSettings, factory=f'{__name__}:x')\n"
    )


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built, so that a command that would go on ends soon."""

    monkeypatch.setattr(Component, "build", lambda *_, **__: Idle())


def commands() -> dict[str, tuple[Any, list[str]]]:
    """Return the settings of each command that reads a settings file, with its required arguments filled in."""
    found: dict[str, tuple[Any, list[str]]] = {}

    def add(app: typer.Typer, prefix: str) -> None:
        group = get_command(app)
        for name, command in (getattr(group, "commands", None) or {"": group}).items():
            label = f"{prefix} {name}".strip()
            if label in settings.models:
                need = [one for one in command.params if one.param_type_name == "argument" and one.required]
                words = [word for one in need for word in ["x"] * max(1, one.nargs)]
                found[label] = settings.models[label], ARGUMENTS.get(label, words)

    for row in rows():
        app = typer.Typer(add_completion=False)
        load_register(row)(app)
        add(app, row.name)
    for entry in plugins.available("trainers"):
        if entry.builtin:
            app = typer.Typer(add_completion=False)
            trainer_command(f"motionkit:{entry.name}", app)
            label = entry.name.replace(".", " ")
            found[label] = settings.models[label], []
    return found


def texts_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the settings that take any text, each with one that names code."""
    for leaf in leaves(model):
        kind = str(leaf.field.annotation)
        if not leaf.choices and ("str" in kind or "Path" in kind) and leaf.path[0] not in slots_of(model):
            yield leaf.key, [EVIL] if leaf.is_many else EVIL


def nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def test_no_settings_file_makes_any_command_run_code(evil: None, idle: None, cli: Cli) -> None:
    found = commands()
    assert {"tune", "tune-bayes", "grpo", "ppo", "eval compare", "generate"} <= set(found)
    assert len(found) > 20
    tried = 0
    for label, (model, words) in found.items():
        command = [*label.split(), *words, "--config", "a.json", "--dry-run"]
        for name, slot in slots_of(model).items():
            Path("a.json").write_text(json.dumps({name: [EVIL] if slot.many else EVIL}))
            done = cli(*command)
            said = " ".join(done.stderr.split())
            assert (done.exit_code, f"{name} names {EVIL}, which is code" in said) == (2, True), f"{label}: {said}"
            tried += 1
        # A dry run of other commands ends before it opens what such settings name.
        for key, value in texts_of(model) if label == "tune-bayes" else ():
            Path("a.json").write_text(json.dumps(nested(key, value)))
            done = cli(*command)
            assert done.exit_code in (0, 2), (label, key)
            assert not MARK.exists(), f"{label}: {key} ran it"
            tried += 1
    assert not MARK.exists()
    assert tried > 40


SEARCHES = {
    "toml": 'trainer = "./evil.py:component"\n',
    "json": json.dumps({"trainer": EVIL}),
    "base": 'trainer = "grpo"\nbase_set = ["reward=./evil.py:component"]\n',
    "trial": 'trainer = "grpo"\ntrial_set = ["judge=./evil.py:component"]\n',
}


def study(text: str) -> None:
    """Write what a search leaves, as a stranger may."""
    Path("study").mkdir()
    Path("study/config.json").write_text(text)
    record = {"schema": 1, "kind": "motionkit-run", "id": "0", "command": "tune-bayes", "created": "", "attempts": []}
    Path("study/run.json").write_text(json.dumps({**record, "status": "interrupted", "artifacts": []}))


@pytest.mark.parametrize("form", ["toml", "json", "base", "trial", "tune", "--config", "--resume"])
def test_the_seven_ways_through_a_search(form: str, evil: None, cli: Cli) -> None:
    words = ["tune-bayes"]
    if form.startswith("--"):
        study(SEARCHES["json"])
        words += [form, "study"]
    else:
        file = f"a.{'json' if form == 'json' else 'toml'}"
        Path(file).write_text(SEARCHES["toml" if form == "tune" else form])
        words = [*(["tune", "--bayes"] if form == "tune" else words), "--config", file]
    for more in (["--dry-run"], []):
        done = cli(*words, *more)
        assert done.exit_code == 2, done.stderr
        said = " ".join(done.stderr.split())
        assert f"names {EVIL}, which is code" in said
        flags = {"base": "--base-set reward=", "trial": "--trial-set judge="}.get(form, "--trainer ")
        assert f"add to the command: {flags}{EVIL}" in said
        assert not MARK.exists()
    assert not Path("runs").exists()


def test_a_worker_runs_no_code_that_a_study_names(evil: None) -> None:
    Path("study").mkdir()
    plan: dict[str, Any] = {
        "trainer": EVIL, "base": {}, "space": {"seed": {"low": 0, "high": 3, "whole": True}}, "value": "x", "watch": "",
        "direction": "maximize", "trial": {}, "patience": 1, "trials": 1, "seeds": 0, "seed": 0, "sampler": "random",
        "pruner": "none", "why": "", "study": "s", "storage": "",
    }  # fmt: skip
    Path("study/study.json").write_text(json.dumps(plan))
    assert worker.main(Path("study"), "search") == 2
    assert not MARK.exists()


@pytest.mark.parametrize("words", ["eval pol", "eval compare pol starter", "export pol out", "predict pol out.npz"])
def test_no_model_folder_makes_a_command_run_code(words: str, evil: None, cli: Cli) -> None:
    Path("pol").mkdir()
    for kind in ("./evil.py", EVIL):
        Path("pol/policy.json").write_text(json.dumps({"kind": kind}))
        assert cli(*words.split()).exit_code == 2
        assert not MARK.exists()


def test_what_is_typed_still_runs(cli: Cli, tuned: Any, forked_workers: None) -> None:
    source = (ROOT / "tests" / "tuned_trainer.py").read_text()
    Path("mine.py").write_text(source.replace('"tuned_trainer:', 'f"{__name__}:'))
    short = ["--base-set", "run.num_steps=2", "--sampler", "random"]
    for jobs in (1, 2):  # in this process, and in others, which are started once: there are no further seeds then
        words = ["--trainer", "./mine.py:component", *short, "--jobs", jobs, "--seeds", 2 - jobs]
        words += ["--name", jobs, "--json"]
        done = cli("tune-bayes", "--trials", 2, *words)
        assert done.exit_code == 0, done.stderr
        found = json.loads(done.stdout)
        assert [one["state"] for one in found["trials"]] == ["complete"] * 2
        folder = f"runs/tune/{jobs}"
        assert cli("tune-bayes", "--resume", folder, "--trials", 3).exit_code == 2
        line = next(text for text in done.stderr.splitlines() if "--resume" in text)
        again = shlex.split(line.partition("motionkit ")[2])
        assert again[:5] == ["tune-bayes", "--resume", folder, "--trainer", "./mine.py:component"]
        assert jobs == 2 or cli(*again).exit_code == 0
    typed = cli("tune-bayes", "--trainer", "./mine.py:component", "--dry-run", env={"MOTIONKIT_JOBS": "1"})
    assert typed.exit_code == 0


def test_a_plugin_of_ones_own_in_the_base_of_a_search(evil: None, cli: Cli) -> None:
    Path("space.json").write_text(json.dumps({"optim.learning_rate": [1e-4, 1e-3]}))
    words = ["--trainer", "grpo", "--space", "space.json", "--value", "x", "--dry-run"]
    words += ["--base-set", "dataset.clips=48"]
    for flag in ("--base-set", "--trial-set"):
        done = cli("tune-bayes", *words, flag, f"reward={EVIL}")
        assert MARK.exists(), done.stderr
        assert "which is code" not in done.stderr
        MARK.unlink()
        plugins._lookup._module_of.cache_clear()


def test_a_module_of_an_environment_is_imported_only_where_it_is_typed(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--env.id module:ID``: in a search it is typed by ``--base-set``, and again for ``--resume``."""
    Path("mytasks.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("space.json").write_text(json.dumps({"optim.learning_rate": [1e-4, 1e-3]}))
    words = ["tune-bayes", "--trainer", "ppo", "--space", "space.json", "--value", "x", "--base-set", "reward=env"]
    sets = ["env=gymnasium", "env.id=mytasks:None-v0"]
    Path("a.json").write_text(json.dumps({"base_set": ["reward=env", *sets]}))
    refused = cli(*words[:-2], "--config", "a.json", "--dry-run")
    said = " ".join(refused.stderr.split())
    assert refused.exit_code == 2
    assert "add to the command: --base-set env.id=mytasks:None-v0" in said
    assert not MARK.exists()
    typed = cli(*words, *(word for one in sets for word in ("--base-set", one)), "--dry-run")
    assert MARK.exists(), typed.stderr
    assert "gymnasium makes no environment 'mytasks:None-v0'" in typed.stderr
    sys.modules.pop("mytasks", None)


@pytest.mark.parametrize("folder", ["command line", "environment x"])
def test_the_name_of_a_folder_is_not_trust(folder: str, cli: Cli) -> None:
    Path(folder).mkdir()
    table = {"policy": {"name": "sa2va", "checkpoint": "anywhere", "trust_remote_code": True}}
    Path(folder, "config.json").write_text(json.dumps(table))
    assert_refused(cli("sa2va-rl", "--config", folder, "--dry-run"), "counts only where it is typed")


def test_the_lookup_refuses_code_unless_it_is_told(evil: None) -> None:
    for kind in plugins.KINDS:
        with pytest.raises(MotionkitError, match="which is code"):
            plugins.get(kind, EVIL)
    assert not MARK.exists()
    assert issubclass(plugins.get("trainers", EVIL, typed=True).options, TrainerSettings)
    assert MARK.exists()


SOURCE = """
from pathlib import Path
import torch
from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.contracts.reward import RewardScores

Path({mark!r}).touch()

class Options(Group):
    gain: float = 1.0

class Still:
    name = "still"
    def __init__(self, options, *, dataset=None, device="cpu"):
        self.options = options
    def score(self, motions, prompts):
        pelvis = motions.joints[:, :, 0]
        total = torch.stack([-p[:n].diff(dim=0).norm(dim=-1).mean() for p, n in zip(pelvis, motions.lengths)])
        count = max(len(prompt.segments) for prompt in prompts)
        return RewardScores(total=total * self.options.gain, segments=total[:, None].repeat(1, count))

component = Component(summary="Standing still.", options=Options, factory=f"{{__name__}}:Still")
"""


@pytest.fixture
def energy(tmp_path: Path) -> tuple[Path, Path]:
    """Write a reward in a file of its own that leaves a mark when it is imported; return the file and the mark."""
    path, mark = tmp_path / f"energy_{tmp_path.name}.py", tmp_path / "ran"
    path.write_text(SOURCE.format(mark=str(mark)))
    return path, mark


def test_a_run_with_code_of_ones_own_goes_on_when_its_name_is_typed(
    energy: tuple[Path, Path], tiny: Any, cli: Cli
) -> None:
    name = f"{energy[0]}:component"
    more = ["--algorithm", "grpo", "--reward", f"{name}=0.25", "--reward.gain", 3, "--reward.alpha", 0.75]
    first = cli(*tiny.grpo("run", *more, steps=1))
    assert first.exit_code == 0, first.stderr
    refused = cli("grpo", "--resume", "run", "--num-steps", 2, "--json")
    assert refused.exit_code == 2
    error = json.loads(refused.stdout)["error"]
    assert error["message"] == f"run/config.json: reward names {name}, which is code."
    flags = shlex.split(error["fix"].partition("command: ")[2])
    assert flags == ["--reward", "tmr-dense", "--reward", name]
    resumed = cli("grpo", "--resume", "run", "--num-steps", 2, *flags)
    assert resumed.exit_code == 0, resumed.stderr
    reward = json.loads(Path("run/config.json").read_text())["reward"]
    assert (reward[name]["weight"], reward[name]["gain"], reward["tmr-dense"]["alpha"]) == (0.25, 3.0, 0.75)

    assert cli(*tiny.grpo("whole", *more, steps=2)).exit_code == 0
    for part in ("model", "optimizer", "random"):
        file = f"checkpoints/step-00000002/{part}.safetensors"
        mine, other = load_file(Path("run", file)), load_file(Path("whole", file))
        assert mine.keys() == other.keys()
        assert [key for key in mine if not torch.equal(mine[key].nan_to_num(), other[key].nan_to_num())] == []
    again = cli("grpo", "--config", "run", *flags, "--dry-run", "--json")
    assert json.loads(again.stdout)["settings"]["reward"] == reward
