"""Which algorithm a command takes, and what a run with the reward's gradient leaves behind."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from typer.testing import Result

from .conftest import DATA, Tiny

Cli = Callable[..., Result]

REWARD = '''
import torch
from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.rewards.base import RewardScores

class Options(Group):
    """None."""

class Still:
    name = "still"
    def __init__(self, options, **runtime): pass
    def score(self, motions, prompts):
        return RewardScores(-motions.joints.std((1, 2, 3)))

component = Component("Stands still", Options, __name__ + ":Still")
'''


def gradient(tiny: Tiny, out: Path | str, *more: object, steps: int = 4) -> list[str]:
    """A run of a second with the reward's gradient."""
    words = (
        "grpo", "--reward", "tmr-dense", *DATA, "--dataset.prompts", 24, "--out", out, "--num-steps", steps,
        "--policy.checkpoint", tiny.mdm, "--reward.weights", tiny.tmr, "--batch-size", 2,
        "--train-timesteps", 3, "--inference-timesteps", 3, "--set", "heldout.prompts=8", "--set", "heldout.samples=2",
        "--judge", "tmr-dense", "--judge.weights", tiny.tmr, *more,
    )  # fmt: skip
    return [str(word) for word in words]


def refused(cli: Cli, words: list[str], *texts: str) -> None:
    result = cli(*words)
    assert result.exit_code == 2, result.stderr
    for text in texts:
        assert text in " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def run(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    from typer.testing import CliRunner

    from motionkit.cli import get_app

    out = tmp_path_factory.mktemp("gradient") / "run"
    more = ("--set", "checkpoint.every=2", "--set", "checkpoint.keep=5", "--set", "heldout.points=2", "--json")
    return out, CliRunner().invoke(get_app(), gradient(tiny, out, *more))


def test_auto_takes_the_gradient_where_every_reward_has_one(run: tuple[Path, Result]) -> None:
    out, result = run
    assert result.exit_code == 0, result.stderr
    said = "algorithm reward-gradient (every reward has a gradient); --algorithm flow-grpo or grpo chooses another"
    assert said in result.stderr
    config = json.loads((out / "config.json").read_text())
    assert config["algorithm"] == "reward-gradient"
    assert "group_size" not in config["rollout"]
    document = json.loads(result.stdout)
    assert document["heldout"].keys() == {"reward", "judge", "skate", "jerk", "speed", "path", "diversity"}
    assert document["heldout_all_steps"]["reward"]["n"] == 8
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    measured = [line["step"] for line in lines if "heldout/reward/mean" in line]
    assert measured == [0, 1, 2, 4]
    assert {"loss/policy", "loss/physics", "loss/anchor", "loss/hold", "grad/norm"} <= lines[1].keys()
    assert not any(name.startswith(("ratio/", "advantage/")) for name in lines[1])


def test_resume_gives_the_same_bits(run: tuple[Path, Result], tiny: Tiny, cli: Cli) -> None:
    out, _ = run
    shutil.copytree(out, "again")
    result = cli("grpo", "--resume", "again/checkpoints/step-00000002", "--json")
    assert result.exit_code == 0, result.stderr
    last = "checkpoints/step-00000004/model.safetensors"
    one, other = (safetensors.torch.load_file(folder / last) for folder in (out, Path("again")))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    first, second = (json.loads((folder / "run.json").read_text())["summary"] for folder in (out, Path("again")))
    assert first["heldout"] == second["heldout"]


@pytest.mark.parametrize(
    "option", [("--group-size", "4"), ("--clip-range", "0.1"), ("--kl-coef", "0.1"), ("--credit", "sample")]
)
def test_an_option_of_one_algorithm_chooses_it_and_is_refused_by_another(
    option: tuple[str, str], tiny: Tiny, cli: Cli
) -> None:
    chosen = cli(*gradient(tiny, "run", *option, "--dry-run"))
    assert chosen.exit_code == 0, chosen.stderr
    assert "algorithm grpo (reward-gradient has no " in chosen.stderr
    words = gradient(tiny, "run", "--algorithm", "reward-gradient", *option)
    refused(cli, words, "of algorithm flow-grpo and grpo", "--algorithm flow-grpo or grpo")
    assert not Path("run").exists()


