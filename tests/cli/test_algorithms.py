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

from motionkit.text_to_motion.grpo.measurements import Measurements

from .conftest import DATA, Tiny

Cli = Callable[..., Result]

REWARD = '''
import torch
from motionkit.config import Group
from motionkit.plugins import Component
from motionkit.contracts.reward import RewardScores

class Options(Group):
    """None."""

class Still:
    name = "still"
    def __init__(self, options, **runtime): pass
    def score(self, motions, prompts):
        return RewardScores(-torch.from_numpy(motions.joints.numpy()).std((1, 2, 3)))

class Zero(Still):
    name = "zero"
    def score(self, motions, prompts):
        return RewardScores(0.0 * motions.features.sum((1, 2)))

class NotFinite(Still):
    name = "bad"
    def score(self, motions, prompts):
        return RewardScores((0.0 * motions.features).abs().sqrt().sum((1, 2)))  # d sqrt(0) is not finite

component = Component("Stands still", Options, __name__ + ":Still")
zero = Component("No slope", Options, __name__ + ":Zero", gradient=True)
bad = Component("No finite slope", Options, __name__ + ":NotFinite", gradient=True)
'''

CLOSED = """
import torch
from motionkit import plugins
from motionkit.plugins import Component

mdm = plugins.get("policies", "mdm")

def closed(options, **runtime):
    policy = mdm.build(options, **runtime)
    honest = policy.predict
    policy.predict = torch.no_grad()(lambda *args, **given: honest(*args, **given))
    return policy

component = Component("Keeps no graph", mdm.options, __name__ + ":closed", gives="diffusion")
"""


def gradient(tiny: Tiny, out: Path | str, *more: object, steps: int = 4) -> list[str]:
    """A run of a second with the reward's gradient."""
    words = (
        "grpo", "--reward", "tmr-dense", *DATA, "--dataset.prompts", 24, "--out", out, "--num-steps", steps,
        "--policy.checkpoint", tiny.mdm, "--reward.weights", tiny.tmr, "--batch-size", 2,
        "--train-timesteps", 3, "--inference-timesteps", 3, "--set", "heldout.prompts=8", "--set", "heldout.samples=2",
        "--judge", "tmr-dense", "--judge.weights", tiny.tmr,
        "--set", "audit.enabled=false", *more,  # a second for each run; tests/cli/test_grpo_command.py has it on
    )  # fmt: skip
    return [str(word) for word in words]


FEW = ("--set", "heldout.prompts=2", "--set", "heldout.all_steps=off")
"""For runs that are not about what is measured."""
HALVES = ("--set", "checkpoint.every=1", "--set", "checkpoint.keep=5")


