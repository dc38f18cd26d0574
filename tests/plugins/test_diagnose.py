"""What `plugins` and `doctor` say of packages, and what becomes of a plugin that raises."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.errors import Interrupted, MotionkitError
from motionkit.plugins import scan
from motionkit.plugins._guard import PluginError
from motionkit.plugins.check import diagnose, second_reading

from ..made.commands import assert_refused
from . import broken_packages as broken

Cli = Callable[..., Result]


def test_both_readers_agree(sample: ModuleType) -> None:
    second, malformed = second_reading()
    assert malformed == []
    assert second == {(entry.kind, entry.name, entry.value) for entry in scan().entries}


def test_malformed_metadata_is_named_by_file_and_line(site: Any, sample: ModuleType) -> None:
    site.install("broken-plugins", "[motionkit.rewards]\nfine = sample_plugins:near\nno entry at all\n")
    site.install("twice", "[console_scripts]\na = b:c\na = b:d\n")
    findings = {finding.package: finding for finding in diagnose({})}
    assert "entry_points.txt, line 3" in findings["broken-plugins"].text
    assert findings["broken-plugins"].serious
    assert "line 3" in findings["twice"].text
    assert not findings["twice"].serious


def test_check_fails_with_one_and_names_every_problem(cli: Cli, site: Any, sample: ModuleType) -> None:
    import torch  # noqa: F401  # it reads all entry points when it is imported, and fails at the malformed one

    assert cli("plugins", "list", "rewards").exit_code == 0
    site.install("broken-plugins", "[motionkit.rewards]\nno entry at all\n")
    site.install("bad-import", "[motionkit.rewards]\nbad = bad_import:component\n", bad_import="1 / 0\n")
    listed = cli("plugins", "list")
    assert listed.exit_code == 0
    assert listed.stderr.count("broken-plugins") >= 1
    assert "near" in listed.stdout
    checked = cli("plugins", "list", "rewards", "--check")
    assert checked.exit_code == 1
    assert "broken-plugins" in checked.stderr
    assert "ZeroDivisionError" in checked.stderr
    doctor = cli("doctor")
    assert doctor.exit_code == 1
    assert "no entry at all" in doctor.stdout


def test_doctor_names_malformed_metadata_where_torch_does_not_import(
    cli: Cli, site: Any, sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("broken-plugins", "[motionkit.rewards]\nno entry at all\n")
    monkeypatch.setitem(sys.modules, "torch", None)
    done = cli("doctor", "--json")
    assert done.exit_code == 1
    failed = [check["text"] for check in json.loads(done.stdout)["checks"] if check["state"] == "fail"]
    assert failed[0].startswith("does not import: ")
    assert failed[1].startswith("broken-plugins: ")
    assert len(failed) == 2


def test_show(cli: Cli, sample: ModuleType) -> None:
    done = cli("plugins", "show", "rewards", "far", "--json")
    document = json.loads(done.stdout)
    assert document["package"] == "sample-plugins 1.0"
    assert [option["option"] for option in document["options"]] == ["alpha", "reach", "causal"]
    assert "reach" in cli("plugins", "show", "rewards", "far").stdout
    assert cli("plugins", "show", "rewards", "fra").exit_code == 2


def test_doctor_fits_into_a_report(cli: Cli, sample: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "cache/view").mkdir(parents=True)
    with (tmp_path / "cache/view/page.html").open("wb") as file:
        file.truncate(240_000_000)  # no blocks on the disk
    told = {"MOTIONKIT_SEDE": "1", "MOTIONKIT_CACHE": str(tmp_path / "cache")}
    document = json.loads(cli("doctor", "--json", env=told).stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert {"motionkit", "python", "torch", "plugins", "runs folder"} <= set(checks)
    variables = [check["text"] for check in document["checks"] if check["name"] == "variable"]
    assert any("did you mean MOTIONKIT_SEED?" in text for text in variables)
    assert checks["cache"]["text"].startswith(f"0.2 GB in {tmp_path / 'cache'}, ")


def test_config_commands(cli: Cli) -> None:
    shown = json.loads(cli("config", "show", "grpo", "--set", "seed=3", "--json").stdout)
    assert shown["settings"]["seed"] == 3
    assert shown["origins"]["seed"] == "command line"
    told = json.loads(cli("config", "explain", "grpo", "run.num_steps", "--json").stdout)
    assert (told["flag"], told["variable"]) == ("--num-steps", "MOTIONKIT_RUN__NUM_STEPS")
    assert_refused(cli("config", "explain", "grpo", "run.num_stepz"), "did you mean run.num_steps?")
    assert cli("config", "explain", "grpo").exit_code == 2


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("optim.learning_rate", "optim.learning_rate"),
        ("optim.learning-rate", "optim.learning_rate"),
        ("learning-rate", "optim.learning_rate"),
        ("--learning-rate", "optim.learning_rate"),
        ("learning_rate", "optim.learning_rate"),
        ("--no-lora", "lora.enabled"),
        ("--batch-size", "rollout.prompts"),
        ("reward.alpha", "reward.tmr-dense.alpha"),
        ("--reward.alpha", "reward.tmr-dense.alpha"),
        ("reward.lambda-skate", "reward.physics.lambda_skate"),
        ("lora.alpha", "lora.alpha"),
        ("policy.text-model", "policy.text_model"),
        ("reward", "reward"),
    ],
)
def test_explain_knows_keys_flags_and_short_names(word: str, key: str, cli: Cli) -> None:
    done = cli("config", "explain", "--json", "--", "grpo", word)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["key"] == key


def test_explain_asks_which_where_a_short_name_is_several(cli: Cli) -> None:
    assert_refused(
        cli("config", "explain", "grpo", "alpha"),
        "'alpha' may be lora.alpha, reward.tmr-dense.alpha, reward.mdm-dense.alpha or judge.alpha.",
    )
    same = json.loads(cli("config", "explain", "grpo", "reward.weights", "--json").stdout)
    assert same["key"] == "reward.tmr-dense.weights"
    assert {"reward.tmr-matching.weights", "reward.mdm-dense.weights"} <= set(same["also"].split(", "))


def test_suggestions_stay_in_their_group(cli: Cli) -> None:
    done = cli("grpo", "--reward", "tmr-matching", "--reward.alpha", 0)
    assert "why  alpha belongs to mdm-dense and tmr-dense.\n  fix  --reward mdm-dense or tmr-dense\n" in done.stderr
    done = cli("grpo", "--reward", "tmr-matching", "--set", "reward.alpha=0")
    assert "it belongs to mdm-dense and tmr-dense: --reward mdm-dense or tmr-dense" in done.stderr
    assert "did you mean --reward.alpha? " in cli("grpo", "--reward.alhpa", 0).stderr
    assert "--lora" not in cli("grpo", "--reward.alpja", 0).stderr
    warned = cli("config", "show", "grpo", env={"MOTIONKIT_LERNING": "1", "MOTIONKIT_SEDE": "1"}).stderr
    assert "did you mean MOTIONKIT_SEED?" in warned
    assert "MOTIONKIT_RUN" not in warned


def test_check_survives_what_plugins_raise_and_prints_one_document(cli: Cli, site: Any) -> None:
    broken.install_raising(site)
    noisy = f"class Reward: ...\n{broken.NOISE}{broken.GOOD.format(module='noisy')}"
    broken.install(site, "noisy", noisy)
    done = cli("plugins", "list", "--check", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["error"]["code"]) == ("plugins list", "failed", 1)
    assert {"noisy", "exits", "physics"} <= {row["name"] for row in document["plugins"]}
    problems = {text.partition(":")[0]: text for text in document["problems"]}
    assert problems.pop("broken-noisy") == (
        "broken-noisy: rewards 'noisy': noisy:Reward is not a reward: it has no score"
    )
    assert set(problems) == {f"broken-{name}" for name in broken.RAISING}
    for name, (_, said) in broken.RAISING.items():
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
        from motionkit.contracts.reward import RewardScores
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
        "strange_heavy:Heavy is not a policy: it has no condition, predict, save; it looks like a reward, "
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
    source, said = broken.RAISING["exits"]
    broken.install(site, "exits", source)
    done = cli("doctor", "--json", env={"MOTIONKIT_SEED": "1"})
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert document["status"] == "failed"
    (failed,) = [check["text"] for check in document["checks"] if check["state"] == "fail"]
    assert failed.startswith("broken-exits: rewards 'exits': ")
    assert said in failed
    assert {"name": "variable", "state": "ok", "text": "MOTIONKIT_SEED=1"} in document["checks"]


CALLED = """
import os
def works(): return 3
def exits(): raise SystemExit(0)
def interrupts(): raise KeyboardInterrupt
def fails(): return 1 / 0
def calls(function): return function()
def opens(): open('/nonesuch/file')
def pipe(): raise BrokenPipeError(32, 'Broken pipe')
class Reward:
    def __init__(self, options, **runtime): raise SystemExit(0)
