"""Plugins chosen by name, and the options that follow them."""

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

from motionkit.config import Chosen, Settings, SettingsError, resolve, slot, slots
from motionkit.errors import MotionkitError


def test_options_follow_the_choice(sample: ModuleType) -> None:
    found = resolve(sample.Sample, flags={("policy",): "large", ("policy", "alpha"): "0.25"})
    assert found.settings.policy.name == "large"
    assert found.settings.policy.options.alpha == 0.25
    assert found.origins["policy.name"] == "command line"
    assert found.origins["policy.scale"] == "default"


def test_another_choice_drops_the_options_of_the_old_one(sample: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nname = 'small'\ncheckpoint = 'x.pt'\n")
    assert resolve(sample.Sample, files=(path,)).settings.policy.options.checkpoint == "x.pt"
    assert resolve(sample.Sample, flags={("policy",): "large"}, files=(path,)).settings.policy.name == "large"


def test_options_of_a_layer_that_names_no_plugin_are_for_the_chosen_one(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {("policy",): "large"}
    monkeypatch.setenv("MOTIONKIT_POLICY__ALPHA", "0.25")
    found = resolve(sample.Sample, flags=chosen)
    assert (found.settings.policy.options.alpha, found.warnings) == (0.25, ())
    assert found.origins["policy.alpha"] == "environment MOTIONKIT_POLICY__ALPHA"
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nalpha = 0.5\n")
    assert resolve(sample.Sample, flags=chosen, files=(path,)).settings.policy.options.alpha == 0.25
    monkeypatch.delenv("MOTIONKIT_POLICY__ALPHA")
    assert resolve(sample.Sample, flags=chosen, files=(path,)).settings.policy.options.alpha == 0.5
    # What the same place says beside the choice, and what the chosen one's own layer says, goes over it.
    sets = ("policy.alpha=0.75",)
    assert resolve(sample.Sample, chosen, sets, (path,)).settings.policy.options.alpha == 0.75


def test_options_that_the_chosen_one_does_not_have(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTIONKIT_POLICY__CHECKPOINT", "x.pt")  # an option of the default, small
    found = resolve(sample.Sample, flags={("policy",): "large"})
    assert found.settings.policy.name == "large"
    (text,) = found.warnings
    assert "policy.checkpoint (from environment MOTIONKIT_POLICY__CHECKPOINT) has no effect" in text
    monkeypatch.delenv("MOTIONKIT_POLICY__CHECKPOINT")
    # Beside the plain choice it is a mistake.
    for given in (
        ({("policy",): "large", ("policy", "checkpoint"): "x.pt"},),
        ({("policy",): "large"}, ("policy.checkpoint=x.pt",)),
    ):
        with pytest.raises(SettingsError, match=r"policy.checkpoint( =)? 'x.pt'  \(.*from command line\)"):
            resolve(sample.Sample, *given)
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nname = 'large'\ncheckpoint = 'x.pt'\n")
    with pytest.raises(SettingsError, match="unknown setting"):
        resolve(sample.Sample, files=(path,))


def test_a_slot_may_stay_empty(sample: ModuleType, tmp_path: Path) -> None:
    class Optional(Settings):
        policy: Chosen | None = slot("policies", None)

    found = resolve(Optional)
    assert found.settings.policy is None
    assert found.snapshot() == {"policy": None}
    assert found.rows() == [("policy", None, "default")]
    path = tmp_path / "a.json"
    path.write_text('{"policy": null}')
    assert resolve(Optional, files=(path,)).settings.policy is None
    chosen = resolve(Optional, flags={("policy",): "large", ("policy", "alpha"): "0.25"}, files=(path,))
    assert chosen.settings.policy is not None
    assert chosen.settings.policy.options.alpha == 0.25
    assert Optional.model_validate(chosen.snapshot()) == chosen.settings
    with pytest.raises(MotionkitError, match=r"policy.alpha is set, but no policy is chosen") as caught:
        resolve(Optional, sets=("policy.alpha=0.25",))
    assert caught.value.fix == "choose one with --policy NAME"


def test_loose_option_goes_to_its_only_owner(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far=0.1"], ("reward", "reach"): "9"}
    near, far = resolve(sample.Sample, flags=flags).settings.reward
    assert (far.options.reach, far.weight, near.weight) == (9, 0.1, 1.0)


def test_loose_option_of_two_owners_is_refused_with_both_forms(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far"], ("reward", "alpha"): "9"}
    with pytest.raises(SettingsError, match="both have") as caught:
        resolve(sample.Sample, flags=flags)
    assert "--reward.near.alpha or --reward.far.alpha" in str(caught.value)


def test_named_option_settles_it(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far"], ("reward", "far", "alpha"): "9"}
    near, far = resolve(sample.Sample, flags=flags).settings.reward
    assert (near.options.alpha, far.options.alpha) == (0.5, 9.0)


def test_list_on_the_command_line_replaces_the_files_choice_and_keeps_options(
    sample: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[reward.near]\nweight = 2\n[reward.far]\nreach = 8\n")
    both = resolve(sample.Sample, files=(path,)).settings.reward
    assert [(item.name, item.weight) for item in both] == [("near", 2.0), ("far", 1.0)]
    (only,) = resolve(sample.Sample, flags={("reward",): ["far=3"]}, files=(path,)).settings.reward
    assert (only.name, only.weight, only.options.reach) == ("far", 3.0, 8)


def test_tables_of_two_files_add_up(sample: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("[reward.near]\nalpha = 0.1\n")
    second.write_text("[reward.far]\nreach = 8\n[reward.near]\nscale = 2\n")
    near, far = resolve(sample.Sample, files=(first, second)).settings.reward
    assert (near.options.alpha, near.options.scale, far.options.reach) == (0.1, 2.0, 8)


def test_variables_reach_slots(sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_REWARD", "near=0.5,far")
    monkeypatch.setenv("MOTIONKIT_REWARD__FAR__REACH", "4")
    monkeypatch.setenv("MOTIONKIT_POLICY__CHECKPOINT", "007")
    found = resolve(sample.Sample)
    assert [(item.name, item.weight) for item in found.settings.reward] == [("near", 0.5), ("far", 1.0)]
    assert found.settings.reward[1].options.reach == 4
    assert found.settings.policy.options.checkpoint == "007"
    assert found.origins["reward.far.reach"] == "environment MOTIONKIT_REWARD__FAR__REACH"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({("reward",): ["neer"]}, "did you mean near?"),
        ({("reward",): ["near", "near=2"]}, "chosen twice"),
        ({("reward",): ["near=much"]}, "not a finite number"),
        ({("reward",): ["=2"]}, "no plugin name"),
        ({("reward", "far", "reach"): "1"}, "add --reward far"),
        ({("reward", "reach"): "1"}, "no chosen reward"),
        ({("reward", "alpha"): "-1"}, "greater than or equal to 0"),
        ({("policy", "alpha"): "1"}, "unknown setting"),
    ],
)
def test_wrong_choices_say_what_to_do(sample: ModuleType, flags: dict[tuple[str, ...], object], said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        resolve(sample.Sample, flags=flags)
    assert said in f"{caught.value} {caught.value.fix}"


def test_file_plugin(sample: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text((Path(sample.__file__ or "")).read_text())
    flags = {("reward",): [f"{path}:far"], ("reward", "far", "reach"): "5"}
    (mine,) = resolve(sample.Sample, flags=flags).settings.reward
    assert mine.options.reach == 5
    assert mine.label == "far"


def test_a_plugin_that_is_not_there_hides_no_other_problem(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "neer"], ("policy", "alpha"): "1", ("num_steps",): "0"}
    with pytest.raises(SettingsError) as caught:
        resolve(sample.Sample, flags=flags, sets=("reward.alpha=2", "reward.near.scale=x"))
    text = str(caught.value)
    assert text.startswith("3 invalid settings")
    for part in ("policy.alpha", "num_steps", "no reward 'neer'"):
        assert part in text


Cli = Callable[..., Result]

SOURCE = """
from typing import Annotated, Any
from pydantic import Field, model_validator
from motionkit.config import Chosen, Cli, Group, slot, slots
from motionkit.training.settings import TrainerSettings
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
    found = resolve(spread.Settings, sets=("slope.steep=2", "rollout.prompts=3"))
    assert found.settings.rule.name == "bold"
    assert (found.settings.rule.options.slope.steep, found.settings.rollout.prompts) == (2.0, 3)
    assert found.origins["slope.steep"] == "command line"
    assert found.origins["rule"] == "auto, default"
    assert found.notes == ("rule auto takes bold; --rule NAME chooses another",)
    other = resolve(spread.Settings, flags={("rule",): "steady"}).settings
    assert (other.rollout.prompts, other.rollout.group_size) == (16, 4)  # the rule's own default


def test_the_snapshot_has_the_decided_name_and_decides_nothing_again(spread: Any, tmp_path: Path) -> None:
    first = resolve(spread.Settings, sets=("rollout.group_size=6",))
    snapshot = first.snapshot()
    assert snapshot["rule"] == "steady"
    assert snapshot["rollout"] == {"prompts": 16, "group_size": 6}
    assert ("rule", "steady", "auto, default") in first.rows()
    path = tmp_path / "config.json"
    path.write_text(json.dumps(snapshot))
    spread.calls.clear()
    again = resolve(spread.Settings, files=(path,))
    assert again.settings == first.settings
    assert [name for name, *_ in spread.calls] == ["steady"]
    assert again.notes == ()
    assert spread.Settings(**snapshot) == first.settings


def test_what_the_hook_sees(spread: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[reward.far]\nreach = 3\n[rollout]\nprompts = 2\n")
    monkeypatch.setenv("MOTIONKIT_SLOPE__STEEP", "3")
    with pytest.raises(SettingsError, match="it is an option of rule bold: --rule bold"):
        resolve(spread.Settings, files=(path,))
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
    found = resolve(spread.Settings, flags={("rule",): "steady"}, files=(path,))
    assert found.settings.rollout.prompts == 5
    assert found.warnings == ()
    path.write_text("[slope]\nsteep = 3\n")
    (text,) = resolve(spread.Settings, flags={("rule",): "steady"}, files=(path,)).warnings
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
        resolve(spread.Settings, sets=("slope.steep=50",))


def test_groups_extend_those_of_the_settings(spread: Any) -> None:
    class Other(spread.TrainerSettings):  # type: ignore[name-defined,misc]
        rule: spread.Chosen = spread.slot("algorithms", "bold", spread=True)

    with pytest.raises(TypeError, match=r"Bold.rollout must be a group that extends Other.rollout"):
        resolve(Other)


def test_python_chooses_too(spread: Any) -> None:
    made = spread.Settings(rule="steady", rollout=spread.Rollout(prompts=2))
    assert (made.rollout.prompts, made.rule.options.rollout.group_size) == (2, 4)


def test_an_option_of_no_plugin_where_none_is_chosen(sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(Settings):
        reward: tuple[Chosen, ...] = slots("rewards", ())

    monkeypatch.setenv("MOTIONKIT_REWARD__FAR__REACH", "4")
    with pytest.raises(SettingsError, match=r"'far' is not chosen \(chosen: none\); add --reward far"):
        resolve(Empty)
