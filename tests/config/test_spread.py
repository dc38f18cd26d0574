"""A slot whose options have no prefix, and that decides by itself what ``auto`` means."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit.config import Given, SettingsError, resolve

Cli = Callable[..., Result]

SOURCE = """
from typing import Annotated, Any
from pydantic import Field, model_validator
from motionkit.config import Chosen, Cli, Group, TrainerSettings, slot, slots
from motionkit.plugins import Component


class Rollout(Group):
    prompts: Annotated[int, Cli("--batch-size")] = Field(8, ge=1, description="Prompts.")


class Settings(TrainerSettings):
    reward: tuple[Chosen, ...] = slots("rewards", ("near",))
    rule: Chosen = slot("algorithms", "auto", spread=True, decide=lambda *given: decide(*given))
    rollout: Rollout = Rollout()
    slope: Group = Group()


class Grouped(Rollout):
    group_size: Annotated[int, Cli("--group-size")] = Field(4, ge=2, description="Samples.")


class Steady(Group):
    rollout: Grouped = Grouped(prompts=16)


class Slope(Group):
    steep: Annotated[float, Cli("--steep")] = Field(1.0, gt=0, description="Steepness.")
    chain: bool = Field(True, description="All steps.")


class Bold(Group):
    rollout: Rollout = Rollout()
    slope: Slope = Slope()

    @model_validator(mode="after")
    def _fits(self):
        if self.slope.steep * self.rollout.prompts > 100:
            raise ValueError("too much at once")
        return self


calls = []


def decide(name, keys, chosen):
    calls.append((name, keys, dict(chosen)))
    if name != "auto":
        return name, ""
    taken = "steady" if "rollout.group_size" in keys or "far" in chosen["reward"] else "bold"
    return taken, f"rule auto takes {taken}; --rule NAME chooses another"


class Trainer:
    shape_keys = ("rule",)

    def __init__(self, settings):
        self.settings = settings

    def prepare(self):
        pass

    def describe(self):
        return {"options": self.settings.rule.options.model_dump(), "prompts": self.settings.rollout.prompts}

    def train(self, run):
        return {}


steady = Component("Steady.", Steady, "builtins:dict")
bold = Component("Bold.", Bold, "builtins:dict")
component = Component("Tries rules.", Settings, "spread_plugins:Trainer")
"""


@pytest.fixture
def spread(site: Any, sample: ModuleType) -> Iterator[Any]:
    site.install(
        "spread-plugins",
        "[motionkit.algorithms]\nsteady = spread_plugins:steady\nbold = spread_plugins:bold\n"
        "[motionkit.trainers]\nrules = spread_plugins:component\n",
        spread_plugins=SOURCE,
    )
    yield importlib.import_module("spread_plugins")
    sys.modules.pop("spread_plugins", None)


def test_options_of_the_chosen_one_are_top_level_groups(spread: Any) -> None:
    found = resolve(spread.Settings, Given(sets=("slope.steep=2", "rollout.prompts=3")))
    assert found.settings.rule.name == "bold"
    assert (found.settings.rule.options.slope.steep, found.settings.rollout.prompts) == (2.0, 3)
    assert found.origins["slope.steep"] == "command line"
    assert found.origins["rule"] == "auto, default"
    assert found.notes == ("rule auto takes bold; --rule NAME chooses another",)
    other = resolve(spread.Settings, Given(flags={("rule",): "steady"})).settings
    assert (other.rollout.prompts, other.rollout.group_size) == (16, 4)  # the rule's own default


def test_the_snapshot_has_the_decided_name_and_decides_nothing_again(spread: Any, tmp_path: Path) -> None:
    first = resolve(spread.Settings, Given(sets=("rollout.group_size=6",)))
    snapshot = first.snapshot()
    assert snapshot["rule"] == "steady"
    assert snapshot["rollout"] == {"prompts": 16, "group_size": 6}
    assert ("rule", "steady", "auto, default") in first.rows()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(snapshot))
    spread.calls.clear()
    again = resolve(spread.Settings, Given(files=(path,)))
    assert again.settings == first.settings
    assert [name for name, *_ in spread.calls] == ["steady"]
    assert again.notes == ()
    assert spread.Settings(**snapshot) == first.settings


def test_what_the_hook_sees(spread: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[reward.far]\nreach = 3\n[rollout]\nprompts = 2\n")
    monkeypatch.setenv("MOTIONKIT_SLOPE__STEEP", "3")
    with pytest.raises(SettingsError, match="it is an option of rule bold: --rule bold"):
        resolve(spread.Settings, Given(files=(path,)))
    ((name, keys, chosen),) = spread.calls
    assert (name, chosen) == ("auto", {"reward": ["far"]})
    assert {"rollout.prompts", "slope.steep", "reward.far.reach"} <= keys


def test_an_option_of_another_rule_names_it(spread: Any, cli: Cli) -> None:
    result = cli("rules", "--rule", "steady", "--steep", 3)
    assert result.exit_code == 2
    assert "no such option: --steep" in result.stderr
    assert "it is an option of rule bold." in result.stderr
    assert "--rule bold" in result.stderr
    result = cli("rules", "--rule", "steady", "--set", "slope.steep=3")
    assert result.exit_code == 2
    assert "it is an option of rule bold: --rule bold" in " ".join(result.stderr.split())


def test_options_that_a_lower_layer_gave_the_other_rule_are_dropped(spread: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("rule = 'bold'\n[slope]\nsteep = 3\n[rollout]\nprompts = 5\n")
    found = resolve(spread.Settings, Given(flags={("rule",): "steady"}, files=(path,)))
    assert found.settings.rollout.prompts == 5
    assert found.warnings == ()
    path.write_text("[slope]\nsteep = 3\n")
    (text,) = resolve(spread.Settings, Given(flags={("rule",): "steady"}, files=(path,))).warnings
    assert text == f"slope.steep (from {path}) has no effect: 'steady' has no such option"


def test_flags_that_only_one_rule_has_are_seen_before_they_are_parsed(spread: Any, cli: Cli) -> None:
    shown = json.loads(cli("rules", "--group-size", 6, "--dry-run", "--json").stdout)
    assert shown["settings"]["rule"] == "steady"
    assert shown["plan"]["options"] == {"rollout": {"prompts": 16, "group_size": 6}}
    shown = cli("rules", "--steep", 3, "--no-slope.chain", "--dry-run")
    assert shown.exit_code == 2  # slope.chain has no flag
    result = cli("rules", "--steep", 3, "--dry-run")
    assert "rule auto takes bold; --rule NAME chooses another" in result.stderr
    assert "--steep" in cli("rules", "--help").stdout
    assert "--group-size" in cli("rules", "--rule", "steady", "--help").stdout


def test_groups_that_do_not_fit_each_other(spread: Any) -> None:
    with pytest.raises(SettingsError, match="too much at once"):
        resolve(spread.Settings, Given(sets=("slope.steep=50",)))


def test_groups_extend_those_of_the_settings(spread: Any) -> None:
    class Other(spread.TrainerSettings):  # type: ignore[name-defined,misc]
        rule: spread.Chosen = spread.slot("algorithms", "bold", spread=True)

    with pytest.raises(TypeError, match=r"Bold.rollout must be a group that extends Other.rollout"):
        resolve(Other)


def test_python_chooses_too(spread: Any) -> None:
    made = spread.Settings(rule="steady", rollout=spread.Rollout(prompts=2))
    assert (made.rollout.prompts, made.rule.options.rollout.group_size) == (2, 4)
