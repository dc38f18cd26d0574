"""``motionkit eval sensitivity``: what it prints, writes, notes and refuses."""

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


def test_a_reward_its_judge_and_physics(kept, tmp_path: Path, cli: Cli) -> None:
    run, out = tmp_path / "tmr", tmp_path / "out"
    shutil.copytree(kept.tmr, run)
    config = run / "tmr" / "config.json"
    told = json.loads(config.read_text())
    told["training"]["train"]["negatives"] = "mean-pose=1,text-side=1"
    config.write_text(json.dumps(told))
    words = ("eval", "sensitivity", "--reward", "tmr-dense", "--reward", "physics=0.1", "--reward.weights", run)
    words = (*words, "--clips", 6, "--device", "cpu", "--evaluator", "none", "--out", out)
    done = cli(*words, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["split"], document["clips"]) == ("eval sensitivity", "val", 48)
    rewards = document["rewards"]
    assert list(rewards) == ["tmr-dense", "physics", "judge", "tmr-dense + 0.1 physics"]
    assert rewards["tmr-dense"]["trained_against"] == ["mean-pose", "text-side"]
    assert rewards["physics"]["reads_text"] is False
    rows = {row["change"]: row for row in document["rows"]}
    scores = rows["mean-pose"]["scores"]
    assert scores["tmr-dense"]["trained_against"]
    assert scores["tmr-dense"]["n"] == 6
    assert scores["physics"]["seen"] is None
    assert scores["physics"]["fall_in_std"] is not None
    total = scores["tmr-dense + 0.1 physics"]
    assert total["real"] == pytest.approx(scores["tmr-dense"]["real"] + 0.1 * scores["physics"]["real"])
    assert rows["shuffled-frames"]["meaning"] == "all frames in any order"
    assert "text-order" in document["missing"] or "text-order" in rows
    page = Path(document["page"]).read_text()
    assert page.count("<motionkit-player ") >= 1
    assert "What is not seen" in page
    assert rewards["tmr-dense"]["sentence"][:20] in page
    record = json.loads((out / "evaluation.json").read_text())
    assert record["protocol"] == "sensitivity"
    assert record["result"]["rewards"] == rewards
    assert not document["opened_test"]
    assert "test_split_opened" not in json.loads((run / "run.json").read_text())

    again = cli(*words)
    assert again.exit_code == 2
    assert "--overwrite" in again.stderr
    few = cli(*words, "--overwrite", "--clips", 2)
    assert few.exit_code == 0, few.stderr
    assert "tmr-dense was asked too little: fewer than 5 clips a change" in few.stderr
    shown = cli(*words, "--overwrite", "--split", "test")
    assert shown.exit_code == 0, shown.stderr
    assert "shuffled-pieces" in shown.stdout
    assert "noted in" in shown.stderr
    assert "tmr-dense does not see" in shown.stderr or "tmr-dense scores unrelated" in shown.stderr
    (note,) = json.loads((run / "run.json").read_text())["test_split_opened"]
    assert note["command"].startswith("motionkit eval sensitivity ")


def test_inputs_are_opened_before_a_folder_is_made(kept, tmp_path: Path, cli: Cli) -> None:
    out = tmp_path / "out"
    done = cli("eval", "sensitivity", "--reward.weights", tmp_path / "absent", "--out", out)
    assert done.exit_code == 2
    assert "absent does not exist" in done.stderr
    assert not out.exists()
    done = cli("eval", "sensitivity", "--reward", "iou", "--out", out)
    assert done.exit_code == 2
    assert not out.exists()


BREAKS = """from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.contracts.reward import RewardScores

class Options(Group):
    pass

class Breaks:
    name = "breaks"

    def __init__(self, options, *, dataset=None, device="cpu"):
        self.left = AFTER

    def score(self, motions, prompts):
        self.left -= 1
        if self.left < 0:
            motions.joints[:, 0, 77]
        return RewardScores(motions.joints[:, 0, 0, 1])

component = Component("Breaks after some batches.", Options, f"{__name__}:Breaks")
"""


@pytest.mark.parametrize(("after", "code"), [(0, 2), (3, 1)])
def test_a_reward_file_that_breaks_is_one_error_without_a_traceback(
    kept, tmp_path: Path, cli: Cli, after: int, code: int
) -> None:
    """Before anything starts where it breaks at once, later in the audit."""
    file = tmp_path / f"breaks_{after}.py"
    file.write_text(BREAKS.replace("AFTER", str(after)))
    words = ("eval", "sensitivity", "--reward", file, "--clips", 6)
    done = cli(*words, "--device", "cpu", "--evaluator", "none", "--out", tmp_path / "out")
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr
    assert f"plugin file {file.name} raised IndexError: index 77 is out of bounds" in done.stderr
    assert f"in score, {file}, line 17." in " ".join(done.stderr.split())
    assert "--traceback shows the traceback" in " ".join(done.stderr.split())
    assert "Traceback" in cli(*words, "--evaluator", "none", "--out", tmp_path / "out", "--traceback").stderr
