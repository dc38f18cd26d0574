"""Discovery and the table of kinds: a broken package hides no other, one name means one thing."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit import load_reward, plugins
from motionkit.config import Chosen, Group, Settings, slot
from motionkit.errors import MotionkitError
from motionkit.plugins import KINDS, fitting, require_fit
from motionkit.plugins._discovery import Entry
from motionkit.plugins.scaffold import template_folder
from motionkit.testing import check_policy

from ..made.commands import assert_refused
from . import broken_packages as broken


def names(kind: str) -> list[str]:
    return [entry.name for entry in plugins.available(kind)]


def test_builtins_are_found_through_the_installed_metadata() -> None:
    assert {"tmr-cosine", "tmr-matching", "tmr-dense", "physics"} <= set(names("rewards"))
    assert {"starter", "humanml", "kit"} <= set(names("datasets"))
    assert "mdm" in names("policies")
    assert {"grpo", "pretrain.mdm", "pretrain.tmr"} <= set(names("trainers"))
    own = {entry.distribution for entry in plugins.available("rewards") if entry.builtin}
    assert own == {"motionkit", "motionkit-regions", "motionkit-success"}
    assert plugins.find("rewards", "motionkit:iou").distribution == "motionkit-regions"


def test_an_installation_of_older_code_says_so(site: Any) -> None:
    site.install("motionkit", "[motionkit.rewards]\niou = motionkit.regions.rewards:iou\n")
    with pytest.raises(MotionkitError) as error:
        plugins.available("rewards")
    assert "packages.txt" in error.value.fix


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
    with pytest.raises(MotionkitError, match="bad-import") as caught:
        plugins.get("rewards", "bad")
    assert "nonesuch_module" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("component = 3\n", "not a motionkit Component"),
        ("", "import"),
        (
            "from motionkit.config import Group\nfrom motionkit.plugins import Component\n"
            "class O(Group):\n    weight: float = 1.0\ncomponent = Component('x', O, 'a:b')\n",
            "weight",
        ),
    ],
)
def test_what_an_entry_names_must_be_a_component(site: Any, source: str, said: str) -> None:
    site.install("odd-plugin", "[motionkit.rewards]\nodd = odd_plugin:component\n", odd_plugin=source)
    with pytest.raises(MotionkitError, match=said):
        plugins.get("rewards", "odd")


def test_two_packages_with_one_name_are_never_silent(site: Any, sample: ModuleType) -> None:
    site.install("rival", "[motionkit.rewards]\nnear = sample_plugins:far\n")
    with pytest.raises(MotionkitError) as caught:
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
    with pytest.raises(MotionkitError) as caught:
        plugins.get("rewards", "nera")
    assert "did you mean near?" in caught.value.fix
    with pytest.raises(MotionkitError, match="no plugin kind"):
        plugins.available("reward")


def test_a_bare_checkout_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.plugins._discovery.metadata.distributions", lambda: iter(()))
    plugins.forget()
    with pytest.raises(MotionkitError) as caught:
        plugins.get("rewards", "physics")
    assert "-r packages.txt" in caught.value.fix
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
    assert plugins.label("./src/motionkit_reward_bounce/__init__.py:component") == "motionkit-reward-bounce"
    (tmp_path / "bad.py").write_text("1 / 0\n")
    for name, word in (
        ("my_reward.py:other", "no 'other'"),
        ("none.py:component", "does not exist"),
        ("bad.py:component", "ZeroDivisionError"),
    ):
        with pytest.raises(MotionkitError, match=word):
            plugins.get("rewards", f"{tmp_path}/{name}", typed=True)


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


Cli = Callable[..., Result]

ACTOR = """
from motionkit.config import Group
from motionkit.plugins import Component
class Options(Group):
    pass
