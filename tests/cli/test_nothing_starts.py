"""Nothing is started or imported because a settings file or a run says so.

Every setting that takes text, of every command and plugin, names in turn one word that leaves a mark in three ways: as
a program on the path, as a Python file, and as a module. It counts where it is typed, so the mark can be left.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from pydantic import BaseModel
from typer.testing import Result

from motionkit import plugins
from motionkit.config import Group, Settings, choose_from_file, leaves, slots_of
from motionkit.errors import MotionkitError
from motionkit.plugins import Component, packages

from ..made.idle import Idle
from .test_code_everywhere import commands

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "motionkit", *(ROOT / "plugins" / name / "src" for name in sorted(packages.names() - {"motionkit"}))]
EVIL, MARK = "evil.py:component", Path("ran")

FOUND = {label: one for label, one in commands().items() if label != "tune"}  # `tune --bayes` is tune-bayes
INPUTS = {"convert": ["in", "out"], "view": ["in", "--out", "page.html"], "profile": ["in"],
          "generate": ["a person walks", "out.fbx"]}  # fmt: skip
"""Arguments of the commands that start programs, so that they come to it; the others have the least that they need."""

BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("gymnasium", "kwargs"): {"id": "Importer-v0"},
    ("gymnasium", "id"): {},
}
"""Options beside the one that is tried, without which it does nothing."""


@pytest.fixture
def evil(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program, a Python file and a module in the current folder that leave a mark; and motions."""
    program = Path(EVIL)
    program.write_text(f"#!/bin/sh\ntouch '{MARK.absolute()}'\necho 'Blender 4.2.0'\n")
    program.chmod(0o755)
    Path("evil.py").write_text(f"from pathlib import Path\nPath({str(MARK.absolute())!r}).touch()\ncomponent = 3\n")
    monkeypatch.setenv("PATH", str(Path.cwd()), prepend=":")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("in").mkdir()
    Path("in/a.fbx").write_bytes(b"Kaydara FBX Binary  \0\x1a\0")
    gymnasium.register("Importer-v0", entry_point=_imports)
    yield
    gymnasium.registry.pop("Importer-v0", None)


def _imports(module: str = "", **_: Any) -> Any:
    """Import what an argument names, as environments of others do."""
    __import__(module.partition(":")[0].removesuffix(".py"))
    raise gymnasium.error.UnregisteredEnv("it is no environment")


def started() -> bool:
    """Return whether the mark was left, and take it away with what was imported."""
    ran = MARK.exists()
    MARK.unlink(missing_ok=True)
    sys.modules.pop("evil", None)
    plugins._lookup._module_of.cache_clear()
    blenders = sys.modules.get("motionkit_fbx.blender")
    if blenders is not None:
        blenders._asked.cache_clear()  # type: ignore[attr-defined]
    return ran


def takes_text(model: type[BaseModel]) -> list[tuple[str, Any]]:
    """Return the settings that take any text, each with a value that names what leaves a mark."""
    found = []
    for leaf in leaves(model):
        kind = str(leaf.field.annotation)
        if leaf.path[0] in slots_of(model) or leaf.choices or not any(word in kind for word in ("str", "Path", "Any")):
            continue
        value = {"module": EVIL} if "dict" in kind else [EVIL] if leaf.is_many else EVIL
        found.append((leaf.key, value))
    return found


