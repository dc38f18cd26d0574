"""Documents that a user gives, JSON, YAML, TOML and CSV: read as they are, or refused with their place."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from motionkit import documents
from motionkit.documents import (
    CsvTable,
    parse_json,
    parse_toml,
    parse_yaml,
    read_json,
    read_jsonl,
    read_text,
    read_toml,
    read_yaml,
)
from motionkit.errors import MotionkitError

GUIDE = """{
  // data and output paths
  "data": "./raw_data/processed_data",
  "url": "http://host//not/*a comment*/",
  "epochs": 30, /* as in the
     guide, */ "batch": 8,
  "lr": 0.00031732900585132803,
  "tf_mode": "epoch_linear",      // epoch_linear, step_linear, constant
  "say": "a \\" quote, then // more",
  "comma": ",]",
  "freerun_stage_schedule": [
    {"range": [1, 9], "label": "stage1_teacher", "trainer": {"freerun_weight": 0.0,},}, // last
  ], // trailing
}
"""


def test_comments_and_trailing_commas_are_no_part_of_the_document() -> None:
    assert parse_json(GUIDE, "guide", dict) == {
        "data": "./raw_data/processed_data",
        "url": "http://host//not/*a comment*/",
        "epochs": 30,
        "batch": 8,
        "lr": 0.00031732900585132803,
        "tf_mode": "epoch_linear",
        "say": 'a " quote, then // more',
        "comma": ",]",
        "freerun_stage_schedule": [{"range": [1, 9], "label": "stage1_teacher", "trainer": {"freerun_weight": 0.0}}],
    }


@pytest.mark.parametrize("value", [{"a": [1, 2.5, "x//y", None, True], "b": {}}, [], "text", 3.25])
def test_plain_json_is_read_as_it_is(value: object) -> None:
    assert parse_json(json.dumps(value), "here", object) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1,\n "b": }', "line 2, column 7"),
        ('// one\n/* two\n three */ {"a": 1 "b": 2}', "line 3, column 19"),
        ('{"a": [1, 2', "cut short"),
        ('{"a": 1, /* never closed', "line 1 has no end"),
        ('{"a": [1.0, ...]}', "left out"),
        ('{"a": "no end // here}', "line 1, column 7"),
        ("  \n ", "is empty"),
        ("[" * 2_000, "nested too deep"),
        ('{"a": ' + "9" * 5000 + "}", "cannot be read"),
    ],
    ids=map(str, count()),
)
def test_errors_say_where_and_why(text: str, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        parse_json(text, "file.json", object)
    assert "file.json" in caught.value.message
    assert said in f"{caught.value.message} {caught.value.why}"


@pytest.mark.parametrize("piece", ['\\"', "/*", '"', ", ", "//", "/* */", "\\"])
def test_hostile_text_takes_linear_time(piece: str) -> None:
    start = time.perf_counter()
    with pytest.raises(MotionkitError):
        parse_json("{" + piece * 200_000, "file.json", object)
    assert time.perf_counter() - start < 5.0  # quadratic behaviour takes minutes


def test_a_file_is_read_with_its_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1} // \xe4\xb8\xad\xe6\x96\x87')
    assert read_json(path, dict) == {"a": 1}


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\x89PNG\xff\xfe")
    for name, options, word in (
        ("none.json", {}, "does not exist"),
        ("", {}, "folder"),
        ("binary.json", {}, "text file"),
        ("binary.json", {"limit": 3}, "too large"),
    ):
        with pytest.raises(MotionkitError, match=word):
            read_json(tmp_path / name, dict, **options)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("[1]", dict, "does not hold a table (key: value) at its top, but a list"),
        ("null", dict, "but nothing"),
        ('{"a": 1}', list, "does not hold a list at its top, but a table"),
        ('{"a": "x\\ud800y"}', dict, "not Unicode: '\\ud800'"),
        ('{"\\udfff": 1}', dict, "not Unicode"),
        ('{"a": [18446744073709551616]}', dict, "more than 64 bits"),
        ('{"a":' * 150 + "1" + "}" * 150, dict, "nested too deep"),
        ("[" * 150 + "]" * 150, list, "nested too deep"),
        ("[" + "{}," * 5_000_000 + "1]", list, "tables and lists"),
    ],
    ids=map(str, count()),
)
def test_what_no_document_holds_is_refused(text: str, kind: type, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        parse_json(text, "file.json", kind)
    assert "file.json" in caught.value.message
    assert said in caught.value.message
    caught.value.sentence().encode()  # can be printed


def test_names_of_files_that_are_no_unicode_may_be_allowed() -> None:
    assert parse_json('["a\\udcff"]', "record", list, surrogates=True) == ["a\udcff"]


def test_lines_that_are_no_tables_are_passed_over(tmp_path: Path) -> None:
    lines = [
        '{"a": 1}',
        "[" * 5000,
        "[2]",
        '{"a": "\\ud800"}',
        '{"a": ' + "9" * 5000 + "}",
        "\0",
        '{"a": 3}',
        '{"a": 4',
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(lines))
    assert list(read_jsonl(tmp_path / "m.jsonl")) == [{"a": 1}, {"a": 3}]
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


TWICE = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 7))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 5))


def test_anchors_aliases_and_merged_tables_are_read() -> None:
    text = "base: &base {lr: 0.1, steps: 5}\none: *base\ntwo: {<<: *base, steps: 7}\n"
    base = {"lr": 0.1, "steps": 5}
    assert parse_yaml(text, "a.yaml", dict) == {"base": base, "one": base, "two": {"lr": 0.1, "steps": 7}}


def test_an_empty_document_is_an_empty_table() -> None:
    assert parse_yaml("# nothing\n", "a.yaml", dict) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "not valid YAML"),
        ("- 1\n", "does not hold a table"),
        ("a: !thing [x]\n", "not valid YAML"),
        ("a: !!python/tuple [x]\n", "not valid YAML"),
        ("a: &a [*a]", "more than 100000 values"),
        ("[" * 300, "nested too deep"),
        ("- " * 300, "nested too deep"),
        ("1: 2\n", "key that is not text: 1"),
        ("on: 1\n", "key that is not text: True"),
        ("a: {2024-01-01: 1}\n", "key that is not text"),
        ("? [1, 2]\n: 3\n", "not valid YAML"),
        ("a: 2024-02-31\n", "not valid YAML"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: 1" + ":59" * 40, "at most 64 are read"),
        ("a: " + "9" * 40, "more than 64 bits"),
        ('a: "\\ud800"', "not Unicode"),
        ("a: !!set {x, y}", "type set"),
        ("a: !!binary aGVsbG8=", "type bytes"),
        ("a: 1\n---\na: 2\n", "not valid YAML"),
    ],
    ids=map(str, count()),
)
def test_errors_name_the_file_and_take_no_time(text: str, said: str) -> None:
    start = time.process_time()
    with pytest.raises(MotionkitError) as caught:
        parse_yaml(text, "a.yaml", dict)
    assert "a.yaml" in caught.value.message
    assert said in caught.value.message
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", [TWICE, MERGES])
def test_what_aliases_stand_for_is_counted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_yaml(text, "a.yaml", dict)
    monkeypatch.setattr(documents, "_VALUES", 100)
    with pytest.raises(MotionkitError, match="more than 100 values"):
        parse_yaml(text, "a.yaml", dict)


def test_tables_lists_and_dates_are_read() -> None:
    text = "a = 1\n[b.c]\nd = [1.5, 'x']\nwhen = 1979-05-27\n# ................" + "." * 200
    assert (
        str(parse_toml(text, "a.toml")) == "{'a': 1, 'b': {'c': {'d': [1.5, 'x'], 'when': datetime.date(1979, 5, 27)}}}"
    )
    assert parse_toml("a = [" + ", ".join(["0.5"] * 1000) + "]", "a.toml") == {"a": [0.5] * 1000}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "not valid TOML"),
        ("a = " + "[" * 300, "not valid TOML"),
        ("a = " + "[" * 150 + "]" * 150, "nested too deep"),
        ("a." * 200 + "a = 1", "more than 100 parts"),
        ("[" + "a . " * 200 + "a]", "more than 100 parts"),
        ("a = {" + "'a'." * 200 + "a = 1}", "more than 100 parts"),
        ("\n".join(f"[{'a.' * 60}a]\n{'b.' * 60}b = 1" for _ in range(1)), "nested too deep"),
        ("a = " + "9" * 5000, "not valid TOML"),
        ("a = " + "9" * 30, "more than 64 bits"),
        ("a = 2024-02-31", "not valid TOML"),
    ],
    ids=map(str, count()),
)
def test_errors_name_the_file(text: str, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        parse_toml(text, "a.toml")
    assert "a.toml" in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize(("name", "read"), [("a.yaml", lambda path: read_yaml(path, dict)), ("a.toml", read_toml)])
def test_a_large_file_is_not_opened(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    (tmp_path / name).write_text("#" * (2 << 20) + "\n")
    with pytest.raises(MotionkitError, match="too large"):
        read(tmp_path / name)


def test_rows_are_tables_by_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid, text ,,\na,"one, two\nthree",,\n\n,,\nb\nc, "x, y"\n')
    table = CsvTable(path)
    assert (table.columns, table.note) == (("id", "text"), "")
    assert list(table.rows()) == [
        (2, {"id": "a", "text": "one, two\nthree"}),
        (6, {"id": "b", "text": ""}),
        (7, {"id": "c", "text": "x, y"}),
    ]
    path.write_text("")
    assert (CsvTable(path).columns, list(CsvTable(path).rows())) == ((), [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("mark", "words"), [(",", ""), (";", "a semicolon"), ("\t", "a tab")])
def test_the_separator_is_that_of_the_first_line(tmp_path: Path, mark: str, words: str, encoding: str) -> None:
    """Both are said where they are not commas and UTF-8, and other marks in cells are text."""
    path = tmp_path / "a.csv"
    text = "he, she; or\tthey – all"
    path.write_text(f'clip{mark}caption\nwalk{mark}"{text}"\n', encoding=encoding)
    table = CsvTable(path)
    assert list(table.rows("clip", "caption")) == [(2, {"clip": "walk", "caption": text})]
    said = ["it is UTF-16"] * (encoding == "utf-16") + [f"{words} separates its columns"] * bool(words)
    assert table.note == (f"{path}: {', '.join(said)}" if said else "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clip,caption\nwalk,he walks, then turns\n", "line 2 has 3 cells"),
        ('clip,caption\nwalk,"two\nlines"\n\nrun,he runs,fast\n', "line 5 has 3 cells"),
        ("clip,caption,caption\nwalk,a,b\n", "two columns called 'caption'"),
        ("clip,,,caption\nwalk,a,b,c\n", "without a name"),
        ("clip,caption\nwalk,he walks\nrun\n", "line 3 has no 'caption'"),
        ("clip;caption,long\nwalk;a,b\n", "a comma and a semicolon"),
        ('clip,caption\nwalk,"he walks\nrun,he runs\nsit,he sits\n', "line 2: unexpected"),
        ('clip,caption\nwalk,"he" walks\n', "line 2: ',' expected"),
        ("clip,caption\nwalk,a\0b\n", "NUL"),
    ],
    ids=map(str, count()),
)
def test_no_cell_is_lost(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(MotionkitError) as caught:
        list(CsvTable(path).rows("clip", "caption"))
    assert said in caught.value.message
    assert str(path) in caught.value.message


def test_a_key_that_is_there_twice_is_refused_where_people_write(tmp_path: Path) -> None:
    """Else the parsers take the last one and say nothing; in files of programs that stays."""
    (tmp_path / "a.json").write_text('{"a": 1, "b": {"c": 1, "c": 2}}')
    assert read_json(tmp_path / "a.json", dict) == {"a": 1, "b": {"c": 2}}
    for call in (lambda: read_json(tmp_path / "a.json", dict, unique=True),
                 lambda: parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\n", "a.yaml", dict)):  # fmt: skip
        with pytest.raises(MotionkitError, match="'c' twice"):
            call()


def test_text_of_windows_is_read(tmp_path: Path) -> None:
    """PowerShell's ``>`` writes UTF-16 with a byte order mark."""
    path = tmp_path / "a.txt"
    path.write_text("he walks – slowly\n", encoding="utf-16")
    assert read_text(path) == "he walks – slowly\n"
    path.write_text("he walks", encoding="utf-16-le")  # without the mark
    with pytest.raises(MotionkitError, match="not a text file"):
        read_text(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"id\n\xff\n", "not a text file"),
        (b'id\n"' + b"x" * 200_000, "not a CSV file"),
        (b"id\n" + b"a," * 3_000_000, "a row has more than"),
        (b"id\n" + b'"\n",' * 2_000_000, "a row has more than"),
        (b"a," * 2000, "2000 columns"),
    ],
    ids=map(str, count()),
)
def test_what_is_no_table_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(MotionkitError, match=said):
        list(CsvTable(path).rows())


def test_files_are_looked_at_before_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id\n" * 100)
    for name, word in (("a.csv", "too large"), ("b.csv", "does not exist")):
        with pytest.raises(MotionkitError, match=word):
            CsvTable(tmp_path / name, limit=100)