"""


@pytest.fixture
def called(site: Any) -> ModuleType:
    """The heavy half of a plugin that was asked for: functions that raise."""
    source = broken.GOOD.format(module="called_heavy")
    text = "[motionkit.rewards]\ncalled = called_light:component\n"
    site.install("called", text, called_light=source, called_heavy=CALLED)
    plugins.get("rewards", "called")
    import importlib

    return importlib.import_module("called_heavy")


@pytest.fixture
def handled() -> Any:
    """SIGINT as it is while a command runs: the handler is ours, so that a plain KeyboardInterrupt is not a signal."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("function", "said"),
    [("exits", "SystemExit: 0"), ("interrupts", "KeyboardInterrupt"), ("fails", "ZeroDivisionError: division by zero")],
)
def test_a_call_that_fails_names_plugin_package_and_line(
    called: ModuleType, handled: None, function: str, said: str
) -> None:
    with pytest.raises(PluginError, match="'called' of package 'called'") as caught, plugins.catching():
        getattr(called, function)()
    assert caught.value.message.endswith(said)
    assert f"in {function}, " in caught.value.why
    assert "called_heavy.py, line " in caught.value.why
    assert "called" in caught.value.fix
    assert caught.value.code == 2
    with pytest.raises(PluginError) as caught, plugins.catching(code=1):
        called.calls(lambda: 1 / 0)  # it is the plugin that was running
    assert (caught.value.code, caught.value.as_late().code) == (1, 1)
    assert isinstance(caught.value.as_late(), PluginError)


