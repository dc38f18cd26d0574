"""Plugins that a run folder names: it may come from anywhere, and nothing in it runs code."""

from __future__ import annotations

from pathlib import Path

import pytest

from motionkit.config import choose_from_file
from motionkit.errors import MotionkitError


def test_a_plugin_with_its_options() -> None:
    chosen = choose_from_file("datasets", {"name": "shapes", "seed": 3})
    assert chosen is not None
    assert (chosen.name, chosen.options.model_dump()["seed"]) == ("shapes", 3)


@pytest.mark.parametrize("table", [None, {}, {"name": 3}, "shapes"])
def test_nothing_is_named(table: object) -> None:
    assert choose_from_file("datasets", table) is None


def test_a_file_of_code_is_refused(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(MotionkitError, match="is code") as caught:
        choose_from_file("datasets", {"name": f"{code}:component"})
    assert f"--dataset {code}:component" in str(caught.value.fix)
    assert not (tmp_path / "ran").exists()


def test_trust_is_not_a_file_s_to_give() -> None:
    table = {"name": "sa2va", "checkpoint": "anywhere", "trust_remote_code": True}
    with pytest.raises(MotionkitError, match="trust_remote_code, which counts only where it is typed") as caught:
        choose_from_file("policies", table)
    assert "--policy sa2va" in str(caught.value.fix)
    assert choose_from_file("policies", {**table, "trust_remote_code": False}) is not None
