"""Settings go into a file that people edit; nothing they wrote is lost: comments stay in a copy."""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.clips.profile.settings_file import BLOCK, dump_settings, merge_settings
from motionkit.documents import parse_json
from motionkit.errors import MotionkitError

STAGES = [{"range": [1, 6], "label": "first", "trainer": {"freerun_weight": 0.0}, "loss_groups": {"core": {"w": 1}}}]
WANTED = {"epochs": 20, "batch": 4, "tf_mode": "epoch_linear", "freerun_stage_schedule": STAGES}
FIGURES = {"n_clips": 3, "yaw_mean_deg": None, "complexity": 1.25}

JSONC = """{
  // where the data is, "quoted" and { braced }
  "data": "./raw // not a comment",   // trailing
  /* several
     lines, with a comma */
  "epochs": 30,      // many
  "freerun_stage_schedule": [
    {"range": [1, 9]} /* inside */
  ],
  "mine": {"a": [1, 2], "batch": 99}  // last, without a comma
  // the end
}
"""
TOML = """# mine
data = "x" # where
epochs = 30  # many # really
title = "a # b"
list = [
  1, # one
  2,
]

[other] # table
batch = 99
"""
YAML = """# mine
data: x # where
epochs: 30  # many
tree:
  a: 1
  # inside
  batch: 99

# about the schedule
freerun_stage_schedule:
- range: [1, 9]
  # a stage

# the end
"""
TEXTS = {".json": JSONC, ".toml": TOML, ".yaml": YAML}


def parse(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if path.suffix in (".yaml", ".yml") else parse_json(text, "test", dict)


def comments(text: str) -> list[str]:
    return [line.split(mark, 1)[1] for line in text.splitlines() for mark in ("//", "#") if mark in line]


@pytest.mark.parametrize("suffix", TEXTS)
def test_keys_are_added_and_comments_are_in_a_copy(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"settings{suffix}"
    path.write_text(TEXTS[suffix])
    before = parse(path)
    merged = merge_settings(path, WANTED, FIGURES)
    after = parse(path)
    assert {key: after[key] for key in before} == before
    assert {key: value for key, value in after.items() if key not in before} == {
        **{key: value for key, value in WANTED.items() if key not in before},
        BLOCK: {"n_clips": 3, "complexity": 1.25},
    }
    assert merged.kept["epochs"] == (30, 20)
    assert "batch" in merged.added
    assert merged.backup is not None
    assert merged.backup.read_text() == TEXTS[suffix]


@pytest.mark.parametrize("suffix", TEXTS)
def test_overwriting_replaces_values_and_keeps_the_order(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"settings{suffix}"
    path.write_text(TEXTS[suffix])
    before = parse(path)
    merged = merge_settings(path, WANTED, FIGURES, overwrite=True)
    after = parse(path)
    assert {key: after[key] for key in WANTED} == WANTED
    assert {key: after[key] for key in before if key not in WANTED} == {
        key: value for key, value in before.items() if key not in WANTED
    }
    assert merged.replaced["epochs"] == (30, 20)
    order = [key for key in after if key in before]
    assert order == list(before)


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_time_changes_nothing(tmp_path: Path, suffix: str, overwrite: bool) -> None:
    path = tmp_path / f"settings{suffix}"
    path.write_text(TEXTS[suffix])
    merge_settings(path, WANTED, FIGURES, overwrite=overwrite)
    text = path.read_bytes()
    again = merge_settings(path, WANTED, FIGURES, overwrite=overwrite)
    assert path.read_bytes() == text
    assert again.added == []
    assert again.replaced == {}


@pytest.mark.parametrize("suffix", [".json", ".jsonc", ".toml", ".yaml", ".yml"])
def test_a_new_file_holds_everything(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"new{suffix}"
    merged = merge_settings(path, WANTED, FIGURES)
    assert merged.created
    assert parse(path) == {**WANTED, BLOCK: {"n_clips": 3, "complexity": 1.25}}


def test_statistics_are_brought_up_to_date_and_other_keys_of_the_block_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"dataset_profile": {"n_clips": 1, "note": "mine"}}')
    merge_settings(path, {}, FIGURES)
    assert parse(path) == {BLOCK: {"n_clips": 3, "note": "mine", "complexity": 1.25}}


def test_a_file_that_only_loses_blanks_has_no_copy_and_a_copy_replaces_no_older_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"epochs":30, "mine": [1,\n 2]}')
    assert merge_settings(path, WANTED, FIGURES, overwrite=True).backup is None
    path.write_text(text := '{"mine": 1} // why')
    (tmp_path / "a.json.bak").write_text("older")
    merged = merge_settings(path, WANTED, FIGURES)
    assert merged.backup == tmp_path / "a.json.bak2"
    assert merged.backup.read_text() == text
    assert (tmp_path / "a.json.bak").read_text() == "older"
    assert parse(path)["mine"] == 1


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_permissions_stay_and_a_copy_has_them_too(tmp_path: Path) -> None:
    plain, anew = tmp_path / "a.json", tmp_path / "a.yaml"
    plain.write_text('{"a": 1}')
    anew.write_text("{epochs: 30} # why\n")
    for path in (plain, anew):
        path.chmod(0o600)
        merge_settings(path, WANTED, FIGURES)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "a.json": 0o600,
        "a.yaml": 0o600,
        "a.yaml.bak": 0o600,
    }


def test_windows_lines_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + JSONC.replace("\n", "\r\n").encode())
    merge_settings(path, WANTED, FIGURES)
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf{\r\n")
    assert raw.count(b"\n") == raw.count(b"\r\n")
    assert parse_json(raw.decode("utf-8-sig"), "test", dict)["batch"] == 4


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.ini", "", "neither JSON, TOML nor YAML"),
        ("a.json", '{"a": }', "JSON"),
        ("a.json", "[1]", "table"),
        ("a.yaml", "a: [1", "YAML"),
        ("a.yaml", "1: a\n", "not text: 1"),
        ("a.yaml", "on: 1\n", "not text: True"),
        ("a.toml", "a = ", "TOML"),
        ("a.toml", "a" + ".a" * 200 + " = 1", "100 parts"),
        ("a.toml", "a = " + "[" * 101 + "]" * 101, "too deep"),
        ("a.json", b"\xff\xfe\x00", "text file"),
    ],
)
def test_files_that_are_no_settings_are_left_alone(tmp_path: Path, name: str, text: str | bytes, words: str) -> None:
    path = tmp_path / name
    raw = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(raw)
    with pytest.raises(MotionkitError, match=words):
        merge_settings(path, WANTED, FIGURES)
    assert path.read_bytes() == raw
    assert list(tmp_path.iterdir()) == [path]


plain = st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab #/\"'\\{}[],:\n", max_size=6), st.just(0.5))
tables = st.dictionaries(
    st.sampled_from(["epochs", "batch", "a", "b c", "d#", "é"]),
    st.one_of(plain, st.lists(plain, max_size=3), st.dictionaries(st.sampled_from(["x", "y z"]), plain, max_size=2)),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(tables, tables)
def test_edits_of_any_table_give_what_is_wanted(have: dict[str, Any], changes: dict[str, Any]) -> None:
    for suffix in (".json", ".toml", ".yaml"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"a{suffix}"
            path.write_text(dump_settings(path, have))
            assert merge_settings(path, changes, {}, overwrite=True).backup is None
            assert parse(path) == {**have, **changes}
