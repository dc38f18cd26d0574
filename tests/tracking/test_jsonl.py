"""metrics.jsonl holds finite JSON and whole lines, whatever happens."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path

import pytest

from motionkit.runs._resume import cut_metrics
from motionkit.tracking import JsonlWriter, finite, read_metrics


def test_values_that_json_lacks_become_null() -> None:
    assert finite({"a": math.nan, "b": [math.inf, 1, (2.5, -math.inf)], "c": "x", "d": True}) == {
        "a": None,
        "b": [None, 1, [2.5, None]],
        "c": "x",
        "d": True,
    }


def test_lines_are_appended_and_read_back(tmp_path: Path) -> None:
    for step in (1, 2):
        writer = JsonlWriter(tmp_path / "m.jsonl")
        writer.write({"step": step, "loss": math.nan})
        writer.close()
    with (tmp_path / "m.jsonl").open("a") as file:
        file.write('not json\n[1]\n{"step": 3}')
    assert list(read_metrics(tmp_path / "m.jsonl")) == [{"step": 1, "loss": None}, {"step": 2, "loss": None}]
    assert list(read_metrics(tmp_path / "absent")) == []


def test_lines_that_no_run_writes_are_passed_over(tmp_path: Path) -> None:
    """They were a TypeError or a UnicodeEncodeError when the run was resumed."""
    good = ['{"step": 1, "seconds": 2, "loss/total": 0.5}', '{"step": 2, "loss/total": null}']
    bad = [
        *('{"step": [1]}', '{"step": null}', '{"step": "1"}', '{"step": 1.5}', '{"step": true}', '{"step": -1}', "{}"),
        *('{"step": 3, "seconds": [1]}', '{"step": 3, "seconds": "1"}', '{"step": 3, "seconds": 1e999}'),
        *('{"step": 3, "x": "\\ud800"}', '{"step": 3, "\\ud800": 1}', '{"step": 3, "x": {}}', '{"step": 3, "x": NaN}'),
        *("[" * 100_000, '{"step": ' + "9" * 5000 + "}", '{"step": 3, "seconds": ' + "9" * 400 + "}"),
        *("", "\ufeff{}", "\x00", "1", '{"step": 3'),
    ]
    lines = [good[0], *bad, good[1], *bad]
    (tmp_path / "m.jsonl").write_text("\n".join(lines) + "\n")
    assert list(read_metrics(tmp_path / "m.jsonl")) == [json.loads(line) for line in good]
    assert cut_metrics(tmp_path / "m.jsonl", 2) == 2.0
    assert (tmp_path / "m.jsonl").read_text().splitlines() == good


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "m.jsonl")
    writer.write({"step": 1})

    class Full:
        """Takes half a line, then no more."""

        def __init__(self, file: object) -> None:
            self.file, self.left = file, 5

        def write(self, data: bytes) -> int:
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken, self.left = self.left, 0
            return self.file.write(data[:taken])  # type: ignore[attr-defined, no-any-return]  # a raw file

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

    whole = writer._file
    writer._file = Full(whole)  # type: ignore[assignment]  # stands in for a raw file
    with pytest.raises(OSError, match="No space"):
        writer.write({"step": 2})
    writer._file = whole
    writer.write({"step": 3})
    writer.close()
    assert [json.loads(line)["step"] for line in (tmp_path / "m.jsonl").read_text().splitlines()] == [1, 3]
