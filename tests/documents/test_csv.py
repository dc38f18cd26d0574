from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from motionkit.documents import read_csv
from motionkit.errors import MotionkitError


def test_rows_are_tables_by_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfid,text\na,"one, two\nthree"\n\nb\nc,x,y,z\n')
    assert list(read_csv(path)) == [
        {"id": "a", "text": "one, two\nthree"},
        {"id": "b", "text": ""},
        {"id": "c", "text": "x"},
    ]
    path.write_text("")
    assert list(read_csv(path)) == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"id\n\xff\n", "not a text file"),
        (b'id\n"' + b"x" * 200_000, "not a CSV file"),
        (b"id\n" + b"a," * 3_000_000, "a row has more than"),
        (b"id\n" + b'"\n",' * 2_000_000, "a row has more than"),
        (b"a," * 2000, "2001 columns"),
    ],
    ids=map(str, count()),
)
def test_what_is_no_table_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(MotionkitError, match=said):
        list(read_csv(path))


def test_files_are_looked_at_before_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"id\n" * 100)
    with pytest.raises(MotionkitError, match="too large"):
        list(read_csv(tmp_path / "a.csv", limit=100))
    with pytest.raises(MotionkitError, match="does not exist"):
        list(read_csv(tmp_path / "b.csv"))
