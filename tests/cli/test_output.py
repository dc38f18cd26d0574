"""What reaches a terminal or a program, whatever names and errors hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import Result

from motionkit.cli import output
from motionkit.cli._errors import report
from motionkit.errors import MotionkitError

from ..made.bvh_files import write_bvh

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