def test_the_constructor_is_a_call_too(called: ModuleType) -> None:
    component = plugins.get("rewards", "called")
    with pytest.raises(PluginError, match=r"'called'.*SystemExit: 0"):
        component.build(component.options())


def test_what_is_not_the_plugins_fault_stays(called: ModuleType, handled: None) -> None:
    def refuse() -> None:
        raise MotionkitError("no.")

    def stop() -> None:
        raise Interrupted(signal.SIGTERM)

    for function, kind in (
        (called.opens, FileNotFoundError),
        (lambda: called.calls(refuse), MotionkitError),
        (lambda: called.calls(stop), Interrupted),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(kind) as caught, plugins.catching():
            function()
        assert not isinstance(caught.value, PluginError)
    with plugins.catching():
        assert called.works() == 3
    with pytest.raises(PluginError), plugins.catching():
        called.pipe()  # it names no file, and is not about motionkit's own output


def test_without_a_handler_of_ours_ctrl_c_is_a_plain_keyboard_interrupt(called: ModuleType) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), plugins.catching():
            called.interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


def test_needs_that_cannot_be_looked_for_are_missing(sample: ModuleType) -> None:
    needs = ("nonesuch_a.b", "", "sys.b", "json")
    assert plugins.Component("x", sample.Near, "a:b", needs=needs).missing() == ["nonesuch_a.b", "", "sys.b"]


@pytest.mark.parametrize("name", list(broken.RAISING))
def test_an_import_that_fails_names_plugin_and_package(site: Any, handled: None, tmp_path: Path, name: str) -> None:
    source, said = broken.RAISING[name]
    broken.install(site, name, source)
    with pytest.raises(MotionkitError) as caught:
        plugins.get("rewards", name)
    assert said in caught.value.message
    assert f"broken-{name}" in caught.value.message or name == "quiet"  # which says what it wants to say
    file = tmp_path / "own_reward.py"
    file.write_text(source)
    with pytest.raises(MotionkitError):
        plugins.get("rewards", f"{file}:component", typed=True)
