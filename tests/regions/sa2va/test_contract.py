"""The Hugging Face policy keeps the contract of region policies, and is measured by `eval sa2va`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from motionkit.testing import check_policy


def test_contract(composite: Path) -> None:
    check_policy("sa2va", options={"checkpoint": str(composite)})


def test_it_is_measured(composite: Path, cli: Callable[..., Result]) -> None:
    words = ("--policy", "sa2va", "--policy.checkpoint", composite, "--regions", 3, "--device", "cpu", "--json")
    done = cli("eval", "sa2va", *words)
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert 0 <= figures["giou"]["after"] <= 1
    assert figures["judge_iou"] == figures["cycle_iou"]
