"""What help shows, and what showing it costs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.main import get_command
from typer.testing import Result

from motionkit.cli._app import command_names
from motionkit.cli._command import register_command
from motionkit.cli._help import EXAMPLES
from motionkit.cli.output import module_exists, rows
from motionkit.cli.settings import flags
from motionkit.config import Draft
from motionkit.contracts.console import Command, Console

Cli = Callable[..., Result]
HEAVY = ("torch", "numpy", "pydantic", "pydantic_settings", "peft", "transformers", "motionkit.config")


def test_root_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom motionkit.cli import main\nsys.argv = ['motionkit', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "doctor" in done.stdout


@pytest.mark.parametrize("command", [["grpo", "--help"], ["plugins", "list"], ["config", "show", "grpo"]])
def test_help_and_listings_import_no_torch(command: list[str]) -> None:
    code = (
        "import sys\nfrom motionkit.cli import main\n"
        f"sys.argv = ['motionkit', *{command!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "MOTIONKIT_PRESET": "cpu"}  # auto asks torch where there is a GPU
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)


def test_generating_and_exporting_import_no_compiler(tmp_path: Path) -> None:
    """Training does: AdamW imports torch._dynamo, and peft imports transformers, which imports it too."""
    slow = ("torch._dynamo", "sympy", "roma", "peft", "transformers", "accelerate")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom motionkit.cli import get_app\n"
        "import motionkit.text_to_motion.grpo.train, motionkit.text_to_motion.mdm.train\n"
        "for words in ('generate --dataset starter --limit 1 motions'.split(), 'export starter model'.split()):\n"
        "    done = CliRunner().invoke(get_app(), words)\n"
        "    assert done.exit_code == 0, done.output\n"
        f"print([name for name in {slow!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_every_listed_command_works_and_panels_head_them(cli: Cli) -> None:
    shown = cli("--help").stdout
    for row in rows():
        assert row.name in shown
        assert cli(row.name, "--help").exit_code == 0
    for panel in ("Train", "Look and check"):
        assert panel in shown


def test_a_row_without_its_module_is_not_listed() -> None:
    assert not module_exists("motionkit.cli.commands.nonesuch")
    assert not module_exists("nonesuch.package")
    assert module_exists("motionkit.cli.commands.doctor")
    assert all(module_exists(row.target.partition(":")[0]) for row in rows())


def test_third_party_trainer_is_listed_with_its_packages_summary_and_not_imported(
    cli: Cli, trainer: ModuleType
) -> None:
    del sys.modules["sample_trainer"]
    shown = cli("--help").stdout
    assert "The count-trainer package." in shown
    assert "sample_trainer" not in sys.modules
    assert "count" in cli("deep", "--help").stdout


def test_settings_help(cli: Cli, trainer: ModuleType) -> None:
    shown = cli("count", "--help").stdout
    assert "How it ends [of all ways]. (default: well)" in " ".join(shown.replace("│", " ").split())
    assert "[default:" not in shown  # Typer would print [default: (x)]
    assert "<bool>" not in shown
    assert "--install-completion" not in shown
    assert "--policy.checkpoint" in shown
    assert "--reward.alpha" in shown


def test_options_of_the_chosen_plugin_are_shown(cli: Cli, trainer: ModuleType) -> None:
    assert "--reward.reach" not in cli("count", "--help").stdout
    assert "--reward.reach" in cli("count", "--reward", "far", "--help").stdout
    assert "--reward.reach" in cli("count", "--help", env={"MOTIONKIT_REWARD": "far"}).stdout
    both = cli("count", "--reward", "far", "--reward", "near", "--help").stdout
    assert "--reward.far.alpha" in both
    assert "--reward.near.alpha" in both


def test_defaults_come_from_the_parents_instance(sample: ModuleType) -> None:
    found = {flag.path: flag for flag in flags(Draft(sample.Sample))}
    assert found["optim", "weight_decay"].names == ("--optim.weight-decay",)
    assert "default: 0.01" in found["optim", "weight_decay"].help  # the class itself says 0.0


def test_two_settings_with_one_flag_fail_at_once(sample: ModuleType) -> None:
    class Twins(sample.Sample):  # type: ignore[name-defined,misc]
        other: int = sample.Field(1)

    Twins.model_fields["other"].metadata.append(sample.Cli("--mode"))
    with pytest.raises(TypeError, match="mode and other both have the flag --mode"):
        flags(Draft(Twins))


def test_typer_is_given_no_variables(trainer: ModuleType) -> None:
    app = typer.Typer(add_completion=False)

    def count(settings: object, console: Console) -> dict[str, object]:
        return {}

    register_command(Command(count, trainer.CountSettings), app)
    assert all(not parameter.envvar for parameter in get_command(app).params)


def test_json_flag_is_documented_everywhere(cli: Cli, trainer: ModuleType) -> None:
    assert "--json" in cli("count", "--help").stdout
    document = json.loads(cli("plugins", "list", "--json").stdout)
    assert document["schema"] == 1


def test_names_of_options_are_whole_at_80_columns(cli: Cli) -> None:
    for row in [*(row.name for row in rows()), "grpo"]:
        assert "…" not in cli(row, "--help", env={"COLUMNS": "80"}).stdout, row
    shown = cli("grpo", "--dataset", "humanml", "--help", env={"COLUMNS": "80"}).stdout
    lines = [line.strip("│ ").split("  ")[0] for line in shown.splitlines()]
    for name in ("--dataset.random-crop", "--no-dataset.random-crop", "--inference-timesteps", "--policy.text-model"):
        assert any(name in line for line in lines), name


def groups_and_commands() -> list[list[str]]:
    """Return every command of ours as words."""
    inner = {"runs": ["list", "show", "compare"], "config": ["show", "explain"], "plugins": ["list", "show", "new"]}
    found = [name.split() for name in command_names()]
    return [*found, *([name, *more] for name, names in inner.items() for more in ([], *([each] for each in names)))]


@pytest.mark.parametrize("words", groups_and_commands(), ids=" ".join)
def test_every_help_has_one_style_and_an_example(words: list[str], cli: Cli) -> None:
    long, short = cli(*words, "--help"), cli(*words, "-h")
    assert (long.exit_code, short.exit_code) == (0, 0)
    assert long.stdout == short.stdout
    shown = long.stdout
    path = " ".join(words)
    assert shown.count("Example: motionkit ") == 1
    assert f"Example: motionkit {path}" in shown
    assert not re.search(r"<(bool|str|int|float|path|list|text)\b", shown), "types are named as settings name them"
    assert "[default: " not in shown
    assert "Show this help." in shown
    assert (f"All settings: motionkit config show {path}" in shown) == ("--dry-run" in shown)
    if "--dry-run" in shown:
        assert cli("config", "show", *words).exit_code == 0
        assert "─ Options ─" not in shown


def test_examples_of_the_help_parse(dry: Callable[[list[str]], tuple[str, Result]]) -> None:
    for path, line in EXAMPLES.items():
        first, *words = shlex.split(line)
        assert first == "motionkit"
        found, done = dry(words)
        assert done.exit_code == 0, f"{line}: {done.stderr}"
        assert found.startswith(f"motionkit {path}")


def test_words_of_help_are_not_cut_beside_long_names(cli: Cli) -> None:
    narrow, wide = (cli("grpo", "--help", env={"COLUMNS": width}).stdout for width in ("80", "240"))

    def words(shown: str) -> list[str]:
        return sorted(word for word in shown.replace("│", " ").split() if word.isalpha() and word.islower())

    assert words(narrow) == words(wide)


def test_explain_takes_flags_and_shows_the_defaults_of_each_algorithm(cli: Cli) -> None:
    told = cli("config", "explain", "grpo", "--num-steps").stdout
    assert "default   160; 200 (awm, dpo, nft); 300 (easytune, mixed); 420 (reward-gradient)\n" in told
    for word in ("group_size", "--group-size"):
        told = cli("config", "explain", "grpo", word).stdout
        assert "for       awm, dpo, flow-grpo, grpo, mixed or nft\n" in told
        assert "default   4 (awm, dpo, mixed, nft); 8 (flow-grpo); 2 (grpo)\n" in told
    assert "for " not in cli("config", "explain", "grpo", "--seed").stdout.splitlines()[1]
