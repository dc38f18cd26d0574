"""The root command: options that work anywhere, unknown commands, the table of the guides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit.cli._app import hoist
from motionkit.cli._guide import GuideOption, guide_options, row_of
from motionkit.cli.commands.config import _model as settings_of
from motionkit.cli.commands.config import explain

Cli = Callable[..., Result]


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"motionkit \d+\.\d+\.\d+\S*\n", cli("--version").stdout)


def test_unknown_command_is_answered_with_the_nearest(cli: Cli) -> None:
    done = cli("grpoo")
    assert done.exit_code == 2
    assert "did you mean grpo?" in done.stderr
    assert json.loads(cli("grpoo", "--json").stdout)["error"]["code"] == 2


def test_options_that_work_anywhere_are_hoisted() -> None:
    assert hoist(["grpo", "--seed", "1", "-q", "--color", "never", "--traceback"]) == [
        "-q", "--color", "never", "--traceback", "grpo", "--seed", "1",
    ]  # fmt: skip
    assert hoist(["generate", "--", "-q"]) == ["generate", "--", "-q"]


def test_quiet_hides_talk_and_keeps_warnings(cli: Cli, trainer: ModuleType) -> None:
    loud = cli("count", "--num-steps", 1, env={"MOTIONKIT_SEEED": "1"}).stderr
    quiet = cli("-q", "count", "--num-steps", 1, env={"MOTIONKIT_SEEED": "1"}).stderr
    assert "done: " in loud
    assert "done: " not in quiet
    for text in (loud, quiet):
        assert "warning: MOTIONKIT_SEEED is not a setting of this command" in text
        assert "did you mean MOTIONKIT_SEED?" in text


def test_every_old_flag_has_an_answer_and_appears_once() -> None:
    pairs = [(row.command, name) for row in guide_options() for name in row.guide]
    assert len(pairs) == len(set(pairs))
    assert len(pairs) >= 54
    for _, name in pairs:
        # A flag, a key of the predictor's settings file, or a dotted one of the reward model's.
        assert re.fullmatch(r"(--)?[a-z_]+|[a-z_0-9]+(\.[a-z_0-9]+)+", name)
        if not name.startswith("--"):
            continue
        row = row_of(name, "")
        assert row is not None
        assert row_of(name.replace("_", "-"), "") == row_of(f"{name}=3", "") == row
    assert row_of("--nonesuch", "") is None


@pytest.mark.parametrize("row", guide_options(), ids=lambda row: f"{row.command} {row.guide[0]}")
def test_keys_of_the_guides_are_settings(row: GuideOption) -> None:
    if not row.key:
        return
    model: Any = settings_of(row.command.split())
    for key in row.key.split(", "):
        assert explain(model, key)["key"] == key


def test_operating_system_errors_name_the_path(cli: Cli, tmp_path: Path) -> None:
    done = cli("runs", "show", tmp_path / "nothing")
    assert done.exit_code == 2
    assert "nothing is not a motionkit run" in done.stderr


def test_a_trainer_cannot_take_the_name_of_a_command(cli: Cli, site: Any, trainer: ModuleType) -> None:
    entries = "[motionkit.trainers]\nruns = sample_trainer:component\npretrain = sample_trainer:component\n"
    site.install("greedy", entries)
    done = cli("runs", "list")
    assert done.exit_code == 0
    assert "trainer 'runs' of package 'greedy' is ignored: motionkit has that command" in done.stderr
    assert "trainer 'pretrain' of package 'greedy' is ignored: motionkit has that command" in done.stderr
