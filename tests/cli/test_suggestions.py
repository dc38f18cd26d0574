"""One rule for suggestions: few edits away, or another tool's word for it; else the panels of the options are named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

import pytest
from typer.testing import Result

Cli = Callable[..., Result]


def test_the_edit_distance_agrees_with_its_definition() -> None:
    from motionkit.errors import edits

    @cache
    def slow(a: str, b: str) -> int:  # the recursion of the definition (optimal string alignment)
        if not a or not b:
            return len(a) + len(b)
        found = [slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0])]
        if a[:2] == b[1::-1] and len(a) > 1 and len(b) > 1:
            found.append(slow(a[2:], b[2:]) + 1)
        return min(found)

    words = ["", "a", "ab", "ba", "loop", "help", "clips", "reward", "rewrad", "trim", "mirror", "learning-rate"]
    for first in words:
        for second in words:
            assert edits(first, second) == slow(first, second), (first, second)


@pytest.mark.parametrize(
    ("word", "names", "found"),
    [
        ("--loop", ["--clips", "--help", "--up"], []),
        ("--trim", ["--to", "--mirror"], []),
        ("--start", ["--set", "--to"], []),
        ("lr", ["lora.r", "optim.final"], []),
        ("optim.lr", ["optim.final", "lora.r", "optim.learning_rate"], ["optim.learning_rate"]),
        ("--batch", ["--match", "--batch-size"], ["--batch-size"]),
        ("--Num_Steps", ["--num-steps"], ["--num-steps"]),
        ("alhpa", ["reward.alpha", "lora.alpha"], ["reward.alpha"]),
        ("reward.alhpa", ["lora.alpha", "reward.alpha"], ["reward.alpha"]),
        ("shln.l", ["thigh.l", "shin.l"], ["shin.l"]),
        ("steps", ["inference_timesteps"], ["inference_timesteps"]),
        ("", ["a"], []),
    ],
)
def test_only_near_names_and_synonyms_are_suggested(word: str, names: list[str], found: list[str]) -> None:
    from motionkit.config import other_words
    from motionkit.errors import nearest

    assert nearest(word, names, synonyms=other_words()) == found


def test_synonyms_are_those_of_the_caller() -> None:
    from motionkit.errors import nearest

    assert nearest("lr", ["optim.learning_rate"]) == []
    assert nearest("cat", ["animal", "dog"], synonyms={"cat": ("animal",)}) == ["animal"]


def test_an_option_that_nothing_is_like_is_answered_with_the_panels(cli: Cli) -> None:
    said = cli("convert", "a", "b", "--frobnicate").stderr
    assert "did you mean" not in said
    assert "options of convert: motionkit convert --help, panels Reading, " in said
    assert "Writing" in said
    trim = cli("convert", "a", "b", "--trim").stderr
    assert "did you mean" not in trim
    assert "--start S --end S cuts a clip" in trim
    group = cli("grpo", "--reward.xxxxx", 1).stderr
    assert "panel Reward tmr-dense" in group.replace("panels", "panel")
    assert "Sampler" not in group
    assert cli("runs", "list", "--foo").stderr.endswith("options of runs list: motionkit runs list --help\n")


def test_short_words_of_other_tools_are_known_everywhere(cli: Cli) -> None:
    assert "did you mean optim.learning_rate?" in cli("grpo", "--set", "optim.lr=3").stderr
    assert "did you mean optim.learning_rate?" in cli("config", "explain", "grpo", "lr").stderr
    assert "did you mean objective.kl_coef?" in cli("config", "explain", "grpo", "kl_penalty").stderr
    assert "motionkit config show grpo lists them" in cli("config", "explain", "grpo", "loop").stderr
    assert "motionkit view FILE" in cli("play", "walk.glb").stderr


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (["grpo", "--reward", "tmr-dens"], {"tmr-dense", "physics"}),
        (["grpoo"], {"grpo", "convert"}),
        (["convert", "a", "b", "--up", "w"], {"auto", "y", "-x"}),
        (["convert", "a", "b", "--frobnicate"], {"--up", "--units"}),
        (["config", "explain", "grpo", "loop"], {"optim.learning_rate"}),
        (["plugins", "list", "reward"], {"rewards", "policies"}),
    ],
)
def test_errors_list_their_choices(cli: Cli, arguments: list[str], choices: set[str]) -> None:
    error = json.loads(cli(*arguments, "--json").stdout)["error"]
    assert choices <= set(error["choices"])


def test_the_first_screen(cli: Cli) -> None:
    alone = cli()
    assert alone.exit_code == 2
    assert "error: motionkit: no command was given.\n  fix  name one of the commands above" in alone.stderr
    shown = cli("--help").output
    assert "bool" not in shown
    assert "tune-bayes " not in shown.replace("tune-bayes)", "")
    assert cli("tune-bayes", "--help").exit_code == 0


def test_a_name_of_another_kind_is_named(cli: Cli) -> None:
    said = cli("grpo", "--policy", "physics").stderr
    assert "'physics' is a reward, not a policy." in said
    assert re.search("available: .*mdm, ", said)
