"""Settings files of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from motionkit.config import Foreign, Given, Group, RunSettings, Settings, SettingsError, TrainerSettings, resolve
from motionkit.config import renamed as in_words


class Inner(Group):
    size: int = 1
    rate: float = 0.5


class Own(Settings):
    inner: Inner = Inner()
    name: str = ""

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        if "their_size" not in table:
            return None
        found = Foreign(path)
        found.put("inner.size", table["their_size"], "their_size")
        found.notes.append("their file.")
        return found


def test_values_come_from_the_file_with_their_own_key_as_origin(tmp_path: Path) -> None:
    file = tmp_path / "their.json"
    file.write_text('{"their_size": 7, "their_other": 1} // theirs')
    found = resolve(Own, Given({("name",): "x"}, files=(file,)))
    assert (found.settings.inner.size, found.settings.inner.rate, found.settings.name) == (7, 0.5, "x")
    assert found.origins["inner.size"] == f"{file}: their_size"
    assert found.notes == ("their file.",)


def test_own_files_and_other_settings_are_read_as_before(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    file.write_text('{"inner": {"size": 3}}')
    assert resolve(Own, Given(files=(file,))).settings.inner.size == 3
    file.write_text('{"their_size": 7}')
    with pytest.raises(SettingsError, match="their_size"):
        resolve(TrainerSettings, Given(files=(file,)))


def test_a_wrong_value_is_told_with_the_key_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "their.json"
    file.write_text('{"their_size": "many"}')
    with pytest.raises(SettingsError, match=r"inner\.size = 'many'  \(from .*their.json: their_size\)"):
        resolve(Own, Given(files=(file,)))


def test_renamed_names_what_moved_first() -> None:
    assert in_words({"a": "a", "b": "x.b", "c": "c"}) == "b → x.b, unchanged: a, c"


def test_a_run_may_be_resumed_in_the_folder_that_a_file_names(tmp_path: Path) -> None:
    RunSettings(out=tmp_path, resume=tmp_path)
    RunSettings(out=tmp_path, resume=tmp_path / "checkpoints/step-00000003")
    for other in (tmp_path / "other", tmp_path.parent):
        with pytest.raises(ValueError, match="leave out --out"):
            RunSettings(out=tmp_path, resume=other)