component = Component("Acts on pixels.", Options, "pixels:Actor", gives="actor")
image = Component("Scores what a camera saw.", Options, "pixels:Reward", reads="image")
"""


@pytest.fixture
def pixels(site: Any) -> None:
    """A package with a policy that is an actor and a reward that reads images."""
    entries = "[motionkit.policies]\npixels = pixels:component\n[motionkit.rewards]\npixel-reward = pixels:image\n"
    site.install("motionkit-pixels", entries, pixels=ACTOR)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_row_names_what_exists(kind: str) -> None:
    row = KINDS[kind]
    assert row.name == kind
    for path in (*row.gives.values(), *row.reads.values(), row.check):
        if path:
            module, _, name = path.partition(":")
            assert hasattr(importlib.import_module(module), name), path
    for template in filter(None, (row.scaffold, *row.scaffolds.values())):
        assert template_folder(template).is_dir(), template


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_builtin_uses_words_of_the_table(kind: str) -> None:
    for entry in plugins.available(kind):
        component = plugins.get(kind, f"{entry.distribution}:{entry.name}")
        assert plugins.gives_of(kind, component) in KINDS[kind].gives
        assert plugins.reads_of(kind, component) in (KINDS[kind].reads or {""})


@pytest.mark.parametrize("kind", list(KINDS))
def test_factories_of_builtins_take_the_runtime_arguments_of_the_table(kind: str) -> None:
    for entry in plugins.available(kind):
        if entry.builtin:
            component = plugins.get(kind, f"{entry.distribution}:{entry.name}")
            if component.missing():  # an extra that is not installed: the tests of its plugin build it on a stub
                continue
            factory = component.load()
            taken = list(inspect.signature(factory).parameters.values())[1:]  # the options come first
            named = {parameter.name: parameter for parameter in taken if parameter.kind is not parameter.VAR_KEYWORD}
            required = {name for name, parameter in named.items() if parameter.default is parameter.empty}
            assert required <= set(KINDS[kind].runtime), entry.name
            # A factory that hands the rest on, as ``**runtime``, takes every argument.
            assert len(named) < len(taken) or set(KINDS[kind].runtime) <= set(named), entry.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("grpo", "--policy", "pixels"),
            "policy 'pixels' gives 'actor'; --policy takes one that gives 'diffusion'. fix choose one that fits: mdm",
        ),
        (
            ("generate", "walk", "out.npz", "--policy", "pixels"),
            "policy 'pixels' gives 'actor'; --policy takes one that gives 'diffusion'.",
        ),
        (
            ("grpo", "--reward", "tmr-dense", "--reward", "pixel-reward=0.1"),
            "reward 'pixel-reward' reads 'image'; --reward takes one that reads 'motion'.",
        ),
        (
            ("compose", "out", "--dataset", "composite", "--dataset.path", "x.json"),
            "dataset 'composite' gives 'composite'; --dataset takes one that gives 'text-motion'. "
            "fix choose one that fits: humanml, kit, starter",
        ),
    ],
    ids=["grpo", "generate", "reward", "compose"],
)
def test_a_misfit_is_refused_before_anything_is_made(cli: Cli, pixels: None, words: tuple[str, ...], said: str) -> None:
    for more in ([], ["--dry-run"]):
        assert_refused(cli(*words, *more), said)
    assert not list(Path().iterdir())


def test_a_slot_read_from_python_refuses_a_misfit_too(pixels: None) -> None:
    class Asked(Settings):
        policy: Chosen = slot("policies", "mdm", gives="diffusion")

    with pytest.raises(MotionkitError, match="'pixels'"):
        Asked.model_validate({"policy": "pixels"})


def test_help_offers_what_fits_and_imports_no_package_of_others(cli: Cli, site: Any) -> None:
    site.install("hang", "[motionkit.datasets]\nhang = hang:component\n", hang="raise SystemExit(0)\n")
    offered = " ".join(cli("compose", "--help").stdout.split()).partition("One of: ")[2].partition(";")[0]
    assert offered.startswith("humanml, kit, starter, hang")  # and those of packages that are installed
    assert "composite" in plugins.fitting("datasets")


def test_list_shows_what_plugins_give_and_read(cli: Cli, pixels: None) -> None:
    def words(*more: str) -> dict[str, tuple[str, str]]:
        listed = json.loads(cli("plugins", "list", "--json", *more).stdout)["plugins"]
        return {item["name"]: (item["gives"], item["reads"]) for item in listed}

    known = words()
    assert known["mdm"] == ("diffusion", "")
    assert known["composite"] == ("composite", "")
    assert known["tmr-dense"] == ("reward", "motion")
    assert known["pixels"] == ("", "")  # not imported
    known = words("--check")
    assert known["pixels"] == ("actor", "")
    assert known["pixel-reward"] == ("reward", "image")
    shown = json.loads(cli("plugins", "show", "policies", "pixels", "--json").stdout)
    assert (shown["gives"], shown["reads"]) == ("actor", "")


def test_loops_have_no_templates(cli: Cli) -> None:
    assert "copy a built-in: motionkit plugins list loops" in cli("plugins", "new", "loop", "mine").stderr
    assert "there are no templates for a new loop" in cli("plugins", "new", "motionkit-loop-mine").stderr
    assert "there is no plugin kind 'reword'" in cli("plugins", "new", "reword", "bounce").stderr
    assert not list(Path().iterdir())


def test_a_message_suggests_only_what_is_known_to_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help must not run code of others, so that it lists them all; a message says what fits."""
    found = plugins.available("rewards")
    stranger = Entry("rewards", "stranger", "no_such_module:component", "a-package", "1.0")
    monkeypatch.setattr("motionkit.plugins._lookup.available", lambda kind: [*found, stranger])
    assert "stranger" in fitting("rewards", reads=("mask",))
    assert "stranger" not in fitting("rewards", reads=("mask",), certain=True)
    with pytest.raises(MotionkitError) as error:
        require_fit("rewards", "physics", reads=("mask",))
    assert "iou" in error.value.fix
    assert "stranger" not in error.value.fix


