"""Commands and answers of packages: a stranger's, and those of motionkit, which ``packages.json`` lists."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.cli import unknown
from motionkit.cli.commands.export import ExportSettings
from motionkit.cli.table import rows
from motionkit.plugins import packages
from motionkit.plugins.check import second_reading
from motionkit_success.episode_formats import formats

from ..made.commands import assert_refused

Cli = Callable[..., Result]
LISTED: dict[str, Any] = json.loads(Path(packages.__file__).with_name("packages.json").read_text(encoding="utf-8"))

ANSWERS = """
class Answers:
    def line(self, words, options_of):
        from motionkit.errors import MotionkitError
        if words[0] not in ("hail", "--hail"):
            return None
        return MotionkitError("hail is an old word.", fix=f"motionkit greet {sorted(options_of('view'))[0]}")
    def options(self, command, words, options):
        from motionkit.errors import MotionkitError
        if command == "greet" and "--often" in words:
            return MotionkitError("--often is an old word.", fix=f"motionkit greet {min(options)}")
        return None
    def key(self, word, command):
        return "times" if word == "--often" and command == "greet" else ""

ANSWERS = Answers()
"""
ENTRIES = "[motionkit.commands]\ngreet = greeting:GREET\n[motionkit.answers]\nhail = greeting:ANSWERS\n"


@pytest.fixture
def greeting(site: Any, root: Path) -> Any:
    """A package with the command of the documents, and answers."""
    text = (root / "docs" / "plugins.md").read_text(encoding="utf-8")
    (command,) = (one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Command(" in one)
    site.install("motionkit-greeting", ENTRIES, greeting=command + ANSWERS)
    return site


def test_a_command_of_a_package_is_listed_with_its_packages_summary_and_not_imported(cli: Cli, greeting: Any) -> None:
    shown = cli("--help").stdout
    assert "Of other packages" in shown
    assert "greet " in shown
    assert "The motionkit-greeting package." in shown
    assert "greeting" not in sys.modules
    assert "greet" not in cli("--help", env={"MOTIONKIT_PLUGINS": ""}).stdout
    assert not cli("--help").stderr


def test_a_command_of_a_package_works_as_ours_do(cli: Cli, greeting: Any) -> None:
    done = cli("greet", "Ada", "--times", 2)
    assert (done.exit_code, done.stdout) == (0, "hello Ada hello Ada\n")
    assert "greeting" in done.stderr
    document = json.loads(cli("greet", "Ada", "--json").stdout)
    assert document == {"schema": 1, "command": "greet", "status": "done", "name": "Ada"}
    shown = cli("greet", "--help").stdout
    for part in ("Greet somebody.", "--times", "Whom to greet.", "All settings: motionkit config show greet"):
        assert part in shown
    assert "times" in cli("config", "show", "greet").stdout
    assert "hello" not in cli("greet", "Ada", "--dry-run").stdout
    assert cli("greet", "Ada", "--times", 0).exit_code == 2
    assert "did you mean greet?" in cli("greeet").stderr


@pytest.mark.parametrize(("name", "owner"), [("runs", "motionkit"), ("generate", "motionkit"), ("grpo", "motionkit"),
                                             ("pretrain", "motionkit"), ("greet", "motionkit-greeting")])  # fmt: skip
def test_a_command_of_a_package_cannot_take_a_name(name: str, owner: str, cli: Cli, greeting: Any) -> None:
    greeting.install("motionkit-thief", f"[motionkit.commands]\n{name} = nonesuch_thief:GREET\n", nonesuch_thief="")
    done = cli("runs", "list")
    assert done.exit_code == 0
    assert f"command {name!r} of package 'motionkit-thief' is ignored: {owner} has that command" in done.stderr
    assert cli(name, "--help").exit_code == 0


def test_a_trainer_whose_name_a_command_of_a_package_has_is_ignored(cli: Cli, greeting: Any) -> None:
    greeting.install("rival", "[motionkit.trainers]\ngreet = nonesuch:component\n")
    told = cli("runs", "list").stderr
    assert "trainer 'greet' of package 'rival' is ignored: motionkit-greeting has that command" in told


def test_a_command_that_does_not_import_or_is_none_is_told_by_its_package(cli: Cli, site: Any) -> None:
    entries = "[motionkit.commands]\nbroken = broken_words:GREET\nodd = odd_words:GREET\n"
    site.install("motionkit-broken", entries, broken_words="1 / 0\n", odd_words="GREET = 3\n")
    for name, told in {
        "broken": "command 'broken' of package 'motionkit-broken' does not import: ZeroDivisionError",
        "odd": "odd_words:GREET of package 'motionkit-broken' is a int, not a motionkit Command.",
    }.items():
        assert_refused(cli(name), told)
    assert cli("--help").exit_code == 0
    assert not second_reading()[1]  # both groups are known


def test_a_package_answers_what_motionkit_does_not_know(cli: Cli, greeting: Any) -> None:
    for words in (["hail", "Ada"], ["--hail", "Ada"]):
        assert_refused(cli(*words), "hail is an old word.", "motionkit greet --blender")
    assert_refused(cli("greet", "Ada", "--often", 3), "--often is an old word.")
    assert "did you mean times?" in cli("config", "explain", "greet", "--often").stderr


def test_an_answer_that_fails_is_told_by_its_package(cli: Cli, site: Any) -> None:
    source = "class Answers:\n    def line(self, words, options_of):\n        1 / 0\nANSWERS = Answers()\n"
    site.install("motionkit-mute", "[motionkit.answers]\nmute = mute_words:ANSWERS\n", mute_words=source)
    assert_refused(cli("nothing"), "answer 'mute' of package 'motionkit-mute' raised ZeroDivisionError")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package with answers."""
    found = plugins.scan()
    only = replace(found, objects=tuple(entry for entry in found.objects if entry.kind != "answers"))
    monkeypatch.setattr(unknown.plugins, "scan", lambda: only)


