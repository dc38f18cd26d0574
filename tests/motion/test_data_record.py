"""The record of a model's data: the licence that lies in their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from motionkit.motion import DataRecord


@pytest.mark.parametrize("name", ["LICENSE", "licence.txt", "COPYING.md"])
def test_the_licence_is_the_first_line_of_its_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "LICENSES").mkdir()
    assert DataRecord.of("humanml", tmp_path).licence == ""
    (tmp_path / name).write_text("\n  # Free  for use\n\nTerms follow.\n")
    assert DataRecord.of("humanml", tmp_path).licence == "Free for use"


def test_a_licence_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "LICENSE").write_bytes(b"\xff\xfe\xfd\x00\xd8")
    assert DataRecord.of("humanml", tmp_path).licence == ""
    assert DataRecord.of("humanml", tmp_path / "absent").licence == ""
    (tmp_path / "LICENSE").write_text("x" * 300)
    assert DataRecord.of("humanml", tmp_path).licence == "x" * 200


def test_a_policy_that_began_with_another_one_has_both_licences() -> None:
    mine, theirs = (DataRecord(name="humanml", licence=words) for words in ("MIT License", "CC BY-NC 4.0"))
    assert mine.after(theirs).licence == "CC BY-NC 4.0; MIT License"
    assert mine.after(mine).licence == mine.after(None).licence == "MIT License"
