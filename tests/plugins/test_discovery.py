"""Discovery: one broken package must not hide the others, and one name must mean one thing."""

from __future__ import annotations

import json
import logging
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from motionkit import load_reward, plugins
from motionkit.errors import MotionkitError

from . import broken_packages as broken


def names(kind: str) -> list[str]:
    return [entry.name for entry in plugins.available(kind)]


def test_builtins_are_found_through_the_installed_metadata() -> None:
    assert {"tmr-cosine", "tmr-matching", "tmr-dense", "physics"} <= set(names("rewards"))
    assert {"starter", "humanml", "kit"} <= set(names("datasets"))
    assert "mdm" in names("policies")
    assert {"grpo", "pretrain.mdm", "pretrain.tmr"} <= set(names("trainers"))
    assert all(entry.builtin == (entry.distribution == "motionkit") for entry in plugins.available("rewards"))


def test_installed_metadata_equals_pyproject(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = {
        (group, name, value) for group, table in project["entry-points"].items() for name, value in table.items()
    }
    installed = {
        (point.group, point.name, point.value)
        for point in metadata.distribution("motionkit").entry_points
        if point.group.startswith("motionkit.")
    }
    assert installed == declared, "pyproject.toml changed: run pip install -e . again"


@pytest.mark.parametrize(
    "text",
    ["[motionkit.rewards]\nthis is no entry\n", "[motionkit.rewards]\nfine = a:b\n\nsecond line without sense\n"],
)
def test_one_broken_package_is_one_warning_and_all_else_works(site: Any, sample: ModuleType, text: str) -> None:
    site.install("broken-plugins", text)
    found = plugins.scan()
    assert "near" in names("rewards")
    assert "physics" in names("rewards")
    (one,) = found.broken
    assert "broken-plugins" in str(one)
    assert "entry_points.txt" in str(one)
    assert "line " in str(one)


def test_a_malformed_package_that_is_no_plugin_changes_nothing(site: Any, sample: ModuleType) -> None:
    site.install("unrelated", "[console_scripts]\nnonsense\n")
    assert plugins.scan().broken == ()
    assert "near" in names("rewards")


def test_odd_metadata_is_named(site: Any, sample: ModuleType) -> None:
    broken.install_metadata(site)
    found = {one.distribution: one.problem for one in plugins.scan().broken}
    assert set(found) == {f"odd-{name}" for name in broken.METADATA}
    assert "line 2" in found["odd-malformed"]
    assert "can't decode" in found["odd-binary"]
    assert {"near", "physics"} <= set(names("rewards"))
    info = site.install("odd-mended", "[motionkit.rewards]\nno entry at all\n")
    assert "odd-mended" in {one.distribution for one in plugins.scan().broken}
    (info / "entry_points.txt").write_text("[motionkit.rewards]\nmended = sample_plugins:near\n")
    plugins.forget()
    assert "mended" in names("rewards")


def test_a_plugin_that_does_not_import_is_named(site: Any) -> None:
    site.install(
        "bad-import", "[motionkit.rewards]\nbad = bad_import:component\n", bad_import="import nonesuch_module\n"
    )
    assert "bad" in names("rewards")  # listing imports nothing
    with pytest.raises(MotionkitError, match="'bad' of package 'bad-import' does not import") as caught:
        plugins.get("rewards", "bad")
    assert "nonesuch_module" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("component = 3\n", "is a int, not a motionkit Component"),
        ("", "does not import"),
        (
            "from motionkit.config import Group\nfrom motionkit.plugins import Component\n"
            "class O(Group):\n    weight: float = 1.0\ncomponent = Component('x', O, 'a:b')\n",
            "has an option called 'weight'",
        ),
    ],
)
def test_what_an_entry_names_must_be_a_component(site: Any, source: str, said: str) -> None:
    site.install("odd-plugin", "[motionkit.rewards]\nodd = odd_plugin:component\n", odd_plugin=source)
    with pytest.raises(MotionkitError, match=said):
        plugins.get("rewards", "odd")


def test_two_packages_with_one_name_are_never_silent(site: Any, sample: ModuleType) -> None:
    site.install("rival", "[motionkit.rewards]\nnear = sample_plugins:far\n")
    with pytest.raises(MotionkitError, match="2 packages bring reward 'near'") as caught:
        plugins.get("rewards", "near")
    assert "sample-plugins:near" in caught.value.fix
    assert "rival:near" in caught.value.fix
    assert plugins.get("rewards", "rival:near").summary == "Far."
    assert plugins.get("rewards", "Sample_Plugins:near").summary == "Near."


