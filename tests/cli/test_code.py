"""Settings files and run folders are data: what they name as code is not run, and the answer says what to type."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import Result

Cli = Callable[..., Result]

SOURCE = """
from pathlib import Path
import torch
from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.contracts.reward import RewardScores

Path({mark!r}).touch()

class Options(Group):
    gain: float = 1.0

class Still:
    name = "still"
    def __init__(self, options, *, dataset=None, device="cpu"):
        self.options = options
    def score(self, motions, prompts):
        pelvis = motions.joints[:, :, 0]
        total = torch.stack([-p[:n].diff(dim=0).norm(dim=-1).mean() for p, n in zip(pelvis, motions.lengths)])
        count = max(len(prompt.segments) for prompt in prompts)
        return RewardScores(total=total * self.options.gain, segments=total[:, None].repeat(1, count))

component = Component(summary="Standing still.", options=Options, factory=f"{{__name__}}:Still")
"""


@pytest.fixture
def energy(tmp_path: Path) -> tuple[Path, Path]:
    """Write a reward in a file of its own that leaves a mark when it is imported; return the file and the mark."""
    path, mark = tmp_path / f"energy_{tmp_path.name}.py", tmp_path / "ran"
    path.write_text(SOURCE.format(mark=str(mark)))
    return path, mark


def run_folder(folder: Path, reward: dict[str, Any]) -> Path:
    """Write what a run of grpo leaves, as a stranger may."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"reward": reward}))
    record = {"schema": 1, "kind": "motionkit-run", "id": "0", "command": "grpo", "created": "", "attempts": []}
    (folder / "run.json").write_text(json.dumps({**record, "status": "interrupted", "artifacts": []}))
    return folder


@pytest.mark.parametrize("form", ["json", "toml", "yaml", "--config RUN", "--resume RUN"])
def test_code_that_a_file_names_is_not_run(form: str, energy: tuple[Path, Path], cli: Cli) -> None:
    path, mark = energy
    name = f"{path}:component"
    texts = {
        "json": json.dumps({"reward": [name]}),
        "toml": f"[reward.{json.dumps(name)}]\nweight = 0.5\n",
        "yaml": f"reward:\n- {name}=0.5\n",
    }
    if form in texts:
        Path(f"a.{form}").write_text(texts[form])
        words: list[Any] = ["--config", f"a.{form}"]
    else:
        words = [form.split()[0], run_folder(Path("stranger"), {name: {"weight": 0.5}})]
    for more in ([], ["--dry-run"], ["--reward.gain", 2, "--dry-run"]):
        result = cli("grpo", *words, *more)
        assert result.exit_code == 2, result.stderr
        assert not mark.exists()
        if "--reward.gain" not in more:  # whose flag it is cannot be known without running it
            text = " ".join(result.stderr.split())
            assert f"reward names {name}, which is code." in text
            assert f"--reward {name}" in text
    assert cli("grpo", *words, "--help").exit_code == 0
    if words[0] == "--config":
        assert cli("config", "show", "grpo", *words).exit_code == 2
    else:
        assert cli("runs", "list", "--root", ".").exit_code == 0
        assert cli("runs", "show", "stranger").exit_code == 0
        assert cli("export", "stranger", "out").exit_code == 2
        assert cli("generate", "a man walks", "out", "--policy.checkpoint", "stranger").exit_code == 2
    assert not mark.exists()
    assert not Path("runs").exists()


def test_a_run_with_code_of_ones_own_goes_on_when_its_name_is_typed(
    energy: tuple[Path, Path], tiny: Any, cli: Cli
) -> None:
    name = f"{energy[0]}:component"
    more = ["--algorithm", "grpo", "--reward", f"{name}=0.25", "--reward.gain", 3, "--reward.alpha", 0.75]
    first = cli(*tiny.grpo("run", *more, steps=1))
    assert first.exit_code == 0, first.stderr
    refused = cli("grpo", "--resume", "run", "--num-steps", 2, "--json")
    assert refused.exit_code == 2
    error = json.loads(refused.stdout)["error"]
    assert error["message"] == f"run/config.json: reward names {name}, which is code."
    flags = shlex.split(error["fix"].partition("command: ")[2])
    assert flags == ["--reward", "tmr-dense", "--reward", name]
    resumed = cli("grpo", "--resume", "run", "--num-steps", 2, *flags)
    assert resumed.exit_code == 0, resumed.stderr
    reward = json.loads(Path("run/config.json").read_text())["reward"]
    assert (reward[name]["weight"], reward[name]["gain"], reward["tmr-dense"]["alpha"]) == (0.25, 3.0, 0.75)

    assert cli(*tiny.grpo("whole", *more, steps=2)).exit_code == 0
    for part in ("model", "optimizer", "random"):
        file = f"checkpoints/step-00000002/{part}.safetensors"
        mine, other = load_file(Path("run", file)), load_file(Path("whole", file))
        assert mine.keys() == other.keys()
        assert [key for key in mine if not torch.equal(mine[key].nan_to_num(), other[key].nan_to_num())] == []
    again = cli("grpo", "--config", "run", *flags, "--dry-run", "--json")
    assert json.loads(again.stdout)["settings"]["reward"] == reward