FAR_KINDS = """
from motionkit.plugins import Kind
rows = (
    Kind("ponds", "pond", gives={"pond": ""}, after="trainers"),
    Kind("policies", gives={"fish": "far_kinds:Fish"}, checks={"fish": "far_kinds:check_fish"}, runtime=("never",)),
)
class Fish:
    def swim(self): ...
def check_fish(policy, *, options=None):
    raise AssertionError(f"{policy} does not swim")
"""


def test_a_package_brings_a_kind_and_a_type(site: Any) -> None:
    before = list(plugins.KINDS)
    site.install("far-kinds", "[motionkit.kinds]\nfar = far_kinds:rows\n[motionkit.ponds]\nsmall = far_kinds:x\n",
                 far_kinds=FAR_KINDS)  # fmt: skip
    assert list(plugins.KINDS) == [*before[:2], "ponds", *before[2:]]
    assert [entry.name for entry in plugins.available("ponds")] == ["small"]
    policies = plugins.KINDS["policies"]
    assert next(iter(policies.gives)) == "diffusion"
    assert policies.gives["fish"] == "far_kinds:Fish"
    assert policies.runtime == ("device", "dataset")  # a row adds, and changes nothing
    swimming = plugins.Component("It swims.", Group, "far_kinds:Fish", gives="fish")
    with pytest.raises(AssertionError, match="does not swim"):
        check_policy(swimming)


@pytest.mark.parametrize(("module", "said"), [("rows = (1,)", "int is no"), ("1 / 0", "division by zero")])
def test_kinds_that_cannot_be_read_hide_no_others(site: Any, module: str, said: str) -> None:
    site.install("bad-kinds", "[motionkit.kinds]\nbad = bad_kinds:rows\n", bad_kinds=module)
    assert "loops" in plugins.KINDS
    assert any(said in str(broken) for broken in plugins.scan().broken)
