"""A Python file runs when its name is typed, never because a settings file names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from motionkit import plugins
from motionkit.config import Chosen, choose_from_file, resolve
from motionkit.errors import MotionkitError
from motionkit.runs.words import typed_flags

Evil = tuple[str, Path]

TABLES: dict[str, Callable[[str], dict[str, Any]]] = {
    "word": lambda name: {"reward": name},
    "commas": lambda name: {"reward": f"near,{name}=0.5"},
    "list": lambda name: {"reward": ["near", f"{name}=0.5"]},
    "tables": lambda name: {"reward": {"near": {"weight": 2.0}, name: {"weight": 0.5, "reach": 7}}},
    "one": lambda name: {"policy": name},
    "one table": lambda name: {"policy": {"name": name}},
}
TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    ".json": json.dumps,
    ".yaml": json.dumps,  # JSON is YAML as well
    ".toml": lambda table: "".join(f"{key} = {_toml(value)}\n" for key, value in table.items()),
}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(part)}" for key, part in value.items()) + "}"
    return json.dumps(value)


@pytest.fixture
def evil(sample: ModuleType, tmp_path: Path) -> Evil:
    """Write a plugin file that leaves a mark when it is imported; return its name and the mark."""
    mark, path = tmp_path / "ran", tmp_path / f"evil_{tmp_path.name}.py"
    source = Path(sample.__file__ or "").read_text()
    path.write_text(f"{source}\nfrom pathlib import Path\nPath({str(mark)!r}).touch()\n")
    return f"{path}:far", mark


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_file_cannot_name_code(sample: Any, evil: Evil, tmp_path: Path, suffix: str, table: Any) -> None:
    name, mark = evil
    path = tmp_path / f"a{suffix}"
    path.write_text(TEXTS[suffix](table(name)))
    with pytest.raises(MotionkitError) as caught:
        resolve(sample.Sample, files=(path,))
    key = next(iter(table(name)))
    assert caught.value.message == f"{path}: {key} names {name}, which is code."
    assert f"--{key} {name}" in caught.value.fix
    assert caught.value.code == 2
    assert not mark.exists()


def test_code_counts_once_its_name_is_typed(
    sample: Any, evil: Evil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, mark = evil
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"reward": {"near": {"weight": 2.0}, name: {"weight": 0.5, "reach": 7}}}))
    with pytest.raises(MotionkitError) as caught:
        resolve(sample.Sample, files=(path,))
    flags = ["--reward", "near", "--reward", name]
    assert caught.value.fix == f"if you trust that file, add to the command: {' '.join(flags)}"
    assert not mark.exists()
    wanted = [("near", 2.0), (name, 0.5)]  # what was typed has no weight, so the file's count
    typed: list[dict[str, Any]] = [{"flags": {("reward",): flags[1::2]}}, {"sets": (f"reward=near,{name}",)}]
    for given in typed:
        found = resolve(sample.Sample, **given, files=(path,)).settings.reward
        assert [(item.name, item.weight) for item in found] == wanted
        assert found[1].options.reach == 7
    monkeypatch.setenv("MOTIONKIT_REWARD", f"near,{name}")
    found = resolve(sample.Sample, files=(path,)).settings.reward
    assert [(item.name, item.weight) for item in found] == wanted
    assert mark.exists()


def test_what_is_typed_counts_for_its_own_slot(sample: Any, evil: Evil, tmp_path: Path) -> None:
    name, mark = evil
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"policy": {"name": name}, "reward": [name]}))
    for flags in ({("policy",): name}, {("reward",): [name]}, {("reward", name, "reach"): "3"}):
        with pytest.raises(MotionkitError, match="names"):
            resolve(sample.Sample, flags=flags, files=(path,))
    mark.unlink(missing_ok=True)
    both = {("policy",): "large", ("reward",): ["near"]}  # replaces what the file chose
    assert resolve(sample.Sample, both, files=(path,)).settings.policy.name == "large"
    assert not mark.exists()


def test_flags_to_type_again(sample: Any) -> None:
    assert typed_flags({"seed": 1, "policy": {"name": "mdm"}, "reward": {"near": {}, "far": {}}, "optim": {}}) == ""
    snapshot = {"policy": {"name": "my dir/p.py:x"}, "reward": {"near": {"weight": 1}, "./e.py:y": {"weight": 2}}}
    assert typed_flags(snapshot) == "--policy 'my dir/p.py:x' --reward near --reward ./e.py:y"
    trusted = {"policy": {"name": "sa2va", "checkpoint": "model", "trust_remote_code": True}, "loop1": {"name": "x"}}
    assert typed_flags(trusted) == "--trust-remote-code"
    assert typed_flags({"policy": {"name": "gone", "trust_remote_code": True}}) == ""


def test_python_passes_code_by_hand(sample: Any, evil: Evil) -> None:
    name, mark = evil
    mine = Chosen("rewards", name, plugins.get("rewards", name, typed=True).options(reach=9))
    assert sample.Sample(reward=(mine,)).reward[0].options.reach == 9
    assert mark.exists()


def test_a_plugin_with_its_options() -> None:
    chosen = choose_from_file("datasets", {"name": "shapes", "seed": 3})
    assert chosen is not None
    assert (chosen.name, chosen.options.model_dump()["seed"]) == ("shapes", 3)


@pytest.mark.parametrize("table", [None, {}, {"name": 3}, "shapes"])
def test_nothing_is_named(table: object) -> None:
    assert choose_from_file("datasets", table) is None


def test_trust_is_not_a_file_s_to_give() -> None:
    table = {"name": "sa2va", "checkpoint": "anywhere", "trust_remote_code": True}
    with pytest.raises(MotionkitError, match="trust_remote_code, which counts only where it is typed") as caught:
        choose_from_file("policies", table)
    assert "--policy sa2va" in str(caught.value.fix)
    assert choose_from_file("policies", {**table, "trust_remote_code": False}) is not None


def test_a_file_of_code_is_refused(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(MotionkitError, match="is code") as caught:
        choose_from_file("datasets", {"name": f"{code}:component"})
    assert f"--dataset {code}:component" in str(caught.value.fix)
    assert not (tmp_path / "ran").exists()