def ends_in_the_same_bits(cli: Cli, *words: str, parts: tuple[str, ...] = ("model",)) -> None:
    """Resume the run in the folder ``run``, of two steps, behind its first one."""
    shutil.copytree("run", "again")
    result = cli("grpo", "--resume", "again/checkpoints/step-00000001", *words, "--json")
    assert result.exit_code == 0, result.stderr
    for part in parts:
        last = f"checkpoints/step-00000002/{part}.safetensors"
        one, other = (safetensors.torch.load_file(Path(folder) / last) for folder in ("run", "again"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


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
    assert "algorithm reward-gradient, because every reward has a gradient; grpo itself and" in " ".join(
        result.stderr.split()
    )
    config = json.loads((out / "config.json").read_text())
    assert config["algorithm"] == "reward-gradient"
    assert "group_size" not in config["rollout"]
    document = json.loads(result.stdout)
    named = {"reward", "judge", "movement", "statues", "side", "skate", "jerk", "speed", "path"}
    assert document["heldout"].keys() == named | {"diversity", "kid"}
    assert document["heldout_all_steps"].keys() == document["heldout_generate"].keys() == named | {"kid"}
    assert document["heldout_all_steps"]["reward"]["n"] == 8
    # It is tuned and measured without guidance, and generate samples it so; so is the policy before training measured.
    assert json.loads((out / "policy" / "policy.json").read_text())["guidance"] == 1.0
    for name in named:
        one, other = (document[f"heldout_{key}"][name] for key in ("generate", "all_steps"))
        for when in ("before", "after"):
            assert one[when] == pytest.approx(other[when], rel=1e-5, nan_ok=True), (name, when)
    # What the change of guidance alone does stands beside it.
    alone = document["guidance"]
    assert (alone["before"], alone["after"]) == (2.5, 1.0)
    assert alone["reward"]["after"] == pytest.approx(document["heldout_generate"]["reward"]["before"], rel=1e-5)
    assert alone["reward"]["before"] != alone["reward"]["after"]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    measured = [line["step"] for line in lines if "heldout/reward/mean" in line]
    assert measured == [0, 2, 4]
    assert {"loss/policy", "loss/physics", "loss/anchor", "loss/hold", "loss/data", "grad/norm"} <= lines[1].keys()
    assert not any(name.startswith(("ratio/", "advantage/")) for name in lines[1])


@pytest.mark.parametrize("stays", [True, False])
def test_the_policy_stores_the_guidance_that_was_chosen(
    stays: bool, tiny: Tiny, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measurements, "choose_guidance", lambda self, run: stays)
    result = cli(*gradient(tiny, tmp_path / "run", *FEW, steps=1))
    assert result.exit_code == 0, result.stderr
    stored = json.loads((tmp_path / "run" / "policy" / "policy.json").read_text())["guidance"]
    assert stored == (2.5 if stays else 1.0)


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
    "option",
    [
        ("--group-size", "4"),
        ("--clip-range", "0.1", "--inner-epochs", "2"),
        ("--kl-coef", "0.1"),
        ("--credit", "sample"),
    ],
)
def test_an_option_of_one_algorithm_chooses_it_and_is_refused_by_another(
    option: tuple[str, ...], tiny: Tiny, cli: Cli
) -> None:
    chosen = cli(*gradient(tiny, "run", *option, "--dry-run"))
    assert chosen.exit_code == 0, chosen.stderr
    assert "algorithm grpo, because " in chosen.stderr
    refused(cli, gradient(tiny, "run", "--algorithm", "reward-gradient", *option), "--algorithm ", "grpo")
    assert not Path("run").exists()


def still(tiny: Tiny) -> tuple[str, ...]:
    """The reward in still.py, which declares no gradient, beside TMR."""
    Path("still.py").write_text(REWARD)
    return "--reward", "./still.py:component=0.1", "--reward.weights", str(tiny.tmr)


def test_a_mixture_takes_both_ways_and_resumes_to_the_same_bits(tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", *still(tiny), *HALVES, *FEW, "--group-size", "2", "--json", steps=2))
    assert result.exit_code == 0, result.stderr
    assert "algorithm mixed, because ./still.py:component has no gradient, tmr-dense has one; " in result.stderr
    assert json.loads(Path("run/config.json").read_text())["algorithm"] == "mixed"
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    parts = {"loss/policy", "loss/reward", "loss/hold", "loss/physics", "advantage/std", "ratio/mean"}
    assert parts <= lines[1].keys()
    assert lines[1]["loss/reward"] == pytest.approx(-lines[1]["reward/tmr-dense/mean"], abs=1e-6)
    ends_in_the_same_bits(cli, "--reward", "tmr-dense", *still(tiny)[:2])


@pytest.mark.parametrize("name", ["reward-gradient", "easytune"])
def test_a_reward_without_gradient_is_refused_by_name(name: str, tiny: Tiny, cli: Cli) -> None:
    words = gradient(tiny, "run", *still(tiny), "--algorithm", name)
    refused(
        cli, words, "the reward still has no gradient", name, "--algorithm mixed follows the gradient of the others"
    )
    weights = words.index("--reward.weights")
    alone = [*words[:1], *words[3:weights], *words[weights + 2 :]]  # without tmr-dense
    weights = alone.index("--reward.weights")
    refused(
        cli,
        alone[:weights] + alone[weights + 2 :],
        "the reward still has no gradient",
        "--algorithm awm or grpo needs no",
    )
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("name", "reward", "what"), [("reward-gradient", "zero", "a zero"), ("mixed", "bad", "no finite")]
)
def test_a_gradient_that_is_not_there_stops_the_first_step(
    name: str, reward: str, what: str, tiny: Tiny, cli: Cli
) -> None:
    box = still(tiny)[:2]
    more = ("--algorithm", name, "--set", "heldout.prompts=0", *(box if name == "mixed" else ()))
    result = cli(*gradient(tiny, reward, *more, "--reward", f"./still.py:{reward}"))
    assert result.exit_code == 1, result.stderr
    said = " ".join(result.stderr.split())
    assert f"the reward {reward} has {what} gradient in any of the" in said
    assert f"why {name} follows the gradient" in said
    assert "--algorithm awm or grpo" in said


def test_a_policy_without_a_gradient_stops_the_first_step(tiny: Tiny, cli: Cli) -> None:
    Path("closed.py").write_text(CLOSED)
    more = ("--algorithm", "easytune", "--set", "heldout.prompts=0")
    result = cli(*gradient(tiny, "closed", *more, "--policy", "./closed.py:component"))
    assert result.exit_code == 1, result.stderr
    assert "the policy's prediction has no gradient in its trained parameters" in " ".join(result.stderr.split())


def test_easytune_from_start_to_end(tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", *HALVES, *FEW, "--set", "objective.step_weight=signal", "--json", steps=2))
    assert result.exit_code == 0, result.stderr
    assert "algorithm easytune, because only it has objective.step_weight" in result.stderr
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert {"loss/policy", "loss/physics", "loss/anchor", "loss/hold", "grad/norm"} <= lines[1].keys()
    ends_in_the_same_bits(cli)


def test_the_control_draws_signs_and_has_no_physics(tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", "--set", "control.shuffle=true", "--set", "heldout.prompts=0", steps=2))
    assert result.exit_code == 0, result.stderr
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert "loss/physics" not in lines[-1]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("awm", ("--kl-coef", "0.1")),
        ("nft", ("--set", "rollout.averaged=true", "--inner-epochs", "2")),
        ("dpo", ("--set", "objective.sync_every=1")),
    ],
)
def test_algorithms_on_finished_samples_run_and_resume(name: str, more: tuple[str, ...], tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", "--algorithm", name, "--group-size", "3", *more, *HALVES, *FEW, steps=2))
    assert result.exit_code == 0, result.stderr
    assert json.loads(Path("run/config.json").read_text())["algorithm"] == name
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert {"loss/policy", "loss/anchor", "loss/hold", "match/error", "grad/norm"} <= lines[1].keys()
    ends_in_the_same_bits(cli, parts=("model", "reference") if name == "dpo" else ("model",))


def flow(tiny: Tiny, out: Path | str, *more: object) -> list[str]:
    """Flow-GRPO on a policy of ten steps."""
    words = ("--algorithm", "flow-grpo", "--train-timesteps", 8, "--inference-timesteps", 10, *more)
    return tiny.grpo(out, *words, steps=2)


def test_flow_grpo_from_end_to_end_and_resumed(tiny: Tiny, cli: Cli) -> None:
    sliding = ("--set", "sampler.window=sliding", "--set", "sampler.window_every=1")
    more = (*HALVES, *sliding, "--set", "objective.kl_target=0.001", "--json")
    result = cli(*flow(tiny, "run", *more))
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["heldout"]["reward"]["n"] == 4
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert lines[1]["audit/first_ratio_per_dim"] <= 1e-6
    assert "kl/coefficient" in lines[1]
    ends_in_the_same_bits(cli)


def test_the_noise_scale_chooses_flow_grpo_and_the_plan_says_what_noise_stays(tiny: Tiny, cli: Cli) -> None:
    words = flow(tiny, "run", "--noise-scale", 0.5, "--dry-run", "--json")
    at = words.index("--algorithm")
    result = cli(*words[:at], *words[at + 2 :])
    assert result.exit_code == 0, result.stderr
    assert "algorithm flow-grpo, because only it has sampler.noise_scale" in result.stderr
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


def test_sampling_from_an_average_that_is_not_kept_is_refused(tiny: Tiny, cli: Cli) -> None:
    words = ("--algorithm", "nft", "--set", "rollout.averaged=true", "--set", "ema.decay=0")
    refused(cli, gradient(tiny, "run", *words), "no moving average to sample from", "ema.decay")
    assert not Path("run").exists()


def test_a_mixture_of_one_kind_says_what_is_cheaper(tiny: Tiny, cli: Cli) -> None:
    result = cli(*gradient(tiny, "run", "--algorithm", "mixed", "--set", "heldout.prompts=0", steps=1))
    assert result.exit_code == 0, result.stderr
    assert "every reward has a gradient: --algorithm reward-gradient does the same" in result.stderr
