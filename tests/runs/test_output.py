"""A folder that a command makes: what an earlier one listed may go, everything else stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.runs import OutputFolder
from motionkit.runs import atomic as _tree


def place(tmp_path: Path, *, overwrite: bool = False, kind: str = "test-output") -> OutputFolder:
    return OutputFolder(tmp_path / "out", "record.json", kind, overwrite=overwrite)


def make(tmp_path: Path, files: dict[str, str], *, overwrite: bool = False) -> None:
    """Do what a command does."""
    output = place(tmp_path, overwrite=overwrite)
    output.claim()
    with output.beside() as part:
        for name, text in files.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_text(text)
    output.settle(part, {"schema": 1})


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_an_earlier_result_is_replaced_and_what_the_user_added_stays(tmp_path):
    make(tmp_path, {"a.txt": "1", "old/b.txt": "1", "both/c.txt": "1"})
    (tmp_path / "out/thesis.txt").write_text("mine")
    (tmp_path / "out/both/notes.txt").write_text("mine")
    with pytest.raises(MotionkitError, match="not empty") as caught:
        make(tmp_path, {"a.txt": "2"})
    assert "--overwrite" in caught.value.fix
    make(tmp_path, {"a.txt": "2", "new/d.txt": "2"}, overwrite=True)
    found = tree(tmp_path / "out")
    record = json.loads(found.pop("record.json"))
    assert found == {"a.txt": "2", "new/d.txt": "2", "thesis.txt": "mine", "both/notes.txt": "mine"}
    assert record == {"kind": "test-output", "schema": 1, "files": ["a.txt", "new/d.txt", "record.json"]}
    assert not (tmp_path / "out/old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        '{"kind": "something-else", "files": []}',
        '{"kind": "test-output"}',
        '{"kind": "test-output", "files": ["../../thesis.txt"]}',
        '{"kind": "test-output", "files": ["/etc/passwd"]}',
        '{"kind": "test-output", "files": [""]}',
        '{"kind": "test-output", "files": [3]}',
        "[" * 2_000,
    ],
)
def test_a_folder_of_somebody_else_is_never_touched(tmp_path, record):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/record.json").write_text(record)
    for overwrite in (False, True):
        with pytest.raises(MotionkitError, match="not empty") as caught:
            make(tmp_path, {"a.txt": "1"}, overwrite=overwrite)
        assert "with or without --overwrite" in caught.value.why
        assert tree(tmp_path) == {"out/record.json": record}


def test_a_file_of_the_users_in_the_way_stays_and_so_does_what_was_made(tmp_path):
    make(tmp_path, {"a.txt": "1"})
    (tmp_path / "out/b.txt").write_text("mine")
    with pytest.raises(MotionkitError, match=r"b\.txt") as caught:
        make(tmp_path, {"b.txt": "2"}, overwrite=True)
    assert caught.value.code == 1
    assert (tmp_path / "out/b.txt").read_text() == "mine"
    part = next(path for path in tmp_path.iterdir() if path.name.startswith(".out."))
    assert str(part) in caught.value.why
    assert (part / "b.txt").read_text() == "2"


def test_links_lead_nowhere(tmp_path):
    make(tmp_path, {"deep/a.txt": "1"})
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "out/deep").rename(elsewhere)
    (tmp_path / "out/deep").symlink_to(elsewhere)
    with pytest.raises(MotionkitError, match="deep"):
        make(tmp_path, {"deep/a.txt": "2"}, overwrite=True)
    assert (elsewhere / "a.txt").read_text() == "1"
    make(tmp_path, {"b.txt": "2"}, overwrite=True)
    assert (elsewhere / "a.txt").read_text() == "1", "the old file is listed, but it is not in the folder any more"


def test_a_kill_while_files_move_leaves_a_folder_that_can_be_finished(tmp_path, monkeypatch):
    make(tmp_path, {"a.txt": "1", "b.txt": "1"})
    (tmp_path / "out/mine.txt").write_text("mine")
    moved = []

    def stop(source: Path, target: Path) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(target)
        os.replace(source, target)  # noqa: PTH105

    with monkeypatch.context() as patch:
        patch.setattr("motionkit.runs.atomic.move_file", stop)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, {"a.txt": "2", "c.txt": "2"}, overwrite=True)
    make(tmp_path, {"a.txt": "2", "c.txt": "2"})
    found = tree(tmp_path / "out")
    assert sorted(json.loads(found.pop("record.json"))["files"]) == ["a.txt", "c.txt", "record.json"]
    assert found == {"a.txt": "2", "c.txt": "2", "mine.txt": "mine"}


def test_a_folder_that_appeared_meanwhile_is_not_replaced(tmp_path):
    output = place(tmp_path)
    output.claim()
    with output.beside() as part:
        (part / "a.txt").write_text("2")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.txt").write_text("mine")
    with pytest.raises(MotionkitError, match="not empty") as caught:
        output.settle(part, {})
    assert caught.value.code == 1
    assert (tmp_path / "out/a.txt").read_text() == "mine"
    assert (part / "a.txt").read_text() == "2"


def test_what_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), place(tmp_path).beside() as part:
        (part / "a.txt").write_text(str(1 / 0))
    assert list(tmp_path.iterdir()) == []


def test_another_disk(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("new")
    (tmp_path / "b").write_text("old")

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "a":
            raise OSError(18, "Invalid cross-device link")
        return Path(os.rename(self, target) or target)  # noqa: PTH104

    monkeypatch.setattr(Path, "replace", refuse)
    _tree.move_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "new"
