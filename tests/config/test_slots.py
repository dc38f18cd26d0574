"""Plugins chosen by name, and the options that follow them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from motionkit.config import Chosen, Given, Settings, SettingsError, resolve, slot
from motionkit.errors import MotionkitError


def test_options_follow_the_choice(sample: ModuleType) -> None:
    found = resolve(sample.Sample, Given(flags={("policy",): "large", ("policy", "alpha"): "0.25"}))
    assert found.settings.policy.name == "large"
    assert found.settings.policy.options.alpha == 0.25
    assert found.origins["policy.name"] == "command line"
    assert found.origins["policy.scale"] == "default"


def test_another_choice_drops_the_options_of_the_old_one(sample: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nname = 'small'\ncheckpoint = 'x.pt'\n")
    assert resolve(sample.Sample, Given(files=(path,))).settings.policy.options.checkpoint == "x.pt"
    assert resolve(sample.Sample, Given(flags={("policy",): "large"}, files=(path,))).settings.policy.name == "large"


def test_options_of_a_layer_that_names_no_plugin_are_for_the_chosen_one(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {("policy",): "large"}
    monkeypatch.setenv("MOTIONKIT_POLICY__ALPHA", "0.25")
    found = resolve(sample.Sample, Given(flags=chosen))
    assert (found.settings.policy.options.alpha, found.warnings) == (0.25, ())
    assert found.origins["policy.alpha"] == "environment MOTIONKIT_POLICY__ALPHA"
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nalpha = 0.5\n")
    assert resolve(sample.Sample, Given(flags=chosen, files=(path,))).settings.policy.options.alpha == 0.25
    monkeypatch.delenv("MOTIONKIT_POLICY__ALPHA")
    assert resolve(sample.Sample, Given(flags=chosen, files=(path,))).settings.policy.options.alpha == 0.5
    # What the same place says beside the choice, and what the chosen one's own layer says, goes over it.
    both = Given(flags=chosen, files=(path,), sets=("policy.alpha=0.75",))
    assert resolve(sample.Sample, both).settings.policy.options.alpha == 0.75


def test_options_that_the_chosen_one_does_not_have(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTIONKIT_POLICY__CHECKPOINT", "x.pt")  # an option of the default, small
    found = resolve(sample.Sample, Given(flags={("policy",): "large"}))
    assert found.settings.policy.name == "large"
    (text,) = found.warnings
    assert "policy.checkpoint (from environment MOTIONKIT_POLICY__CHECKPOINT) has no effect" in text
    monkeypatch.delenv("MOTIONKIT_POLICY__CHECKPOINT")
    # Beside the plain choice it is a mistake.
    for given in (
        Given(flags={("policy",): "large", ("policy", "checkpoint"): "x.pt"}),
        Given(flags={("policy",): "large"}, sets=("policy.checkpoint=x.pt",)),
    ):
        with pytest.raises(SettingsError, match=r"policy.checkpoint( =)? 'x.pt'  \(.*from command line\)"):
            resolve(sample.Sample, given)
    path = tmp_path / "a.toml"
    path.write_text("[policy]\nname = 'large'\ncheckpoint = 'x.pt'\n")
    with pytest.raises(SettingsError, match="unknown setting"):
        resolve(sample.Sample, Given(files=(path,)))


def test_a_slot_may_stay_empty(sample: ModuleType, tmp_path: Path) -> None:
    class Optional(Settings):
        policy: Chosen | None = slot("policies", None)

    found = resolve(Optional)
    assert found.settings.policy is None
    assert found.snapshot() == {"policy": None}
    assert found.rows() == [("policy", None, "default")]
    path = tmp_path / "a.json"
    path.write_text('{"policy": null}')
    assert resolve(Optional, Given(files=(path,))).settings.policy is None
    chosen = resolve(Optional, Given(flags={("policy",): "large", ("policy", "alpha"): "0.25"}, files=(path,)))
    assert chosen.settings.policy is not None
    assert chosen.settings.policy.options.alpha == 0.25
    assert Optional.model_validate(chosen.snapshot()) == chosen.settings
    with pytest.raises(MotionkitError, match=r"policy.alpha is set, but no policy is chosen") as caught:
        resolve(Optional, Given(sets=("policy.alpha=0.25",)))
    assert caught.value.fix == "choose one with --policy NAME"


def test_loose_option_goes_to_its_only_owner(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far=0.1"], ("reward", "reach"): "9"}
    near, far = resolve(sample.Sample, Given(flags=flags)).settings.reward
    assert (far.options.reach, far.weight, near.weight) == (9, 0.1, 1.0)


def test_loose_option_of_two_owners_is_refused_with_both_forms(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far"], ("reward", "alpha"): "9"}
    with pytest.raises(SettingsError, match="both have") as caught:
        resolve(sample.Sample, Given(flags=flags))
    assert "--reward.near.alpha or --reward.far.alpha" in str(caught.value)


def test_named_option_settles_it(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "far"], ("reward", "far", "alpha"): "9"}
    near, far = resolve(sample.Sample, Given(flags=flags)).settings.reward
    assert (near.options.alpha, far.options.alpha) == (0.5, 9.0)


def test_list_on_the_command_line_replaces_the_files_choice_and_keeps_options(
    sample: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[reward.near]\nweight = 2\n[reward.far]\nreach = 8\n")
    both = resolve(sample.Sample, Given(files=(path,))).settings.reward
    assert [(item.name, item.weight) for item in both] == [("near", 2.0), ("far", 1.0)]
    (only,) = resolve(sample.Sample, Given(flags={("reward",): ["far=3"]}, files=(path,))).settings.reward
    assert (only.name, only.weight, only.options.reach) == ("far", 3.0, 8)


def test_tables_of_two_files_add_up(sample: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("[reward.near]\nalpha = 0.1\n")
    second.write_text("[reward.far]\nreach = 8\n[reward.near]\nscale = 2\n")
    near, far = resolve(sample.Sample, Given(files=(first, second))).settings.reward
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
        resolve(sample.Sample, Given(flags=flags))
    assert said in f"{caught.value} {caught.value.fix}"


def test_file_plugin(sample: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text((Path(sample.__file__ or "")).read_text())
    flags = {("reward",): [f"{path}:far"], ("reward", "far", "reach"): "5"}
    (mine,) = resolve(sample.Sample, Given(flags=flags)).settings.reward
    assert mine.options.reach == 5
    assert mine.label == "far"


def test_a_plugin_that_is_not_there_hides_no_other_problem(sample: ModuleType) -> None:
    flags = {("reward",): ["near", "neer"], ("policy", "alpha"): "1", ("num_steps",): "0"}
    with pytest.raises(SettingsError) as caught:
        resolve(sample.Sample, Given(flags=flags, sets=("reward.alpha=2", "reward.near.scale=x")))
    text = str(caught.value)
    assert text.startswith("3 invalid settings")
    for part in ("policy.alpha", "num_steps", "no reward 'neer'"):
        assert part in text