def test_without_a_package_with_answers_the_command_line_says_what_it_knows(cli: Cli, alone: None) -> None:
    done = cli("grpo", "--model_path", "x")
    assert done.exit_code == 2
    assert "motionkit grpo: no such option: --model_path" in done.stderr
    assert "guide" not in done.stderr
    assert "there is no command 'motionkit python'." in cli("python", "-m", "train.train_grpo").stderr
    assert "motionkit: no such option: --model_path" in cli("--model_path", "x").stderr
    assert "there is no setting '--kl_penalty'." in cli("config", "explain", "grpo", "--kl_penalty").stderr


def test_a_command_whose_package_is_not_installed_names_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugins.scan()
    less = replace(found, objects=tuple(entry for entry in found.objects if entry.name != "predict"))
    monkeypatch.setattr("motionkit.cli.table.scan", lambda: less)
    assert_refused(
        cli("predict", "walk.bvh"), "the package motionkit-predictor has it, and is not installed.", "-r packages.txt"
    )
    assert "predict " not in cli("--help").stdout


def test_help_does_without_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert packages.default("tune") == "train-mpl"
    assert "train_grpo" in packages.words("other lines")
    packages._part.cache_clear()
    gone = ("motionkit_predictor", "motionkit_guides")
    there = packages.module_exists
    monkeypatch.setattr(packages, "module_exists", lambda name: name not in gone and there(name))
    try:
        assert packages.default("tune") == packages.words("other lines") == packages.about("train-mpl", "summary") == ""
        assert "onnx" not in packages.formats()
        assert "predictor" not in packages.about_formats()
        assert packages.owner_of("train-mpl") == "motionkit-predictor"
    finally:
        packages._part.cache_clear()


def entry_points(root: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for folder in (root, *(root / "plugins" / name for name in packages.names() - {"motionkit"})):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for group, entries in project["entry-points"].items():
            found.setdefault(group, {}).update(entries)
    return found


def _package(value: str) -> str:
    parts = value.partition(":")[0].split(".")
    return ".".join(parts[:2]) if parts[0] == "motionkit" else parts[0]


def test_the_file_lists_the_commands_of_the_entry_points_by_package(root: Path) -> None:
    groups = entry_points(root)
    found = {name.replace(".", " "): value for name, value in groups["motionkit.trainers"].items()}
    found |= groups["motionkit.commands"]
    found |= {f"eval {name}": value for name, value in groups["motionkit.protocols"].items()}
    package_of = {name: _package(value) for name, value in found.items()}
    listed = {name: package for package, facts in LISTED.items() for name in facts.get("commands", ())}
    prefixes = {name.partition(" ")[0] for name in found if " " in name} - {"eval"}
    assert listed.keys() - found.keys() == prefixes
    assert {name: listed[name] for name in found} == package_of
    others = {
        _package(value)
        for group in ("answers", "formats", "episodes")
        for value in groups[f"motionkit.{group}"].values()
    }
    assert LISTED.keys() == set(package_of.values()) | others - {"motionkit.formats"}


def test_every_listed_command_has_what_listings_show() -> None:
    parts = {"commands", "defaults", "exports", "examples", "words", "synonyms", "formats", "settings", "variables"}
    ours = {row.name for row in rows()}
    for facts in LISTED.values():
        assert facts.keys() <= parts
        for name, about in facts.get("commands", {}).items():
            assert about.keys() <= {"summary", "panel", "before", "example"}
            assert about.get("summary") or name.startswith("eval ")
            assert about.get("before", "view") in ours
        for command, named in facts.get("defaults", {}).items():
            assert packages.owner_of(named if command == "tune" else f"{command} {named}")
        for names in facts.get("synonyms", {}).values():
            assert set(names) <= facts["commands"].keys()


def test_the_formats_are_those_of_the_components() -> None:
    ours = [
        plugins.get(e.kind, f"motionkit:{e.name}")
        for kind in plugins.KINDS
        for e in plugins.available(kind)
        if e.builtin
    ]
    found = {to for component in ours for to in component.exports}
    of_models = {
        to for facts in LISTED.values() if facts.get("exports", {}).get("of") != "data"
        for to in facts.get("exports", {}).get("formats", ())
    }  # fmt: skip
    assert found == of_models
    assert set(packages.formats()) - of_models == set(formats())
    assert {
        option for options in packages.formats().values() for option in options
    } <= ExportSettings.model_fields.keys()
