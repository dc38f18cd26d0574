from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from motionkit.documents import parse_toml, read_toml
from motionkit.errors import MotionkitError


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
        ("a = " + "[" * 100_000, "nested too deep"),
        ("a = " + "[" * 150 + "]" * 150, "nested too deep"),
        ("a." * 20_000 + "a = 1", "more than 100 parts"),
        ("[" + "a . " * 20_000 + "a]", "more than 100 parts"),
        ("a = {" + "'a'." * 20_000 + "a = 1}", "more than 100 parts"),
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


def test_a_large_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("#" * (2 << 20))
    with pytest.raises(MotionkitError, match="too large"):
        read_toml(path)