def table_of(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def ways(table: dict[str, Any], command: str, *, resumes: bool) -> Iterator[list[str]]:
    """Write a settings file and somebody's run with it; yield the words that name one, the other, and resume."""
    Path("a.json").write_text(json.dumps(table))
    run = Path("theirs")
    run.mkdir(exist_ok=True)
    (run / "config.json").write_text(json.dumps(table))
    record = {"schema": 1, "kind": "motionkit-run", "id": "0", "command": command, "created": "", "attempts": []}
    (run / "run.json").write_text(json.dumps({**record, "status": "interrupted", "artifacts": []}))
    yield ["--config", "a.json"]
    yield ["--config", "theirs"]
    if resumes:
        yield ["--resume", "theirs"]


@pytest.mark.parametrize("label", FOUND)
def test_no_setting_of_a_command_starts_anything(
    label: str, evil: None, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, words = FOUND[label]
    real = Component.build
    monkeypatch.setattr(
        Component, "build", lambda self, *a, **k: real(self, *a, **k) if "environments" in self.factory else Idle()
    )
    fields = takes_text(model)
    trains = label not in INPUTS and any(key == "run.resume" for key, _ in fields)
    wrong = []
    for key, value in fields:
        for way in ways(table_of(key, value), label, resumes=trains):
            # Searches and evaluations go on for long after they have read their settings.
            short = [] if label in INPUTS else ["--dry-run"]
            cli(*label.split(), *INPUTS.get(label, words), *way, *short)
            if started():
                wrong.append((key, way[0]))
    assert wrong == []


OPTIONS = [
    (kind, entry.name)
    for kind in plugins.KINDS
    if kind not in ("trainers", "protocols")  # whose options are the settings of a command
    for entry in plugins.available(kind)
    if entry.builtin and takes_text(plugins.get(kind, entry.name).options)
]


@pytest.mark.parametrize(("kind", "name"), OPTIONS)
def test_no_option_of_a_plugin_starts_anything(kind: str, name: str, evil: None, cli: Cli) -> None:
    component = plugins.get(kind, name)
    required = {key: "x" for key, field in component.options.model_fields.items() if field.is_required()}
    runtime = dict.fromkeys(plugins.KINDS[kind].runtime)
    runtime |= {"num_envs": 1} if "num_envs" in runtime else {"device": "cpu"} if "device" in runtime else {}
    wrong = []
    for key, value in takes_text(component.options):
        table = {"name": name, **required, **BESIDE.get((name, key), {}), **table_of(key, value)}
        with suppress(MotionkitError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen = choose_from_file(kind, table)
            assert chosen is not None
            with suppress(Exception):  # it is built without what it needs, and may fail in any way
                chosen.build(**runtime)
        if started():
            wrong.append((key, "choose_from_file"))
        for label, slot, many in hosts(kind):
            options = {part: inside for part, inside in table.items() if part != "name"}
            given = {slot: {name: options} if many else table}
            for way in ways(given, label, resumes=True):
                cli(*label.split(), *way, "--num-steps", "1", *([] if kind == "environments" else ["--dry-run"]))
                if started():
                    wrong.append((key, f"{label} {way[0]}"))
    assert wrong == []


def hosts(kind: str) -> Iterator[tuple[str, str, bool]]:
    """Yield a trainer with a slot for plugins of a kind: its command, the slot, whether it holds several."""
    known = {"environments": ("ppo", "reward-collect"), "policies": ("grpo",), "rewards": ("grpo",), "loops": ()}
    for label in known.get(kind, ("grpo",)):
        for name, slot in slots_of(FOUND[label][0]).items():
            if slot.kind == kind and not slot.spread:
                yield label, name, slot.many
                break


TYPED = (
    "convert in out --to bvh --blender {}", "convert in out --to bvh --set read.blender={}", "view in --blender {}",
    "profile in --blender {}", "generate walk out.fbx --blender {}", "grpo --reward {} --dry-run",
    "ppo --env gymnasium --env.id {} --reward env --num-steps 1",
    'ppo --env gymnasium --env.id Importer-v0 --env.kwargs {{"module":"{}"}} --reward env --num-steps 1',
    "tune-bayes --trainer {} --dry-run", "plugins show reward {}",
)  # fmt: skip


@pytest.mark.parametrize("line", TYPED)
def test_what_is_typed_counts(line: str, evil: None, cli: Cli) -> None:
    done = cli(*line.format(EVIL).split())
    assert started(), done.stderr


@pytest.mark.parametrize("name", ["MOTIONKIT_READ__BLENDER", "MOTIONKIT_BLENDER"])
def test_a_variable_counts_as_typed(name: str, evil: None, cli: Cli) -> None:
    done = cli("convert", "in", "out", "--to", "bvh", env={name: EVIL})
    assert started(), done.stderr


@pytest.mark.parametrize("label", ["convert", "view", "profile", "generate"])
def test_the_program_of_a_file_is_refused_with_the_words_to_type(label: str, evil: None, cli: Cli) -> None:
    group = "files" if label == "generate" else "read"
    for way in ways({group: {"blender": EVIL}}, label, resumes=False):
        done = cli(label, *INPUTS[label], *way, "--json")
        assert done.exit_code == 2
        said = json.loads(done.stdout)["error"]
        assert f"{group}.blender" in said["message"] + said["why"]
        words = " ".join(str(part) for part in said.values())
        assert "counts only where it is typed: it is a program that is started" in words
        assert f"if you trust it, add to the command: --blender {EVIL}" in words
        typed = cli(label, *INPUTS[label], *way, "--blender", EVIL)
        assert started(), typed.stderr


def test_arguments_of_an_environment_hold_no_text_of_a_file() -> None:
    for kwargs in ({}, {"size": 3, "fast": True, "limits": [0.5, None]}, {"name": ""}):
        assert choose_from_file("environments", {"name": "gymnasium", "id": "X-v0", "kwargs": kwargs}) is not None
    for kwargs in ({"env_id": EVIL}, {"config": {"vehicles": ["os.system"]}}):
        with pytest.raises(MotionkitError, match="kwargs, which counts only where it is typed") as refused:
            choose_from_file("environments", {"name": "gymnasium", "id": "X-v0", "kwargs": kwargs})
        assert json.dumps(kwargs) in str(refused.value.fix)


def test_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """Python starts a process by ``-c``, which looks for modules in the current folder first."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (there / "multiprocessing.py").write_text("open('ran', 'w')\n")
    (here / "motionkit").write_text(
        "import multiprocessing, sys\nfrom motionkit.cli import main\n"
        "if __name__ == '__main__':\n"
        "    sys.argv[1:] = ['--version']\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    child = multiprocessing.get_context('spawn').Process(target=print, args=('child',))\n"
        "    child.start()\n    child.join()\n    sys.exit(child.exitcode)\n"
    )
    path = os.pathsep.join(part for part in sys.path if part)
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [sys.executable, str(here / "motionkit")], cwd=there, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not (there / "ran").exists()


# Groups and plugins of others


class Tool(Group):
    """A group that names a program."""

    program: str = ""

    def code(self) -> dict[str, str]:
        """The program is started."""
        return {"program": "it is started."} if self.program else {}


class Nest(Group):
    """A group of groups, alone and several."""

    tool: Tool = Tool()
    tools: tuple[Tool, ...] = ()


class Whole(Settings):
    """Settings of a command of others."""

    nest: Nest = Nest()
    tool: Tool = Tool()
    other: str = ""

    def code(self) -> dict[str, str]:
        """Settings may name an option of their own."""
        return {"other": "it is imported."} if self.other else {}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("tool.program", "x", "--set tool.program=x"),
        ("nest.tool.program", "x y", "--set 'nest.tool.program=x y'"),
        ("nest.tools", [{"program": "x"}], "--set nest.tools.0.program=x"),
        ("other", "x", "--set other=x"),
    ],
)
def test_every_group_is_asked(key: str, value: Any, words: str, tmp_path: Path) -> None:
    from motionkit.config import resolve

    file = tmp_path / "a.json"
    file.write_text(json.dumps(table_of(key, value)))
    with pytest.raises(MotionkitError) as refused:
        resolve(Whole, files=(file,))
    assert "counts only where it is typed" in str(refused.value)
    assert f"add to the command: {words}" in str(refused.value)
    typed = (f"{key}={json.dumps(value) if isinstance(value, list) else value}",)
    assert resolve(Whole, files=(file,), sets=typed).settings is not None
    assert Whole(tool=Tool(program="x")).tool.program == "x"  # from Python


# Every place of the package

ANYWHERE = {
    "Popen", "ProcessPoolExecutor", "get_context", "create_subprocess_exec", "create_subprocess_shell", "import_module",
    "exec_module", "spec_from_file_location", "spec_from_loader", "run_module", "run_path", "startfile", "CDLL",
    "LoadLibrary", "load_library", "load_inline", "get_class_from_dynamic_module", "from_pretrained", "get_storage",
    "create_engine", "RDBStorage", "fork", "forkpty",
}  # fmt: skip
"""Names of calls that start or import something, whatever they are called on."""

PLAIN = {"__import__", "exec", "eval", "compile"}
"""Builtins; methods of these names are others."""

DOTTED = (
    "subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "os.posix_spawn", "webbrowser.", "gymnasium.make",
    "ray.init", "ray.remote", "torch.load", "torch.hub.", "torch.jit.load", "spacy.load", "pickle.load", "pickle.loads",
    "pty.spawn", "context.Process", "multiprocessing.Process", "runpy.", "ctypes.cdll",
    "transformers.AutoModelForCausalLM.from_config",
)  # fmt: skip

OURS = "a module of motionkit, by a name in its code"
ENTRY = "the entry point or the factory of an installed package, or of a Python file that was typed"
SELF = "this Python with motionkit's own module"
FFMPEG = "the ffmpeg of the package imageio-ffmpeg; its arguments are ours, and paths are absolute"
FIXED = "an installed package, by a name in the code"
DATA = "classes of transformers, without code of the folder"
PLACES = {
    "__init__.py __getattr__ import_module": OURS,
    "cli/_app.py load_register import_module": OURS,
    "cli/_help.py import_rich_utils import_module": FIXED,
    "cli/output.py open_address webbrowser.open": "the address of a page that motionkit wrote or serves",
    "clips/walk.py in_processes ProcessPoolExecutor": SELF,
    "clips/walk.py in_processes get_context": SELF,
    "fbx/blender.py _run Popen": "the Blender of --blender, which `Group.code` guards, or of the variable",
    "fbx/blender.py _said subprocess.run": "the same, asked for its version",
    "kernels/selftest.py fresh_process subprocess.run": SELF,
    "motion/corpus/tagger.py _spacy spacy.load": FIXED,
    "player/video/_film.py _encode Popen": FFMPEG,
    "player/video/_film.py _encoders subprocess.run": FFMPEG,
    "plugins/_component.py attribute_of import_module": ENTRY,
    "plugins/_discovery.py _rows_of import_module": ENTRY,
    "plugins/_lookup.py load import_module": ENTRY,
    "plugins/_lookup.py _module_of exec_module": "a Python file whose name was typed; see `plugins.code_error`",
    "plugins/_lookup.py _module_of spec_from_file_location": "the same",
    "plugins/_lookup.py _of_function.factory import_module": OURS,
    "plugins/check.py _contract import_module": OURS,
    "regions/sa2va/open.py _tokenizer from_pretrained": "code of the folder runs with --trust-remote-code alone",
    "regions/sa2va/parts.py Composite.__init__ transformers.AutoModelForCausalLM.from_config": DATA,
    "regions/sa2va/parts.py _imports import_module": FIXED,
    "regions/sa2va/parts.py _network from_pretrained": "as the tokenizer",
    "regions/sa2va/parts.py _network get_class_from_dynamic_module": "as the tokenizer",
    "success/environments/process_workers.py ProcessWorker.__init__ context.Process": SELF,
    "success/environments/process_workers.py ProcessWorker.__init__ get_context": SELF,
    "success/environments/ray_workers.py _connect ray.init": "the Ray of this machine, or of Ray's own variable",
    "success/environments/ray_workers.py start_ray ray.remote": SELF,
    "success/environments/registered.py _make gymnasium.make": "`Group.code` guards modules in the id and texts beside",
    "success/environments/simulators.py Fetch.__init__ import_module": FIXED,
    "success/environments/simulators.py Maniskill.__init__ import_module": FIXED,
    "success/environments/simulators.py Maniskill._make gymnasium.make": "the id has a pattern without a colon",
    "success/environments/simulators.py _make gymnasium.make": "the id has a pattern without a colon",
    "lerobot/film.py FilmReader.__init__ Popen": FFMPEG,
    "lerobot/film.py FilmReader._check subprocess.run": FFMPEG,
    "lerobot/film.py write_film Popen": FFMPEG,
    "testing/_component.py _imports_of subprocess.run": "this Python, on a plugin that its author checks",
    "text/_load.py _read_config from_pretrained": DATA,
    "text/_load.py open_model from_pretrained": DATA,
    "tracking/_trackers.py _accelerate_factory.make import_module": FIXED,
    "tracking/_trackers.py _clearml_without_a_fork import_module": FIXED,
    "tracking/_trackers.py _show_tensorboard import_module": FIXED,
    "tracking/_trackers.py _show_wandb import_module": FIXED,
    "tuning/processes.py run_processes Popen": SELF,
    "tuning/storage.py open_storage RDBStorage": "SQLAlchemy imports its dialects, and drivers by their names",
    "tuning/storage.py open_storage get_storage": "the same",
}
"""What is started or imported: file, function and call, and why no file chooses it."""

TWICE = {"cli/_help.py import_rich_utils import_module", "success/environments/ray_workers.py _connect ray.init",
         "success/environments/simulators.py Maniskill.__init__ import_module",
         "text/_load.py open_model from_pretrained"}  # fmt: skip


class Calls(ast.NodeVisitor):
    """Collects the calls of one file that start or import something."""

    def __init__(self, file: str) -> None:
        self._file, self._inside = file, list[str]()
        self.found = Counter[str]()

    def _named(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _named  # noqa: N815 - names of `ast`

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
        last = called.rpartition(".")[2]
        if last in ANYWHERE or called in PLAIN or (called.startswith(DOTTED) and "(" not in called):
            self.found[f"{self._file} {'.'.join(self._inside)} {last if last in ANYWHERE else called}"] += 1
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module in ("subprocess", "os", "pickle", "runpy", "webbrowser", "torch.hub"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            self.found.update(f"{self._file} from {name}" for name in names if name.startswith(DOTTED))


def test_every_place_that_starts_or_imports_something_is_known() -> None:
    found = Counter[str]()
    for folder, path in [(source, path) for source in SOURCES for path in source.rglob("*.py")]:
        calls = Calls(path.relative_to(folder).as_posix().removeprefix("motionkit_"))
        calls.visit(ast.parse(path.read_text()))
        found += calls.found
    assert sorted(found.keys() - PLACES.keys()) == [], "say in PLACES why no file chooses what is started here"
    assert sorted(PLACES.keys() - found.keys()) == [], "these are gone"
    assert {place for place, number in found.items() if number > 1} == TWICE


def test_the_list_would_notice_a_new_place() -> None:
    source = "import os\nfrom subprocess import run\ndef f(x):\n    os.system(x)\n    __import__(x)\n    p.Popen(x)\n"
    calls = Calls("new.py")
    calls.visit(ast.parse(source))
    assert set(calls.found) == {
        "new.py from subprocess.run", "new.py f os.system", "new.py f __import__", "new.py f Popen"
    }  # fmt: skip
