"""run.json is validated once; a run that is damaged is named and hides no other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from motionkit import runs
from motionkit.errors import MotionkitError
from motionkit.runs import Run

Cli = Callable[..., Result]

VALUES = {
    "schema": [2, "1"],
    "id": ["../..", "", 3],
    "command": [None, ["grpo"]],
    "artifacts": [5, "policy", ["../outside"], ["/etc"], [".."], [""], ["a\0b"], [3]],
    "attempts": [3, [3], {}, [{"start_step": -1}], [{"argv": "x"}]],
    "status": ["great", 1, None],
    "steps": [-1, 1.5, "3", 2**70],
    "cpu_seconds": ["x", -1.0, [], 10**400],
    "versions": [[], {"torch": 2}],
    "plugins": ["x"],
    "git": ["abc"],
    "summary": [[], "done"],
    "error": [{}],
}
TEXTS = {
    "empty": "",
    "cut short": "{",
    "a list": "[]",
    "deep": "[" * 200_000,
    "deep inside": '{"kind": "motionkit-run", "x": ' + "[" * 50_000 + "]" * 50_000 + "}",
    "digits": '{"kind": "motionkit-run", "steps": ' + "9" * 5000 + "}",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs under runs/."""
    root = tmp_path_factory.mktemp("template")
    for name in ("bad", "good"):
        with Run.create("pretrain mdm", {"track": [], "checkpoint": {"keep": 2}}, name=name, root=root / "runs"):
            pass
    return root


@pytest.fixture
def folders(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two runs; the first is to be damaged."""
    shutil.copytree(template / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").mkdir()
    return Path("runs/pretrain-mdm/bad"), Path("runs/pretrain-mdm/good")


def assert_damaged(bad: Path, good: Path, said: str) -> None:
    before = sorted(path.name for path in bad.iterdir())
    for command in (None, "pretrain mdm"):
        first, last = runs.find(command)
        assert (first.directory, first.status, first.problem) == (good, "done", "")
        assert (last.directory, last.status) == (bad, "damaged")
        assert said in last.problem
        assert (last.command in ("pretrain mdm", "pretrain-mdm"), last.config) == (True, {})
    attempts: list[Callable[[], Any]] = [
        lambda: runs.load(bad),
        lambda: Run.resume(bad),
    ]
    if "config.json" not in said:
        attempts.append(lambda: Run.create("grpo", {}, out=bad, overwrite=True))
    for attempt in attempts:
        with pytest.raises(MotionkitError) as caught:
            attempt()
        assert caught.value.code == 2
        assert said in caught.value.why
    assert sorted(path.name for path in bad.iterdir()) == before
    assert Path("outside").is_dir()


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values])
def test_a_record_with_a_value_of_another_kind_is_damaged(key: str, value: object, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "run.json").write_text(json.dumps(json.loads((bad / "run.json").read_text()) | {key: value}))
    assert_damaged(bad, good, "run.json" if isinstance(value, int) and value > 2**64 else f"run.json: {key}")


@pytest.mark.parametrize("name", ["run.json", "config.json"])
@pytest.mark.parametrize("what", [*TEXTS, "no text", "a folder", "a pipe", "a device"])
def test_a_file_that_cannot_be_read_is_damage(name: str, what: str, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / name).unlink()
    if what in TEXTS:
        (bad / name).write_text(TEXTS[what])
    elif what == "no text":
        (bad / name).write_bytes(b"\xff\xfe\x00")
    elif what == "a folder":
        (bad / name).mkdir()
    elif what == "a pipe":
        os.mkfifo(bad / name)
    else:
        (bad / name).symlink_to("/dev/zero")
    if (name, what) == ("config.json", "deep inside"):
        (bad / name).write_text(TEXTS[what])
    assert_damaged(bad, good, name)


@pytest.mark.parametrize("config", ['{"track": 5}', '{"checkpoint": 3}', '{"checkpoint": {"keep": 0}}', '{"run": []}'])
def test_settings_that_the_run_itself_reads_are_checked(config: str, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "config.json").write_text(config)
    assert_damaged(bad, good, "config.json: ")


def test_a_run_of_the_version_before_is_read(folders: tuple[Path, Path]) -> None:
    """Its record said `dirty` beside the commit, and null where nothing was known."""
    bad, _ = folders
    record = json.loads((bad / "run.json").read_text())
    record |= {"git": {"commit": "0" * 40, "dirty": True}, "seed": None, "device": "cpu (1 threads)", "heldout": [1]}
    record["attempts"] += [{"argv": [], "start": "2026", "start_step": 0, "host": "h", "pid": 1, "cwd": "/"}]
    (bad / "run.json").write_text(json.dumps(record))
    assert runs.load(bad).status == "done"
    with Run.resume(bad):
        pass
    after = json.loads((bad / "run.json").read_text())
    assert after["heldout"] == [1]
    assert [len(attempt) > 7 for attempt in after["attempts"]] == [True, False, True]


def test_what_a_trainer_annotates_cannot_damage_its_record(tmp_path: Path) -> None:
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.annotate(shared=[1, 2], device="cpu (1 threads)")
        with pytest.raises(ValueError, match="artifacts"):
            run.annotate(artifacts=["../outside"])
    info = runs.load(tmp_path / "run")
    assert info.record is not None
    assert (info.record.device, info.record.artifacts, info.status) == ("cpu (1 threads)", [], "done")
    assert json.loads((tmp_path / "run/run.json").read_text())["shared"] == [1, 2]


@pytest.mark.skipif(os.name != "posix", reason="names that are no UTF-8")
def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"r\xff")
    with Run.create("grpo", {"policy": {"checkpoint": str(folder)}}, out=folder, argv=["--out", str(folder)]) as run:
        run.save(1, {})
    assert runs.load(folder).config == {"policy": {"checkpoint": str(folder)}}
    with Run.resume(folder) as run:
        assert run.start_step == 1


def test_list_and_show(cli: Cli, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "config.json").write_text("{")
    listed = cli("runs", "list")
    assert listed.exit_code == 0
    rows = [line.split() for line in listed.stdout.splitlines() if "runs/" in line]
    assert [(row[0], row[1]) for row in rows] == [(str(good), "done"), (str(bad), "damaged")]
    document = json.loads(cli("runs", "list", "pretrain mdm", "--json").stdout)
    assert [run["status"] for run in document["runs"]] == ["done", "damaged"]
    assert "config.json" in document["runs"][1]["problem"]
    shown = cli("runs", "show", bad)
    assert shown.exit_code == 2
    assert f"{bad} is damaged" in shown.stderr
    assert "config.json" in shown.stderr
    assert cli("runs", "show", good).exit_code == 0
    assert json.loads(cli("runs", "show", bad, "--json").stdout)["error"]["code"] == 2


def test_a_terminal_is_told_nothing_by_a_record(cli: Cli, folders: tuple[Path, Path]) -> None:
    bad, _ = folders
    record = json.loads((bad / "run.json").read_text())
    (bad / "run.json").write_text(
        json.dumps(record | {"error": "\x1b[2Jgone", "status": "failed", "created": "\x1b]0;x"})
    )
    for words in (["list"], ["show", bad]):
        result = cli("runs", *words)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout
