"""The main job from end to end, as a user types it, with its audit and with a reward that is a function."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import Result

from motionkit import load_policy, starter
from motionkit.text_to_motion import matmul as _matmul
from motionkit.tracking import definition
from motionkit.training import device, memory

from ..made.commands import assert_refused
from ..text_to_motion.rewards.test_function import FILE
from .conftest import Tiny

Cli = Callable[..., Result]

EVERY_STEP = {
    "loss/total", "loss/policy", "loss/kl", "reward/mean", "reward/std", "reward/min", "reward/max", "advantage/mean",
    "advantage/std", "logp/current_per_dim", "logp/reference_per_dim", "ratio/mean", "ratio/clip_fraction",
    "kl/nats_per_dim", "grad/norm", "optim/learning_rate", "group/zero_variance", "reward/tmr-dense/mean",
}  # fmt: skip


@pytest.fixture(scope="module")
def straight(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A run of three steps that nothing disturbed."""
    from typer.testing import CliRunner

    from motionkit.cli import get_app

    out = tmp_path_factory.mktemp("straight") / "run"
    result = CliRunner().invoke(get_app(), tiny.grpo(out, "--json"))
    assert result.exit_code == 0, result.stderr
    return out, result


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def last(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Every tensor of the run's last checkpoint."""
    folder = run / "checkpoints" / (run / "checkpoints" / "last").read_text().strip()
    return {path.stem: load_file(path) for path in folder.glob("*.safetensors")}


def points(run: Path) -> dict[int, tuple[str, bytes]]:
    """The motions that were kept on the way, by step."""
    files = {int(path.stem[5:]): np.load(path) for path in (run / "heldout").glob("step-*.npz")}
    return {step: (str(file["about"]), file["features"].tobytes()) for step, file in files.items()}


def assert_same_bits(mine: dict[str, dict[str, torch.Tensor]], theirs: dict[str, dict[str, torch.Tensor]]) -> None:
    assert mine.keys() == theirs.keys()
    for group, tensors in mine.items():
        assert tensors.keys() == theirs[group].keys()
        for name, value in tensors.items():
            assert torch.equal(value.nan_to_num(), theirs[group][name].nan_to_num()), f"{group}: {name}"


@pytest.mark.parametrize("command", ["pretrain tmr", "pretrain mdm"])
def test_pretraining_leaves_a_run_and_a_document(command: str, tiny: Any) -> None:
    document = json.loads(tiny.documents[command])
    assert (document["schema"], document["command"], document["status"], document["steps"]) == (1, command, "done", 3)
    name = "tmr" if command.endswith("tmr") else "policy"
    run = Path(document["run"])
    assert (run / name / "model.safetensors").is_file()
    assert [line["step"] for line in metrics(run)][-3:] == [1, 2, 3]


def test_the_document_is_the_contract(straight: tuple[Path, Result]) -> None:
    run, result = straight
    document = json.loads(result.stdout)
    assert list(document) == [
        "schema", "command", "status", "run", "steps", "seconds", "cpu_seconds", "heldout", "metrics",
        "guidance", "heldout_generate", "heldout_all_steps", "measured_by",
    ]  # fmt: skip
    assert "evaluator of the starter pack, 64 wide" in document["measured_by"]["said"]
    assert document["measured_by"]["notes"] == []
    assert document["guidance"] == {"before": 2.5, "after": 2.5}, "no other prompts to decide on: the stored one stays"
    assert (document["schema"], document["command"], document["status"]) == (1, "grpo", "done")
    assert (document["run"], document["steps"]) == (str(run), 3)
    assert document["cpu_seconds"] > 0
    moving = {"movement", "statues", "side"}
    plain = {"reward", "judge", "skate", "jerk", "speed", "path", "diversity", "kid"}
    assert plain | moving == document["heldout"].keys(), "4 prompts are too few for R@3"
    for name, block in document["heldout"].items():
        # A prompt has one reference motion, so no diversity of them, and few for a KID; no caption need name a side.
        assert block.keys() - {"real"} == {"before", "after", "delta", "ci95", "n"}
        assert name in ("diversity", "side", "kid") or "real" in block
        if name in moving:
            assert 0 <= block["n"] <= 4
            continue
        assert block["delta"] == pytest.approx(block["after"] - block["before"], abs=1e-9)
        assert block["ci95"][0] <= block["delta"] <= block["ci95"][1]
        assert block["n"] == 4
    assert document["heldout"]["movement"]["real"] == pytest.approx(1.0, abs=0.3)
    assert document["heldout"]["statues"]["real"] == 0.0
    assert "diversity" not in document["heldout_generate"]
    # The judge of this test is the reward itself.
    assert document["heldout"]["judge"] == document["heldout"]["reward"]
    assert document["metrics"].keys() >= EVERY_STEP


def test_the_files_of_a_run(straight: tuple[Path, Result]) -> None:
    run, _ = straight
    assert {path.name for path in run.iterdir() if not path.name.startswith(".")} == {
        "config.json", "run.json", "metrics.jsonl", "log.txt", "checkpoints", "policy", "heldout",
        "report.html",
    }  # fmt: skip
    assert (run / "checkpoints" / "last").read_text() == "step-00000003\n"
    saved = {path.name for path in (run / "checkpoints" / "step-00000003").iterdir()}
    assert {"model.safetensors", "optimizer.safetensors", "state.json"} <= saved
    record = json.loads((run / "run.json").read_text())
    assert (record["command"], record["status"], record["exit_code"]) == ("grpo", "done", 0)
    assert len(record["attempts"]) == 1
    assert not [path for path in run.rglob("*") if path.suffix in (".pt", ".pkl", ".ckpt")]
    assert not list(run.rglob(".tmp-*"))


def test_motions_of_the_measurement_are_kept_to_be_looked_at(straight: tuple[Path, Result]) -> None:
    run, result = straight
    before, after, real = (np.load(run / "heldout" / f"{name}.npz") for name in ("before", "after", "real"))
    told, heldout = json.loads(str(before["about"])), json.loads(result.stdout)["heldout_generate"]
    assert json.loads(str(real["about"]))["texts"] == told["texts"]
    assert len(told["texts"]) == heldout["reward"]["n"]
    assert before["features"].shape == after["features"].shape == (sum(rows[-1][1] for rows in told["bounds"]), 263)
    assert not np.array_equal(before["features"], after["features"])
    means = [sum(parts) / len(parts) for parts in told["segments"]]
    assert told["rewards"] == pytest.approx(means, abs=1e-6)


def test_every_metric_of_every_step(straight: tuple[Path, Result]) -> None:
    run, _ = straight
    lines = metrics(run)
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    for line in lines[1:]:
        assert line.keys() >= EVERY_STEP
        assert all(np.isfinite(line[name]) for name in EVERY_STEP)
        assert line["time/step"] < 2
    for line in lines:
        for name in line.keys() - {"step", "seconds"}:
            assert definition(name)
    assert lines[1]["audit/first_ratio_per_dim"] <= 1e-6
    assert lines[1]["ratio/mean"] == pytest.approx(1.0, abs=1e-5)
    # Before the first update the policy is its own reference.
    assert lines[1]["logp/reference_per_dim"] == pytest.approx(lines[1]["logp/current_per_dim"], abs=1e-5)
    assert lines[1]["kl/nats_per_dim"] == pytest.approx(0.0, abs=1e-9)


def test_the_run_learnt_something_and_kept_the_rest(straight: tuple[Path, Result], tiny: Any) -> None:
    before, after = (load_policy(folder).tensors() for folder in (tiny.mdm, straight[0]))
    assert before.keys() == after.keys()
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    # Adapters on attention and text are the default; merged, they are those layers' weights.
    assert changed == {
        name for name in before if name == "embed_text.weight" or (".self_attn." in name and name.endswith(".weight"))
    }


def test_kl_is_measured_to_the_reference_that_is_named(straight: tuple[Path, Result], tiny: Any, cli: Cli) -> None:
    """Here the policy that another run has trained: the KL is not 0 before the first update."""
    result = cli(*tiny.grpo("far", "--reference", straight[0], "--set", "heldout.prompts=0", steps=1))
    assert result.exit_code == 0, result.stderr
    assert metrics(Path("far"))[-1]["kl/nats_per_dim"] > 1e-9
    assert json.loads(Path("far/config.json").read_text())["policy"]["reference"] == str(straight[0])


def test_its_settings_start_the_same_run_again(straight: tuple[Path, Result], cli: Cli) -> None:
    run, _ = straight
    result = cli("grpo", "--config", run / "config.json", "--out", "again", "--json")
    assert result.exit_code == 0, result.stderr
    assert_same_bits(last(Path("again")), last(run))


def test_without_json_there_is_a_table(tiny: Any, cli: Cli) -> None:
    result = cli(*tiny.grpo("run", steps=1))
    assert result.exit_code == 0, result.stderr
    for word in ("before", "after", "verdict", "too few", "reward", "judge", "skate (m/s)", "jerk (m/s³)"):
        assert word in result.stdout
    talk = result.stderr
    order = [
        "loading",
        "measuring",
        "step 1: held-out reward",
        "after training",
        "The reward",
        "done: run",
        "page: run",
    ]
    assert [talk.index(word) for word in order] == sorted(talk.index(word) for word in order)
    assert "next: motionkit generate" in talk
    log = Path("run/log.txt").read_text()
    for word in (*order[1:], "too few", "skate (m/s)"):
        assert word in log
    assert "verdict" in cli("runs", "show", "run").stdout


def test_resume_of_a_finished_run_equals_a_longer_one(straight: tuple[Path, Result], tiny: Any, cli: Cli) -> None:
    assert cli(*tiny.grpo("run", steps=1)).exit_code == 0
    late = Path("run/heldout/step-00000002.npz")
    late.write_bytes(b"of an attempt that was killed after its last checkpoint")
    result = cli("grpo", "--resume", "run", "--num-steps", 3, "--json")
    assert result.exit_code == 0, result.stderr
    assert not late.exists()
    assert points(Path("run")) == points(straight[0]) | {1: points(Path("run"))[1]}
    document, other = json.loads(result.stdout), json.loads(straight[1].stdout)
    assert document["heldout"] == other["heldout"]
    assert_same_bits(last(Path("run")), last(straight[0]))
    assert [line["step"] for line in metrics(Path("run"))] == [0, 1, 2, 3]
    record = json.loads(Path("run/run.json").read_text())
    assert [part["start_step"] for part in record["attempts"]] == [0, 1]


def test_motions_on_the_way_change_no_bit_of_the_run(straight: tuple[Path, Result], tiny: Any, cli: Cli) -> None:
    assert cli(*tiny.grpo("run", "--set", "heldout.motions=0")).exit_code == 0
    kept = points(straight[0])
    assert sorted(kept) == [0, 3]
    about = json.loads(kept[3][0])
    assert about["texts"] == json.loads(kept[0][0])["texts"]
    assert kept[0][1] != kept[3][1]
    assert points(Path("run")) == {}
    assert_same_bits(last(Path("run")), last(straight[0]))

    def timeless(run: Path) -> list[dict[str, Any]]:
        lines = metrics(run)
        return [{key: v for key, v in line.items() if not key.startswith(("time/", "seconds"))} for line in lines]

    assert timeless(Path("run")) == timeless(straight[0])
    # How many are kept is no part of what is trained, and may change.
    longer = cli("grpo", "--resume", "run", "--num-steps", 4, "--set", "heldout.motions=2")
    assert longer.exit_code == 0, longer.stderr
    assert {step: len(json.loads(told)["texts"]) for step, (told, _) in points(Path("run")).items()} == {4: 2}


def test_resume_keeps_the_library_of_matrix_products(tiny: Any, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the reward, which takes any rounding: this CPU may have AMX."""
    monkeypatch.setattr(device, "rounding", lambda: 0.0)
    monkeypatch.setattr(_matmul, "rounding", lambda: 0.0)
    monkeypatch.setattr(_matmul, "_predict", lambda *_: torch.ones(1))

    def prefer(onednn: bool) -> None:
        monkeypatch.setattr(_matmul, "prefers_onednn", lambda width, tokens: onednn)

    def words(out: str, steps: int) -> list[str]:
        given = tiny.grpo(out, "--algorithm", "reward-gradient", "--set", "optim.schedule=constant", steps=steps)
        for option, count in (("--group-size", 2), ("sampler.window_size=2", 1)):
            place = given.index(option) - (count == 1)
            del given[place : place + 2]
        return given

    def library(run: str) -> str:
        return str(json.loads(Path(run, "run.json").read_text())["cpu_matmul"])

    prefer(True)
    assert cli(*words("straight", 2)).exit_code == 0
    assert cli(*words("run", 1)).exit_code == 0
    prefer(False)
    assert cli(*words("other", 1)).exit_code == 0
    assert (library("straight"), library("run"), library("other")) == ("onednn", "onednn", "default")
    assert_refused(
        cli("grpo", "--resume", "run", "--num-steps", 2, "--cpu-matmul", "default"), "cpu_matmul was onednn, is default"
    )
    resumed = cli("grpo", "--resume", "run", "--num-steps", 2)
    assert resumed.exit_code == 0, resumed.stderr
    assert library("run") == "onednn"
    assert_same_bits(last(Path("run")), last(Path("straight")))


def test_ctrl_c_saves_and_resume_comes_to_the_same_bits(tiny: Any, cli: Cli) -> None:
    ended = threading.Event()

    def interrupt() -> None:
        file = Path("run/metrics.jsonl")
        while not (ended.wait(0.01) or (file.is_file() and '"step": 1' in file.read_text())):
            pass
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    watching = threading.Thread(target=interrupt)
    watching.start()
    try:
        stopped = cli(*tiny.grpo("run", steps=100_000), "--json")
    finally:
        ended.set()
        watching.join()
    stdout, stderr = stopped.stdout, stopped.stderr
    assert stopped.exit_code == 130, stderr
    assert "motionkit grpo --resume run" in stderr
    assert "Traceback" not in stderr
    document = json.loads(stdout)
    assert document["status"] == "interrupted"
    reached = document["steps"]
    assert reached >= 1
    assert (Path("run/checkpoints/last")).read_text() == f"step-{reached:08d}\n"

    total = reached + 2
    result = cli("grpo", "--resume", "run", "--num-steps", total, "--json")
    assert result.exit_code == 0, result.stderr
    whole = cli(*tiny.grpo("whole", "--json", steps=total))
    assert whole.exit_code == 0, whole.stderr
    assert_same_bits(last(Path("run")), last(Path("whole")))
    assert json.loads(result.stdout)["heldout"] == json.loads(whole.stdout)["heldout"]
    assert [line["step"] for line in metrics(Path("run"))] == list(range(total + 1))


def test_a_run_with_physics_is_resumed_and_its_settings_are_read(tiny: Any, cli: Cli) -> None:
    more = ("--reward", "physics=0.25", "--reward.heights", "0.05,0.04,0.05,0.04")
    assert cli(*tiny.grpo("run", *more, steps=1)).exit_code == 0
    resumed = cli("grpo", "--resume", "run", "--num-steps", 2)
    assert resumed.exit_code == 0, resumed.stderr
    assert cli(*tiny.grpo("whole", *more, steps=2)).exit_code == 0
    assert_same_bits(last(Path("run")), last(Path("whole")))
    again = cli("grpo", "--config", "run", "--dry-run", "--json")
    assert again.exit_code == 0, again.stderr
    reward = json.loads(again.stdout)["settings"]["reward"]
    assert reward == json.loads(Path("whole/config.json").read_text())["reward"]
    assert (reward["physics"]["weight"], reward["physics"]["heights"]) == (0.25, [0.05, 0.04, 0.05, 0.04])


def test_resume_refuses_what_would_change_the_run(straight: tuple[Path, Result], cli: Cli) -> None:
    assert_refused(cli("grpo", "--resume", straight[0], "--group-size", 4), "rollout.group_size was 2, is 4")


def test_lora_trains_adapters_only(tiny: Any, cli: Cli) -> None:
    result = cli(*tiny.grpo("run", "--lora", "--lora.r", 4, "--json", steps=2))
    assert result.exit_code == 0, result.stderr
    names = last(Path("run"))["model"]
    before = load_file(tiny.mdm / "policy" / "model.safetensors")
    adapters = {name for name in names if "lora_" in name}
    assert adapters
    assert any(bool((names[name] != 0).any()) for name in adapters if "lora_B" in name)
    plain = {name.replace(".base_layer", ""): value for name, value in names.items() if name not in adapters}
    assert plain.keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in plain.items())
    resumed = cli("grpo", "--resume", "run", "--num-steps", 3, "--json")
    assert resumed.exit_code == 0, resumed.stderr
    assert cli(*tiny.grpo("whole", "--lora", "--lora.r", 4, steps=3)).exit_code == 0
    assert_same_bits(last(Path("run")), last(Path("whole")))


def test_a_dry_run_makes_nothing(tiny: Any, cli: Cli) -> None:
    result = cli(*tiny.grpo("run", "--dry-run", "--json"))
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["settings"]["rollout"]["group_size"] == 2
    assert document["origins"]["rollout.group_size"] == "command line"
    assert document["plan"]["samples_per_update"] == 4
    text = cli(*tiny.grpo("run", "--dry-run")).stdout
    assert "sampler.eta = 1.0 (default)" in " ".join(text.split())
    assert not list(Path().iterdir())
    assert "notes" not in document["plan"]
    more = json.loads(cli(*tiny.grpo("run", "--dry-run", "--json", "--set", "heldout.prompts=9999")).stdout)["plan"]
    there = more["heldout_prompts"]
    assert more["notes"] == [
        f"heldout.prompts asks for 9999 held-out prompts, and the val split has {there}: the tables and the points on "
        f"the way are of {there}"
    ]


def test_a_step_that_is_larger_than_the_card(
    tiny: Any, cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    words = tiny.grpo("run", "--dry-run", "--json")
    plan = json.loads(cli(*words).stdout)["plan"]["step"]
    assert plan.startswith("a step takes up to ")
    assert "may not fit" not in caplog.text
    monkeypatch.setattr(memory, "total_memory", lambda device: 1_000_000)
    assert cli(*words).exit_code == 0, "it is a warning"
    assert "a step may not fit into the 0.001 GB of cpu: a step takes up to" in caplog.text


def test_a_reward_of_other_data_is_named(tiny: Any, cli: Cli, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A TMR of one's own clips beside the starter's prompts, which passed without a word."""
    copy = tmp_path / "tmr"
    shutil.copytree(tiny.tmr / "tmr", copy)
    assert cli(*tiny.grpo("run", "--dry-run", "--json")).exit_code == 0
    assert "was trained on" not in caplog.text  # the same data
    config = json.loads((copy / "config.json").read_text())
    assert config["trained_on"]["name"] == "starter"
    config["trained_on"] = {"name": "humanml", "root": "/data/mocap", "statistics": "0123456789abcdef"}
    (copy / "config.json").write_text(json.dumps(config))
    result = cli(*tiny.grpo("run", "--dry-run", "--json", "--reward.weights", copy, "--judge.weights", copy))
    assert result.exit_code == 0, result.stderr
    assert "reward.tmr-dense was trained on humanml (/data/mocap), and the prompts are of starter" in caplog.text


def test_the_policy_says_what_it_was_trained_on(straight: tuple[Path, Result], tiny: Any) -> None:
    for folder in (tiny.mdm / "policy", straight[0] / "policy"):
        assert json.loads((folder / "policy.json").read_text())["trained_on"]["name"] == "starter"
    assert load_policy("starter").trained_on.name == "starter"


def test_export_and_generate(straight: tuple[Path, Result], cli: Cli) -> None:
    run, _ = straight
    exported = cli("export", run, "mdm", "--to", "mdm", "--json")
    assert exported.exit_code == 0, exported.stderr
    assert "guidance" not in exported.stderr, "the policy keeps the scale that it had"
    document = json.loads(exported.stdout)
    assert Path(document["file"]).name == "model000000003.pt"
    assert Path("mdm/args.json").is_file()
    text = " | ".join(starter.captions()[:2])
    for name, checkpoint in (("own", run), ("foreign", document["file"])):
        result = cli(
            "generate", text, name, "--policy.checkpoint", checkpoint, "--policy.stats", "mdm",
            "--durations", "2,1", "--seed", 1, "--device", "cpu",
        )  # fmt: skip
        assert result.exit_code == 0, result.stderr
    own, foreign = (np.load(next(Path(name, "new_joints").glob("*.npy"))) for name in ("own", "foreign"))
    assert own.shape == (60, 22, 3)
    assert np.allclose(own, foreign, atol=1e-5)


def test_rewards_are_calibrated_before_training(tiny: Any, tmp_path: Path, cli: Cli) -> None:
    more = ("--reward", "physics=0.001", "--set", "reward_mix.calibrate=true", "--set", "reward_mix.normalize=group")
    done = cli(*tiny.grpo(tmp_path / "run"), *more)
    assert done.exit_code == 0, done.stderr
    order = ("x 8 samples:", "held-out prompts before training")
    places = [done.stderr.index(text) for text in order]
    assert places == sorted(places)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert [row["name"] for row in record["calibration"]] == ["tmr-dense", "physics"]
    assert all(0 < row["group_std"] < 1 for row in record["calibration"])
    assert record["tables"][-1]["title"].startswith("Rewards before training")
    assert "reward/correlation/tmr-dense/physics" in metrics(tmp_path / "run")[-1]
    assert "drowns" not in done.stderr, "normalised rewards have weights alone"


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


Run = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(FILE)
    return path


def words_of(tiny: Tiny, reward: str, *, steps: int = 3) -> list[str]:
    """The arguments of a run with this reward alone, and no judge."""
    words = tiny.grpo("run", steps=steps)
    for flag in ("--reward", "--reward.weights", "--judge", "--judge.weights"):
        at = words.index(flag)
        del words[at : at + 2]
    return [*words, "--reward", reward]


def test_grpo_trains_on_one(cli: Run, tiny: Tiny, file: Path) -> None:
    result = cli(*words_of(tiny, f"{file}:low"))
    assert result.exit_code == 0, result.stderr
    lines = Path("run/metrics.jsonl").read_text().splitlines()
    assert '"reward/low/mean"' in lines[-1]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("one", 2, "one(motions) cannot be a reward"),
        ("wide", 2, "returned a tensor [2, 2]"),
        ("words", 2, "returned a str"),
        ("late", 1, "plugin file my.py raised KeyError: 'no such joint'"),
    ],
)
def test_what_goes_wrong_is_said_without_a_traceback(
    cli: Run, tiny: Tiny, file: Path, name: str, code: int, said: str
) -> None:
    result = cli(*words_of(tiny, f"{file}:{name}", steps=12))
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    if name == "late":
        assert "in late," in result.stderr
        assert Path("run/log.txt").read_text().count("KeyError") >= 1
