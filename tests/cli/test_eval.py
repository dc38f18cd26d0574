"""``motionkit eval``: what it prints, what it refuses, what it notes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Cli = Callable[..., Result]


@pytest.fixture
def kept(tiny, monkeypatch: pytest.MonkeyPatch):
    """The session's tiny models, with the clips that they were made of."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiny.mdm.parent / "cache"))
    return tiny


def test_retrieval_of_a_run_uses_its_data_and_notes_that_test_was_opened(kept, tmp_path: Path, cli: Cli) -> None:
    run = tmp_path / "tmr"
    shutil.copytree(kept.tmr, run)
    done = cli("eval", "retrieval", run, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["status"], document["split"]) == ("eval retrieval", "done", "val")
    assert document["candidates"] == {"normal": 48, "threshold": 48, "nsim": 48, "guo": 32}
    values = document["protocols"]["normal"]["average"]["t2m"]
    assert 0 <= values["R01"] <= values["R10"] <= 100
    assert "test_split_opened" not in json.loads((run / "run.json").read_text())
    shown = cli("eval", "retrieval", run, "--device", "cpu", "--split", "test")
    assert "noted in" in shown.stderr
    assert "guo (32)" in shown.stdout
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval retrieval ")
    cli("eval", "retrieval", run, "--device", "cpu", "--split", "test")
    assert len(json.loads((run / "run.json").read_text())["test_split_opened"]) == 2
    assert cli("runs", "show", run).exit_code == 0


def test_retrieval_refuses_other_models(kept, cli: Cli, shared: Path) -> None:
    done = cli("eval", "retrieval", kept.mdm)
    assert done.exit_code == 2
    assert "retrieval measures a TMR" in done.stderr
    guo = shared / "fixtures/mdm/evaluator_tiny_t2m/checkpoints/t2m/text_mot_match/model/finest.tar"
    done = cli("eval", "retrieval", guo)
    assert done.exit_code == 2
    assert "Guo et al." in done.stderr
    assert f"--evaluator {guo}" in done.stderr