def test_the_name_of_a_builtin_means_the_builtin(
    site: Any, sample: ModuleType, cli: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("motionkit"), "propagate", True)  # a command before this one stopped it
    site.install("rival", "[motionkit.rewards]\nphysics = sample_plugins:far\n")
    assert plugins.find("rewards", "physics").builtin
    assert plugins.get("rewards", "motionkit:physics") is plugins.get("rewards", "physics")
    assert plugins.get("rewards", "rival:physics").summary == "Far."
    said = "reward 'physics' means the one of motionkit; package 'rival' brings another one, rival:physics"
    load_reward("physics", r_s=0.1, r_j=100.0)
    assert said in caplog.text
    shown = cli("plugins", "show", "rewards", "physics", "--json")
    assert json.loads(shown.stdout)["package"].startswith("motionkit ")
    assert shown.stderr.count(said) == 1
    checked = json.loads(cli("plugins", "list", "rewards", "--check", "--json").stdout)
    assert any(said in text for text in checked["warnings"])
    assert not any(said in text for text in checked["problems"]), "odd, and nothing is broken"


def test_the_variable_limits_loading(site: Any, sample: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTIONKIT_PLUGINS", "")
    assert "near" not in names("rewards")
    assert "physics" in names("rewards")
    monkeypatch.setenv("MOTIONKIT_PLUGINS", "other, Sample.Plugins")
    assert "near" in names("rewards")


def test_unknown_names_are_answered(sample: ModuleType) -> None:
    with pytest.raises(MotionkitError, match="there is no reward 'nera'") as caught:
        plugins.get("rewards", "nera")
    assert "did you mean near?" in caught.value.fix
    with pytest.raises(MotionkitError, match="no plugin kind"):
        plugins.available("reward")


def test_a_bare_checkout_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.plugins._discovery.metadata.distributions", lambda: iter(()))
    plugins.forget()
    with pytest.raises(MotionkitError, match="motionkit is not installed") as caught:
        plugins.get("rewards", "physics")
    assert "pip install -e ." in caught.value.fix
    plugins.forget()


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "my_reward.py"
    path.write_text(
        "from motionkit.config import Group\nfrom motionkit.plugins import Component\n"
        "class Mine:\n    def __init__(self, options, **runtime): self.runtime = runtime\n"
        "class O(Group):\n    pass\ncomponent = Component('Mine.', O, f'{__name__}:Mine')\n"
    )
    component = plugins.get("rewards", f"{path}:component", typed=True)
    assert component.build(component.options(), device="cpu").runtime == {"device": "cpu"}
    assert plugins.get("rewards", str(path), typed=True) is not None
    assert plugins.label(f"{path}:component") == "my-reward"
    with pytest.raises(MotionkitError, match="has no 'other'"):
        plugins.get("rewards", f"{path}:other", typed=True)
    with pytest.raises(MotionkitError, match="does not exist"):
        plugins.get("rewards", f"{tmp_path}/none.py:component", typed=True)
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(MotionkitError, match="ZeroDivisionError"):
        plugins.get("rewards", f"{tmp_path}/bad.py:component", typed=True)


def test_missing_extra_is_reported_before_anything_is_built(sample: ModuleType) -> None:
    component = plugins.Component("x", sample.Near, "builtins:dict", needs=("nonesuch_a",), extra="text")
    assert component.missing() == ["nonesuch_a"]
    with pytest.raises(MotionkitError, match="nonesuch_a is not installed") as caught:
        component.load()
    assert caught.value.fix.startswith("pip install -c constraints.txt -e '.[text]'")


def test_files_of_one_name_in_two_folders_are_two_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("one", "two"):
        (tmp_path / word).mkdir()
        (tmp_path / word / "mine.py").write_text(
            "from motionkit.config import Group\nfrom motionkit.plugins import Component\n"
            f"component = Component({word!r}, Group, __name__ + ':Mine')\n"
        )
    components = []
    for word in ("one", "two", "one"):
        monkeypatch.chdir(tmp_path / word)
        components.append(plugins.get("rewards", "./mine.py:component", typed=True))
    one, two, again = components
    assert (one.summary, two.summary) == ("one", "two")
    assert again is one
    assert one.factory != two.factory
