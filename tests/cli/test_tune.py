"""`motionkit tune-bayes` end to end, on a trainer that is a formula."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import Result

Cli = Callable[..., Result]
SHORT = ("--trainer", "tuned", "--base-set", "run.num_steps=3", "--jobs", "1", "--seeds", "2")


def document(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_search_ends_with_a_better_config(cli: Cli, tuned: ModuleType) -> None:
    done = cli("tune", "--bayes", *SHORT, "--trials", 12, "--name", "a", "--json")
    found = document(done)
    print(done.stderr)
    assert found["command"] == "tune-bayes"
