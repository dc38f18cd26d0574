"""What reaches a terminal, a program or a stream that is closed, and what cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import Result

from motionkit.cli import output, progress
from motionkit.cli._errors import report
from motionkit.errors import MotionkitError

from ..made.bvh_files import write_bvh
from ..made.commands import assert_refused

Cli = Callable[..., Result]
HOSTILE = "a\x1b]0;owned\x07\x9b2J\x7f[/b]"
SHOWN = "a\\x1b]0;owned\\x07\\x9b2J\\x7f[/b]"


def test_control_characters_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.set_up(level=20, colour="auto")
    output.say(f"{HOSTILE}\n\tnext line")
    report(MotionkitError(HOSTILE, why=HOSTILE, fix=HOSTILE), json_wanted=False, traceback_wanted=False)
    output.table(HOSTILE, ("name", "number"), [(HOSTILE, 3)])
    found = capsys.readouterr()
    assert found.err.startswith(f"{SHOWN}\n\tnext line\n")
    assert found.err.count(SHOWN) == 4
    assert found.out.count(SHOWN) == 2
    assert not {"\x1b", "\x07", "\x9b", "\x7f"} & set(found.out + found.err)


def test_a_folder_whose_name_looks_like_markup(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 60)
    Path("mk[").mkdir()
    result = cli("convert", "a.bvh", "mk[/b]", "--to", "npz")
    assert result.exit_code == 0, result.stderr
    assert "wrote mk[/b]" in result.stdout


def test_names_that_are_not_utf8_can_be_printed(cli: Cli) -> None:
    name = os.fsdecode(b"caf\xe9.bvh")
    write_bvh(Path(name), 60)
    for arguments in (["convert", ".", "../out", "--to", "npz"], ["convert", "--check", "."]):
        plain, document = (
            cli(*arguments),
            cli(*arguments, "--json", *(["--overwrite"] if "../out" in arguments else [])),
        )
        assert plain.exit_code == 0, plain.stderr
        assert document.exit_code == 0, document.stderr
        assert os.fsencode(json.loads(document.stdout)["clips"][0]["origin"]).endswith(b"caf\xe9.bvh")


@pytest.mark.parametrize("code", [1, 2])
def test_a_command_with_a_result_and_an_error_ends_in_one_document(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error = MotionkitError("no", why="so", fix="do", code=code)
    with pytest.raises(typer.Exit) as ended:
        output.finish({"clips": 3, "command": "check"}, error, json=True)
    assert ended.value.exit_code == code
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1, "command": "check", "status": "failed", "clips": 3,
        "error": {"code": code, "message": "no", "why": "so", "fix": "do"},
    }  # fmt: skip
    with pytest.raises(MotionkitError, match="no"):
        output.finish({"command": "check"}, error, json=False)
    output.finish({"command": "check"}, None, json=False)
    assert capsys.readouterr().out == ""
    output.finish({"command": "check"}, None, json=True)
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "command": "check", "status": "done"}


LINES = f"{sys.executable} -m motionkit config show pretrain mdm"
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@FULL
@pytest.mark.parametrize(
    ("where", "said"), [("--json >/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_result_that_cannot_be_written_is_one_error(tmp_path: Path, where: str, said: str) -> None:
    done = shell(f"{LINES} {where}", tmp_path)
    assert done.returncode == 1
    first, second, *rest = done.stderr.splitlines()
    assert first == f"error: the result cannot be written to standard output: {said}."
    assert (second.split()[0], rest) == ("fix", [])


@FULL
def test_talk_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    for where in ("2>/dev/full", "<&- 2>&-"):
        line = f"{sys.executable} -m motionkit plugins new motionkit-reward-a{len(where)}"
        done = shell(f"{line} --json {where}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(json.loads(done.stdout)["files"]) == 5
    done = shell(f"{sys.executable} -m motionkit nonsense <&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    done = shell(f"{LINES} --json | true", tmp_path)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stop())
sys.argv = ["motionkit", "{command}", "list"]
from motionkit.cli import main
import atexit
atexit.register(lambda: __import__("{module}") if "{module}" == "nonesuch" else None)
main()
"""


@pytest.mark.parametrize("module", ["typer", "nonesuch"])
def test_ctrl_c_before_and_after_a_command_is_quiet(tmp_path: Path, module: str) -> None:
    source = EARLY.format(module=module, command="plugins")
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert ("physics" in done.stdout) == (module == "nonesuch")


LONG = "n" * 300
COMPOSE = ("compose", "--dataset.clips", 144, "--dataset.val-clips", 48, "--dataset.test-clips", 48)


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "a.bvh", LONG),
        ("convert", "a.bvh", f"{LONG}.bvh"),
        ("convert", LONG, "out"),
        ("convert", "a.bvh", "out", "--captions", LONG),
        ("profile", "a.bvh", "--html", f"{LONG}.html"),
        ("profile", "a.bvh", "--write-config", f"{LONG}.yaml"),
        (*COMPOSE, LONG),
        ("generate", "walk", LONG),
        ("generate", "walk", f"{LONG}.glb"),
        ("export", "starter", LONG),
        ("grpo", "--dry-run", "--config", LONG),
    ],
    ids=lambda words: " ".join(str(word).replace(LONG, "LONG") for word in words if not str(word).startswith("--")),
)
def test_a_name_that_is_too_long(cli: Cli, words: tuple[object, ...]) -> None:
    write_bvh(Path("a.bvh"), 60)
    assert_refused(cli(*words), "File name too long")
    assert [path.name for path in Path.cwd().iterdir()] == ["a.bvh"]


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "a.bvh", "closed"),
        ("convert", "a.bvh", "closed/out.bvh"),
        ("profile", "a.bvh", "--html", "closed/page.html"),
        ("profile", "a.bvh", "--write-config", "closed/settings.json"),
        ("profile", "a.bvh", "--write-config", "link.json"),
        (*COMPOSE, "closed"),
        (*COMPOSE, "closed/not/yet"),
        ("generate", "walk", "closed"),
    ],
    ids=lambda words: " ".join(str(word) for word in words[:1] + words[-2:]),
)
def test_a_folder_that_may_not_be_written(cli: Cli, words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The system is asked by name (tests may run as root, who may write anywhere)."""
    write_bvh(Path("a.bvh"), 60)
    Path("closed").mkdir()
    Path("closed/kept.json").write_text("{}")
    Path("link.json").symlink_to("closed/settings.json")
    monkeypatch.setattr("os.access", lambda path, mode: not (mode & os.W_OK and Path(path).name == "closed"))
    assert_refused(cli(*words), "cannot be written: no permission")
    assert [path.name for path in Path("closed").iterdir()] == ["kept.json"]


def test_a_pipe_is_not_replaced(cli: Cli) -> None:
    write_bvh(Path("a.bvh"), 60)
    os.mkfifo("page.html")
    assert_refused(cli("profile", "a.bvh", "--html", "page.html"), "page.html is not a regular file")


def test_titles_and_notes_are_no_markup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    with progress.bar("[/b] title", total=1) as step:
        step(1, note="[/b] note")
    assert "[/b] title" in capsys.readouterr().err


def test_a_command_to_copy_is_not_broken_between_lines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from motionkit.cli import output

    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("motionkit.cli.output.shutil.get_terminal_size", lambda: os.terminal_size((40, 9)))
    long = " \\\n         ".join(
        ["  fix  motionkit grpo", "--out a/path/that/does/not/fit/into/a/line", f"--seed {'1' * 30}"]
    )
    assert output.wrapped(long) == long
    assert output.wrapped("a " * 30).count("\n") > 0
