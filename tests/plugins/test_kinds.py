"""The table of kinds names what exists, and a plugin that a command cannot use is refused in words."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit import plugins
from motionkit.config import Chosen, Settings, slot
from motionkit.errors import MotionkitError
from motionkit.plugins import KINDS, fitting, require_fit
from motionkit.plugins._discovery import Entry

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
    for path in (*row.gives.values(), *row.reads.values(), row.check, row.scaffold):
        if path:
            module, _, name = path.partition(":")
            assert hasattr(importlib.import_module(module), name), path


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
        done = cli(*words, *more)
        assert done.exit_code == 2
        assert said in " ".join(done.stderr.split())
    assert not list(Path().iterdir())


def test_a_slot_read_from_python_refuses_a_misfit_too(pixels: None) -> None:
    class Asked(Settings):
        policy: Chosen = slot("policies", "mdm", gives="diffusion")

    with pytest.raises(MotionkitError, match="policy 'pixels' gives 'actor'"):
        Asked.model_validate({"policy": "pixels"})


def test_help_offers_what_fits_and_imports_no_package_of_others(cli: Cli, site: Any) -> None:
    site.install("hang", "[motionkit.datasets]\nhang = hang:component\n", hang="raise SystemExit(0)\n")
    offered = " ".join(cli("compose", "--help").stdout.split()).partition("One of: ")[2].partition(";")[0]
    assert offered == "humanml, kit, starter, hang"
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
    monkeypatch.setattr("motionkit.plugins.check.available", lambda kind: [*found, stranger])
    assert "stranger" in fitting("rewards", reads=("mask",))
    assert "stranger" not in fitting("rewards", reads=("mask",), certain=True)
    with pytest.raises(MotionkitError) as error:
        require_fit("rewards", "physics", reads=("mask",))
    assert "iou" in error.value.fix
    assert "stranger" not in error.value.fix
