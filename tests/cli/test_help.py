"""What help shows and costs, the root command, and the list of flags that were decided on."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import Result

from motionkit import plugins
from motionkit.cli._app import command_names, hoist, load_register
from motionkit.cli.settings import options
from motionkit.cli.table import example, rows
from motionkit.config import Layer, concrete
from motionkit.plugins.packages import module_exists

from ..made.commands import assert_refused
from ..made.forks import Forks

Cli = Callable[..., Result]
HEAVY = ("torch", "numpy", "pydantic", "pydantic_settings", "peft", "transformers", "motionkit.config")


def test_root_help_imports_nothing_heavy() -> None:
    code = (
        "import gc, sys\nfrom motionkit.cli import main\nsys.argv = ['motionkit', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert gc.get_freeze_count() > 1000  # Python ends without looking for garbage\n"
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


def test_what_may_not_be_replaced_is_refused_before_torch_is_imported(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "taken").mkdir()
    for name in ("walk.glb", "taken/notes.txt"):
        (tmp_path / name).write_text("mine")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom motionkit.cli import get_app\n"
        "for words in ('convert walk.bvh walk.glb', 'generate walk walk.glb', 'generate walk taken',\n"
        "              'predict runs/x walk.glb', 'grpo --out taken', 'ppo --out taken', 'sa2va-rl --out walk.glb'):\n"
        "    done = CliRunner().invoke(get_app(), words.split(), env={'MOTIONKIT_PRESET': 'cpu'})\n"
        "    assert done.exit_code == 2, (words, done.output)\n"
        "    assert 'taken' in done.output or 'walk.glb' in done.output, (words, done.output)\n"
        "    assert 'torch' not in sys.modules, words\n"
    )
    forks.run("-c", code, folder=tmp_path)
    assert (tmp_path / "walk.glb").read_text() == (tmp_path / "taken" / "notes.txt").read_text() == "mine"


def test_motions_are_made_read_and_drawn_and_runs_planned_without_the_compiler(tmp_path: Path, forks: Forks) -> None:
    """Training does: AdamW imports torch._dynamo. Each of these takes as long to import as torch, or half as long."""
    slow = ("torch._dynamo", "sympy", "roma", "peft", "transformers", "accelerate")
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom motionkit.cli import get_app\n"
        "import motionkit.text_to_motion.grpo.train, motionkit.text_to_motion.mdm.train\n"
        "for words in ('generate --dataset starter --limit 1 motions --to bvh --to html', 'export starter model',\n"
        "              'convert motions/bvh others --to glb', 'view motions/bvh --out page.html',\n"
        "              'grpo --dry-run', 'grpo --algorithm grpo --no-lora --dry-run'):\n"
        "    done = CliRunner().invoke(get_app(), words.split())\n"
        "    assert done.exit_code == 0, done.output\n"
        f"print([name for name in {slow!r} if name in sys.modules])"
    )
    done = forks.run("-c", code, folder=tmp_path)
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
    assert not module_exists("")
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


def test_two_settings_with_one_flag_fail_at_once(sample: ModuleType) -> None:
    class Twins(sample.Sample):  # type: ignore[name-defined,misc]
        other: int = sample.Field(1)

    Twins.model_fields["other"].metadata.append(sample.Cli("--mode"))
    with pytest.raises(TypeError, match="mode and other both have the flag --mode"):
        options(Twins, concrete(Twins, []))


def test_names_of_options_are_whole_at_80_columns(cli: Cli) -> None:
    for row in [*(row.name for row in rows()), "grpo"]:
        assert "…" not in cli(row, "--help", env={"COLUMNS": "80"}).stdout, row
    shown = cli("grpo", "--dataset", "humanml", "--help", env={"COLUMNS": "80"}).stdout
    lines = [line.strip("│ ").split("  ")[0] for line in shown.splitlines()]
    for name in ("--dataset.random-crop", "--no-dataset.random-crop", "--inference-timesteps", "--policy.text-model"):
        assert any(name in line for line in lines), name


def test_paragraphs_are_wrapped_by_the_terminal_alone(cli: Cli) -> None:
    for command in ("view", "generate", "predict"):
        lines = cli(command, "--help", env={"COLUMNS": "80"}).stdout.splitlines()
        end = next(n for n, line in enumerate(lines) if line.startswith("╭"))
        text = [line.strip() for line in lines[:end]]
        for line, following in pairwise(text):
            if line and following:
                assert len(line) + 1 + len(following.split()[0]) > 78, f"{command}: {line!r} ends early"


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
    examples = {path: line for words in groups_and_commands() if (line := example(path := " ".join(words)))}
    assert len(examples) >= 22
    for path, line in examples.items():
        first, *words = shlex.split(line)
        assert first == "motionkit"
        found, done = dry(words)
        assert done.exit_code == 0, f"{line}: {done.stderr}"
        assert found.startswith(f"motionkit {path}")


def test_explain_takes_flags_and_shows_the_defaults_of_each_algorithm(cli: Cli) -> None:
    told = cli("config", "explain", "grpo", "--num-steps").stdout
    assert "default   160; 200 (awm, dpo, nft); 300 (easytune, mixed); 240 (reward-gradient)\n" in told
    for word in ("group_size", "--group-size"):
        told = cli("config", "explain", "grpo", word).stdout
        assert "for       awm, dpo, flow-grpo, grpo, mixed or nft\n" in told
        assert "default   4 (awm, dpo, mixed, nft); 8 (flow-grpo); 2 (grpo)\n" in told
    assert "for " not in cli("config", "explain", "grpo", "--seed").stdout.splitlines()[1]


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"motionkit \d+\.\d+\.\d+\S*\n", cli("--version").stdout)


def test_unknown_command_is_answered_with_the_nearest(cli: Cli) -> None:
    assert_refused(cli("grpoo"), "did you mean grpo?")
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


def test_operating_system_errors_name_the_path(cli: Cli, tmp_path: Path) -> None:
    assert_refused(cli("runs", "show", tmp_path / "nothing"), "nothing is not a motionkit run")


def test_a_trainer_cannot_take_the_name_of_a_command(cli: Cli, site: Any, trainer: ModuleType) -> None:
    entries = "[motionkit.trainers]\nruns = sample_trainer:component\npretrain = sample_trainer:component\n"
    site.install("greedy", entries)
    done = cli("runs", "list")
    assert done.exit_code == 0
    assert "trainer 'runs' of package 'greedy' is ignored: motionkit has that command" in done.stderr
    assert "trainer 'pretrain' of package 'greedy' is ignored: motionkit has that command" in done.stderr


FILE = Path(__file__).with_name("flags.json")


def current() -> dict[str, list[str]]:
    """Return the flags of every built-in command, with the plugins it chooses by default."""
    found: dict[str, list[str]] = {}
    for entry in plugins.available("trainers"):
        if entry.builtin:
            model = plugins.get("trainers", f"motionkit:{entry.name}").options
            shapes = {entry.name.replace(".", " "): concrete(model, [])}
            for each in plugins.available("algorithms") if entry.name == "grpo" else ():
                layer = Layer("command line", {"algorithm": each.name})
                shapes[f"grpo --algorithm {each.name}"] = concrete(model, [layer])
            for name, shape in shapes.items():
                shown = [option.__metadata__[0] for option in options(model, shape).values()]
                # In an annotation Typer's first argument is a name.
                visible = [(option.default, *option.param_decls) for option in shown if not option.hidden]
                found[name] = sorted(word for names in visible for word in names)
    for row in (row for row in rows() if row.builtin):
        app = typer.Typer(add_completion=False)
        load_register(row)(app)
        command = get_command(app)
        for name, each in (getattr(command, "commands", None) or {"": command}).items():
            words = [word for item in each.params if item.param_type_name == "option" for word in item.opts]
            found[f"{row.name} {name}".strip()] = sorted(set(words) - {"--help"})
    return dict(sorted(found.items()))


def test_flags_are_those_that_were_decided_on() -> None:
    decided: dict[str, list[str]] = json.loads(FILE.read_text())
    found = current()
    assert sorted(found) == sorted(decided), __doc__
    for command, names in found.items():
        assert names == decided[command], f"{command}: {__doc__}"


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1) + "\n")


def test_colour_is_one_of_three(cli: Cli) -> None:
    assert cli("doctor", "--color", "sometimes").exit_code == 2
    assert "\x1b" not in cli("plugins", "list", "--color", "never").stdout
    assert "\x1b" in cli("plugins", "list", "--color", "always", env={"NO_COLOR": ""}).stdout
