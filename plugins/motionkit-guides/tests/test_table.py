"""The table of the guides' options: each has one answer, and its keys are settings."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from motionkit.cli.commands.config import _known, explain
from motionkit.cli.commands.config import _model as settings_of
from motionkit_guides.table import GuideOption, guide_options, row_of


def test_every_old_flag_has_an_answer_and_appears_once() -> None:
    pairs = [(row.command, name) for row in guide_options() for name in row.guide]
    assert len(pairs) == len(set(pairs))
    assert len(pairs) >= 54
    for _, name in pairs:
        # A flag, a key of the predictor's settings file, or a dotted one of the reward model's.
        assert re.fullmatch(r"(--)?[a-z_]+|[a-z_0-9]+(\.[a-z_0-9]+)+", name)
        if not name.startswith("--"):
            continue
        row = row_of(name, "")
        assert row is not None
        assert row_of(name.replace("_", "-"), "") == row_of(f"{name}=3", "") == row
    assert row_of("--nonesuch", "") is None


model_of = functools.cache(lambda command: settings_of(command.split()))
facts_of = functools.cache(_known)  # by model; a command has up to a hundred rows


@pytest.mark.parametrize("row", guide_options(), ids=lambda row: f"{row.command} {row.guide[0]}")
def test_keys_of_the_guides_are_settings(row: GuideOption, monkeypatch: pytest.MonkeyPatch) -> None:
    if not row.key:
        return
    monkeypatch.setattr("motionkit.cli.commands.config._known", facts_of)
    model: Any = model_of(row.command)
    for key in row.key.split(", "):
        assert explain(model, key)["key"] == key
