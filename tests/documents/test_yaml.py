from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import pytest

from motionkit.documents import parse_yaml, read_yaml
from motionkit.errors import MotionkitError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))


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
        ("a: !!python/object/apply:os.mkdir [exploded]\n", "not valid YAML"),
        (BOMB, "more than 100000 values"),
        (MERGES, "more than 100000 values"),
        ("a: &a [*a]", "more than 100000 values"),
        ("[" * 100_000, "nested too deep"),
        ("- " * 5_000, "nested too deep"),
        ("1: 2\n", "key that is not text: 1"),
        ("on: 1\n", "key that is not text: True"),
        ("a: {2024-01-01: 1}\n", "key that is not text"),
        ("? [1, 2]\n: 3\n", "not valid YAML"),
        ("a: 2024-02-31\n", "not valid YAML"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: 1" + ":59" * 100_000, "not valid YAML"),
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


def test_a_large_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("#" * (256 << 10) + "\n")
    with pytest.raises(MotionkitError, match="too large"):
        read_yaml(path, dict)