def test_a_reward_without_gradient_needs_grpo(tiny: Tiny, cli: Cli) -> None:
    Path("still.py").write_text(REWARD)
    both = ("--reward", "./still.py:component=0.1", "--reward.weights", str(tiny.tmr))
    chosen = cli(*gradient(tiny, "run", *both, "--dry-run"))
    assert chosen.exit_code == 0, chosen.stderr
    assert "algorithm grpo (./still.py:component has no gradient)" in chosen.stderr
    words = gradient(tiny, "run", *both, "--algorithm", "reward-gradient")
    refused(cli, words, "the reward ./still.py:component has no gradient", "--algorithm grpo")
    assert not Path("run").exists()


def test_the_control_draws_signs_and_has_no_physics(tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", "--set", "control.shuffle=true", "--set", "heldout.prompts=0", steps=2))
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert "loss/physics" not in lines[-1]


def flow(tiny: Tiny, out: Path | str, *more: object) -> list[str]:
    """Flow-GRPO on a policy of ten steps."""
    words = ("--algorithm", "flow-grpo", "--train-timesteps", 8, "--inference-timesteps", 10, *more)
    return tiny.grpo(out, *words, steps=4)


def test_flow_grpo_from_end_to_end_and_resumed(tiny: Tiny, cli: Cli) -> None:
    more = ("--set", "checkpoint.every=2", "--set", "checkpoint.keep=5", "--set", "sampler.window=sliding")
    more += ("--set", "sampler.window_every=1", "--set", "objective.kl_target=0.001", "--json")
    result = cli(*flow(tiny, "run", *more))
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["heldout"]["reward"]["n"] == 4
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert lines[1]["audit/first_ratio_per_dim"] <= 1e-6
    assert "kl/coefficient" in lines[1]
    shutil.copytree("run", "again")
    assert cli("grpo", "--resume", "again/checkpoints/step-00000002", "--json").exit_code == 0
    last = "checkpoints/step-00000004/model.safetensors"
    one, other = (safetensors.torch.load_file(Path(folder) / last) for folder in ("run", "again"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_noise_scale_chooses_flow_grpo_and_the_plan_says_what_noise_stays(tiny: Tiny, cli: Cli) -> None:
    words = flow(tiny, "run", "--noise-scale", 0.5, "--dry-run", "--json")
    at = words.index("--algorithm")
    result = cli(*words[:at], *words[at + 2 :])
    assert result.exit_code == 0, result.stderr
    assert "algorithm flow-grpo (only it has sampler.noise_scale)" in result.stderr
    assert 0 < json.loads(result.stdout)["plan"]["sampler_noise"] < 1.5


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (("--inference-timesteps", 40), ("--inference-timesteps is 40", "trained with 10 steps")),
        (("--train-timesteps", 11), ("--train-timesteps is 11", "trained with 10 steps")),
        (("--set", "sampler.window_size=7"), ("a window of 7 steps", "sampler.ode_steps")),
        (("--set", "sampler.window=snr"), ("sampler.window_size = 2", "sampler.window fixed or sliding only")),
        (("--set", "sampler.kind=cps", "--noise-scale", 1.5), ("noise_scale", "at most 1")),
        (("--set", "rollout.low_pass=12"), ("12 Hz", "rollout.low_pass")),
    ],
)
def test_what_flow_grpo_cannot_do(words: tuple[object, ...], texts: tuple[str, ...], tiny: Tiny, cli: Cli) -> None:
    refused(cli, flow(tiny, "run", *words), *texts)
    assert not Path("run").exists()
