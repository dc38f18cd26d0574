from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path

import pytest

from motionkit.config.sources import read_file
from motionkit.documents import parse_json, read_json, read_jsonl
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
        ("[" * 100_000, "nested too deep"),
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
    with pytest.raises(MotionkitError, match="does not exist"):
        read_json(tmp_path / "none.json", dict)
    with pytest.raises(MotionkitError, match="is a folder"):
        read_json(tmp_path, dict)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(MotionkitError, match="not a text file"):
        read_json(binary, dict)
    with pytest.raises(MotionkitError, match="too large"):
        read_json(binary, dict, limit=3)


@pytest.mark.parametrize("name", ["a.json", "a.jsonc"])
def test_settings_files_may_have_comments(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{\n  // the guide says 30\n  "epochs": 30,\n}')
    assert read_file(path).table == {"epochs": 30}
    path.write_text("[1]")
    with pytest.raises(MotionkitError, match="does not hold a table"):
        read_file(path)


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


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(MotionkitError, match="not a plain file"):
        read_json(tmp_path / "a.json", dict)
    with pytest.raises(MotionkitError, match="not a plain file"):
        read_json("/dev/zero", dict)


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
