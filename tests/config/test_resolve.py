"""Precedence, origins and errors of settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Annotated

import pytest
from pydantic import Field

from motionkit.config import Resolved, SettingsError, choose_from_file, resolve
from motionkit.config._tree import from_text, type_name
from motionkit.errors import MotionkitError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("MOTIONKIT_"):
            monkeypatch.delenv(name)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_command_line_beats_environment_beats_files_beats_defaults(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "a.toml", "num_steps = 20\nmode = 'slow'\n[optim]\nlearning_rate = 1e-3\n")
    second = write(tmp_path / "b.yaml", "num_steps: 30\noptim:\n  weight_decay: 1e-2\n")
    monkeypatch.setenv("MOTIONKIT_NUM_STEPS", "40")
    monkeypatch.setenv("MOTIONKIT_OPTIM__WEIGHT_DECAY", "0.5")
    flags = {("num_steps",): "50"}
    found: Resolved[object] = resolve(sample.Sample, flags, ("note=hello",), (first, second))
    rows = {key: (value, origin) for key, value, origin in found.rows()}
    assert rows["num_steps"] == (50, "command line")
    assert rows["note"] == ("hello", "command line")
    assert rows["optim.weight_decay"] == (0.5, "environment MOTIONKIT_OPTIM__WEIGHT_DECAY")
    assert rows["optim.learning_rate"] == (1e-3, str(first))
    assert rows["mode"] == ("slow", str(first))
    assert rows["lora"] == (False, "default")


def test_one_value_of_a_group_leaves_the_parents_other_defaults(
    sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTIONKIT_OPTIM__LEARNING_RATE", "1")
    assert resolve(sample.Sample).settings.optim.weight_decay == 0.01  # the class itself says 0.0


def test_all_problems_come_at_once_with_origins_and_suggestions(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = write(tmp_path / "bad.toml", "[optim]\nlearnin_rate = 3\n")
    monkeypatch.setenv("MOTIONKIT_NUM_STEPS", "0")
    with pytest.raises(SettingsError) as caught:
        resolve(sample.Sample, {("optim", "learning_rate"): "fast"}, files=(bad,))
    text = str(caught.value)
    assert text.startswith("3 invalid settings")
    assert "num_steps = '0'  (from environment MOTIONKIT_NUM_STEPS)" in text
    assert "--learning-rate 'fast'  (optim.learning_rate, from command line)" in text
    assert f"optim.learnin_rate = 3  (from {bad})" in text
    assert "did you mean optim.learning_rate?" in text
    assert caught.value.code == 2


def test_misspelt_variable_is_a_warning_and_a_nested_one_an_error(
    sample: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTIONKIT_NUM_STEPZ", "3")
    (warning,) = resolve(sample.Sample).warnings
    assert "MOTIONKIT_NUM_STEPZ" in warning
    assert "did you mean MOTIONKIT_NUM_STEPS?" in warning
    monkeypatch.setenv("MOTIONKIT_OPTIM__RATE", "3")
    with pytest.raises(SettingsError, match=r"optim\.rate"):
        resolve(sample.Sample)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.json", '{\n  // why\n  "num_steps": }', "line 3, column 16"),
        ("x.toml", "num_steps = = 3", "line 1, column 13"),
        ("x.yaml", "a: [1", "line 1"),
        ("x.yaml", "- 1\n- 2", "does not hold a table"),
        ("x.ini", "", "neither TOML, JSON nor YAML"),
    ],
)
def test_malformed_files_are_named(sample: ModuleType, tmp_path: Path, name: str, text: str, said: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(MotionkitError, match="x") as caught:
        resolve(sample.Sample, files=(path,))
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_missing_file_is_an_error(sample: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="does not exist"):
        resolve(sample.Sample, files=(tmp_path / "no.toml",))


def test_snapshot_reloads_to_an_equal_object(sample: ModuleType, tmp_path: Path) -> None:
    flags = {("reward",): ["near=2", "far"], ("reward", "far", "reach"): "7", ("policy", "checkpoint"): "w.pt"}
    first = resolve(sample.Sample, flags, ("optim.betas=0.5,0.6", "track=a,b"))
    path = write(tmp_path / "config.json", json.dumps(first.snapshot()))
    again = resolve(sample.Sample, files=(path,))
    assert again.settings == first.settings
    assert first.settings.optim.betas == (0.5, 0.6)
    assert [(item.name, item.weight) for item in again.settings.reward] == [("near", 2.0), ("far", 1.0)]
    assert resolve(sample.Sample, files=(tmp_path,)).settings == first.settings  # a run folder
    assert sample.Sample(**first.snapshot()) == first.settings  # and from Python


def test_none_and_lists_from_text(sample: ModuleType, tmp_path: Path) -> None:
    path = write(tmp_path / "a.toml", "note = 'x'\ntrack = ['a']\n")
    found = resolve(sample.Sample, sets=('track=["b"]',), files=(path,))
    assert found.settings.track == ("b",)
    assert resolve(sample.Sample, sets=("note=none",)).settings.note is None


@pytest.mark.parametrize("text", ["num_steps", "=3", ""])
def test_set_needs_key_and_value(sample: ModuleType, text: str) -> None:
    with pytest.raises(MotionkitError, match="key=value"):
        resolve(sample.Sample, sets=(text,))


def test_python_defaults_fill_slots(sample: ModuleType) -> None:
    settings = sample.Sample()
    assert settings.policy.options.checkpoint == "starter"
    assert [item.name for item in settings.reward] == ["near"]


def test_a_file_of_something_else_is_not_printed_whole(sample: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({f"key{number}": ["x" * 1000] for number in range(300)}))
    with pytest.raises(SettingsError, match="300 invalid settings") as caught:
        resolve(sample.Sample, files=(path,))
    assert len(str(caught.value)) < 6000
    assert "and 288 more" in str(caught.value)
    assert len(caught.value.problems) == 300


def test_items_of_a_repeated_flag() -> None:
    assert type_name(tuple[Path, ...]) == "PATH"
    assert from_text(tuple[Path, ...], ["a,b", "c"]) == ["a,b", "c"]
    assert type_name(tuple[float, ...]) == "FLOAT,..."
    assert type_name(tuple[Annotated[float, Field(ge=1)], ...]) == "FLOAT,..."
    assert from_text(tuple[float, ...], ["0.1, 0.2", "3"]) == ["0.1", "0.2", "3"]
    assert type_name(tuple[float, float]) == "FLOAT,FLOAT"


def test_options_without_effect(sample: ModuleType, tmp_path: Path) -> None:
    class Clip(sample.Group):  # type: ignore[name-defined,misc]
        kind: str = "soft"
        margin: float = 0.5

        def idle(self) -> dict[str, str]:
            return {"margin": "it is the margin of hard"} if self.kind == "soft" else {}

    class Clipped(sample.Sample):  # type: ignore[name-defined,misc]
        clip: Clip = Clip(margin=0.25)

    with pytest.raises(SettingsError, match=r"clip.margin = 0.5  \(from command line\)\n.*it is the margin of hard"):
        resolve(Clipped, sets=("clip.margin=0.5",))
    told = resolve(Clipped, sets=("clip.margin=0.25",))
    assert told.notes == ("clip.margin has no effect: it is the margin of hard",)
    assert resolve(Clipped).notes == ()
    assert resolve(Clipped, sets=("clip.margin=0.5", "clip.kind=hard")).settings.clip.margin == 0.5


def test_options_that_came_later_have_what_older_runs_did(
    sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "far", replace(sample.far, later={"reach": 9}))
    monkeypatch.setattr(sample, "large", replace(sample.large, later={"scale": 5.0}))
    old = {"reward": {"far": {"weight": 2.0}, "near": {}}, "policy": {"name": "large"}}
    file = write(tmp_path / "config.json", json.dumps(old))
    assert resolve(sample.Sample, files=(tmp_path,)).settings.policy.options.scale == 1.0  # a file of no run
    write(tmp_path / "run.json", "{}")
    for path in (file, tmp_path):
        found = resolve(sample.Sample, files=(path,)).settings
        assert (found.reward[0].options.reach, found.policy.options.scale) == (9, 5.0)
    write(file, json.dumps({**old, "policy": {"name": "large", "scale": 2.0}}))
    assert resolve(sample.Sample, files=(file,)).settings.policy.options.scale == 2.0
    chosen = choose_from_file("policies", {"name": "large"})
    assert chosen is not None
    assert chosen.get("scale", None) == 5.0
    write(file, json.dumps({"policy": {"name": "gone"}}))
    with pytest.raises(MotionkitError, match="no policy 'gone'"):
        resolve(sample.Sample, files=(file,))
