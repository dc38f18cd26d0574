"""A study of a stranger: its journal is read or refused, and nothing beside it is written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.tuning.base import open_base
from motionkit.tuning.plan import JOURNAL, Plan, make_plan
from motionkit.tuning.storage import open_study


@pytest.fixture
def plan() -> Plan:
    return make_plan(open_base("train-mpl"), study="s", trials=4, sampler="random", pruner="none")[0]


@pytest.mark.parametrize("name", [JOURNAL, f"{JOURNAL}.lock"])
def test_a_journal_that_is_a_link_is_refused(plan: Plan, tmp_path: Path, name: str) -> None:
    mine, study = tmp_path / "mine", tmp_path / "study"
    mine.write_text("half a line, which a journal would lose")
    study.mkdir()
    (study / name).symlink_to(mine)
    with pytest.raises(MotionkitError, match="not a regular file"):
        open_study(plan, study)
    assert mine.read_text() == "half a line, which a journal would lose"
    (study / name).unlink()
    os.mkfifo(study / name)
    with pytest.raises(MotionkitError, match="not a regular file"):
        open_study(plan, study)


@pytest.mark.parametrize(
    "line",
    [
        "null", "[]", "3", "{}", "{", "\udcff", '{"op_code": "0"}', '{"op_code": 99, "worker_id": "w"}',
        '{"op_code": 6, "worker_id": "w", "trial_id": [], "state": 9}',
    ],
)  # fmt: skip
def test_a_damaged_journal_is_refused(plan: Plan, tmp_path: Path, line: str) -> None:
    open_study(plan, tmp_path)
    with (tmp_path / JOURNAL).open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"{line}\n")
    with pytest.raises(MotionkitError, match=r"journal\.log cannot be used"):
        open_study(plan, tmp_path)
