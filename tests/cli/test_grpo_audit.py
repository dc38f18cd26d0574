"""What `grpo` says its rewards do not see, before it trains."""

from __future__ import annotations

import json
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


def test_a_run_says_stores_and_shows_what_its_reward_does_not_see(kept, tmp_path: Path, cli: Cli) -> None:
    run = tmp_path / "run"
    done = cli(*kept.grpo(run, "--reward", "physics=0.1", "--set", "audit.enabled=true", steps=1))
    assert done.exit_code == 0, done.stderr
    record = json.loads((run / "run.json").read_text())
    found = record["sensitivity"]
    assert list(found["rewards"]) == ["tmr-dense", "physics", "tmr-dense + 0.1 physics"]
    sentence = found["rewards"]["tmr-dense"]["sentence"]
    log = (run / "log.txt").read_text()
    assert sentence in log
    assert log.index(sentence) < log.index("before training")
    # Three steps of training: it tells no caption from another one.
    assert "the reward tmr-dense + 0.1 physics sees nothing of what captions ask for" in log or (
        not found["rewards"]["tmr-dense + 0.1 physics"]["sees_nothing"]
    )
    made = cli("report", run)
    assert made.exit_code == 0, made.stderr
    page = (run / "report.html").read_text()
    assert "What the reward does not see" in page
    assert "mean-pose" in page
    assert "<p>tmr-dense " in page, "the name of a reward has no capital"

    record["sensitivity"] = {"rewards": [1], "table": {"columns": 3}}
    (run / "run.json").write_text(json.dumps(record))
    assert cli("report", run).exit_code == 0
    assert "What the reward does not see" not in (run / "report.html").read_text()


def test_the_audit_can_be_left_out_and_changes_no_figure(kept, tmp_path: Path, cli: Cli) -> None:
    runs = {name: tmp_path / name for name in ("with", "without")}
    for name, run in runs.items():
        done = cli(*kept.grpo(run, "--set", f"audit.enabled={str(name == 'with').lower()}", steps=1))
        assert done.exit_code == 0, done.stderr
    assert "sensitivity" in json.loads((runs["with"] / "run.json").read_text())
    assert "sensitivity" not in json.loads((runs["without"] / "run.json").read_text())
    lines = [
        [
            {key: value for key, value in json.loads(line).items() if key.startswith(("reward", "loss", "heldout"))}
            for line in (run / "metrics.jsonl").read_text().splitlines()
        ]
        for run in runs.values()
    ]
    assert lines[0] == lines[1]
