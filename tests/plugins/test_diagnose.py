"""The second reading of the metadata, and what `plugins` and `doctor` say about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

from motionkit.plugins import scan
from motionkit.plugins.check import diagnose, second_reading

Cli = Callable[..., Result]


def test_both_readers_agree(sample: ModuleType) -> None:
    second, malformed = second_reading()
    assert malformed == []
    assert second == {(entry.kind, entry.name, entry.value) for entry in scan().entries}


def test_malformed_metadata_is_named_by_file_and_line(site: Any, sample: ModuleType) -> None:
    site.install("broken-plugins", "[motionkit.rewards]\nfine = sample_plugins:near\nno entry at all\n")
    site.install("twice", "[console_scripts]\na = b:c\na = b:d\n")
    findings = {finding.package: finding for finding in diagnose({})}
    assert "entry_points.txt, line 3" in findings["broken-plugins"].text
    assert findings["broken-plugins"].serious
    assert "line 3" in findings["twice"].text
    assert not findings["twice"].serious


def test_check_fails_with_one_and_names_every_problem(cli: Cli, site: Any, sample: ModuleType) -> None:
    assert cli("plugins", "list", "rewards").exit_code == 0
    site.install("broken-plugins", "[motionkit.rewards]\nno entry at all\n")
    site.install("bad-import", "[motionkit.rewards]\nbad = bad_import:component\n", bad_import="1 / 0\n")
    listed = cli("plugins", "list")
    assert listed.exit_code == 0
    assert listed.stderr.count("broken-plugins") >= 1
    assert "near" in listed.stdout
    checked = cli("plugins", "list", "rewards", "--check")
    assert checked.exit_code == 1
    assert "broken-plugins" in checked.stderr
    assert "ZeroDivisionError" in checked.stderr
    assert cli("doctor").exit_code == 1


def test_show(cli: Cli, sample: ModuleType) -> None:
    done = cli("plugins", "show", "rewards", "far", "--json")
    document = json.loads(done.stdout)
    assert document["package"] == "sample-plugins 1.0"
    assert [option["option"] for option in document["options"]] == ["alpha", "reach", "causal"]
    assert "reach" in cli("plugins", "show", "rewards", "far").stdout
    assert cli("plugins", "show", "rewards", "fra").exit_code == 2


def test_doctor_fits_into_a_report(cli: Cli, sample: ModuleType) -> None:
    document = json.loads(cli("doctor", "--json", env={"MOTIONKIT_SEDE": "1"}).stdout)
    checks = {check["name"]: check for check in document["checks"]}
    assert {"motionkit", "python", "torch", "plugins", "runs folder"} <= set(checks)
    assert "did you mean MOTIONKIT_SEED?" in checks["variable"]["text"]


def test_config_commands(cli: Cli) -> None:
    shown = json.loads(cli("config", "show", "grpo", "--set", "seed=3", "--json").stdout)
    assert shown["settings"]["seed"] == 3
    assert shown["origins"]["seed"] == "command line"
    told = json.loads(cli("config", "explain", "grpo", "run.num_steps", "--json").stdout)
    assert (told["flag"], told["variable"]) == ("--num-steps", "MOTIONKIT_RUN__NUM_STEPS")
    wrong = cli("config", "explain", "grpo", "run.num_stepz")
    assert wrong.exit_code == 2
    assert "did you mean run.num_steps?" in wrong.stderr
    assert cli("config", "explain", "grpo").exit_code == 2


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("optim.learning_rate", "optim.learning_rate"),
        ("optim.learning-rate", "optim.learning_rate"),
        ("learning-rate", "optim.learning_rate"),
        ("--learning-rate", "optim.learning_rate"),
        ("learning_rate", "optim.learning_rate"),
        ("--no-lora", "lora.enabled"),
        ("--batch-size", "rollout.prompts"),
        ("reward.alpha", "reward.tmr-dense.alpha"),
        ("--reward.alpha", "reward.tmr-dense.alpha"),
        ("reward.lambda-skate", "reward.physics.lambda_skate"),
        ("lora.alpha", "lora.alpha"),
        ("policy.text-model", "policy.text_model"),
        ("reward", "reward"),
    ],
)
def test_explain_knows_keys_flags_and_short_names(word: str, key: str, cli: Cli) -> None:
    done = cli("config", "explain", "--json", "--", "grpo", word)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["key"] == key


def test_explain_asks_which_where_a_short_name_is_several(cli: Cli) -> None:
    done = cli("config", "explain", "grpo", "alpha")
    assert done.exit_code == 2
    assert "'alpha' may be lora.alpha, reward.tmr-dense.alpha, reward.mdm-dense.alpha or judge.alpha." in done.stderr
    same = json.loads(cli("config", "explain", "grpo", "reward.weights", "--json").stdout)
    assert same["key"] == "reward.tmr-dense.weights"
    assert {"reward.tmr-matching.weights", "reward.mdm-dense.weights"} <= set(same["also"].split(", "))


def test_suggestions_stay_in_their_group(cli: Cli) -> None:
    done = cli("grpo", "--reward", "tmr-matching", "--reward.alpha", 0)
    assert "why  alpha belongs to mdm-dense and tmr-dense.\n  fix  --reward mdm-dense or tmr-dense\n" in done.stderr
    done = cli("grpo", "--reward", "tmr-matching", "--set", "reward.alpha=0")
    assert "it belongs to mdm-dense and tmr-dense: --reward mdm-dense or tmr-dense" in done.stderr
    assert "did you mean --reward.alpha? " in cli("grpo", "--reward.alhpa", 0).stderr
    assert "--lora" not in cli("grpo", "--reward.alpja", 0).stderr
    warned = cli("config", "show", "grpo", env={"MOTIONKIT_LERNING": "1", "MOTIONKIT_SEDE": "1"}).stderr
    assert "did you mean MOTIONKIT_SEED?" in warned
    assert "MOTIONKIT_RUN" not in warned


def test_a_package_that_a_plugin_would_need_is_no_warning(cli: Callable[..., Result]) -> None:
    states = {line.split()[0] for line in cli("doctor").stdout.splitlines() if "which is not installed" in line}
    assert states <= {"info"}
