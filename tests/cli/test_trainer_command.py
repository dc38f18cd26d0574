"""The command that runs every trainer: documents, exit codes, folders, and options that cannot act."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import Result

from motionkit.config import resolve
from motionkit.plugins import get
from motionkit.training.base import Checked

from ..made.commands import assert_refused
from ..made.forks import Forks

Cli = Callable[..., Result]


def test_a_run_prints_its_document_and_leaves_a_folder(cli: Cli, trainer: ModuleType) -> None:
    done = cli("count", "--num-steps", 3, "--json", "--name", "a", "--reward", "near=2", "--reward.alpha", "0.25")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert (document["command"], document["status"], document["steps"]) == ("count", "done", 3)
    assert document["metrics"] == {"count": 3.0}
    assert Path(document["run"]) == Path("runs/count/a")
    assert {"seconds", "cpu_seconds", "heldout"} <= set(document)
    config = json.loads(Path("runs/count/a/config.json").read_text())
    assert config["reward"] == {"near": {"weight": 2.0, "alpha": 0.25, "scale": 1.0}}
    record = json.loads(Path("runs/count/a/run.json").read_text())
    assert record["origins"]["run.num_steps"] == "command line"


def test_dry_run_shows_origins_and_writes_nothing(cli: Cli, trainer: ModuleType) -> None:
    Path("a.toml").write_text("seed = 3\n")
    done = cli("count", "--dry-run", "--config", "a.toml", "--num-steps", 7, env={"MOTIONKIT_WIDTH": "9"})
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "run.num_steps = 7 (command line)" in lines
    assert "seed = 3 (a.toml)" in lines
    assert "width = 9 (environment MOTIONKIT_WIDTH)" in lines
    assert "plan: parameters = 1" in lines
    assert not Path("runs").exists()
    plan = json.loads(cli("count", "--dry-run", "--json").stdout)
    assert plan["dry_run"] is True
    assert plan["origins"]["seed"] == "default"


def test_snapshot_starts_an_equal_run(cli: Cli, trainer: ModuleType) -> None:
    cli("count", "--num-steps", 3, "--name", "a", "--reward", "far=0.5", "--reward.reach", 9, "--overwrite")
    done = cli("count", "--config", "runs/count/a", "--name", "b")
    assert done.exit_code == 0, done.stderr
    first, second = (json.loads(Path(f"runs/count/{name}/config.json").read_text()) for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "nothing.npz"], "nothing.npz does not exist."),
        (["--data", "."], "Is a directory"),
        (["--num-steps", "0"], "--num-steps '0'  (run.num_steps, from command line)"),
        (["--num-stepz", "3"], "did you mean --num-steps"),
        (["--set", "run.num_stepz=3"], "did you mean run.num_steps?"),
        (
            ["--batch_size", "3"],
            "grpo, ppo, pretrain mdm, pretrain mpl-encoder, pretrain regions, pretrain t2m-evaluator, pretrain tmr, ",
        ),
        (["--reward_model_type", "tmr"], "no such option: --reward_model_type"),
        (["--save_interval", "3"], "no such option: --save_interval"),
        (["--reward", "neer"], "did you mean near?"),
        (["--reward.reach", "3"], "no such option: --reward.reach"),
        (["--reward", "near", "--reward", "far", "--reward.alpha", "3"], "--reward.near.alpha or --reward.far.alpha"),
        (["--config", "no.toml"], "no.toml does not exist"),
        (["--resume", "no-such-run"], "no-such-run is not a motionkit run"),
        (["extra"], "extra"),
    ],
)
def test_bad_input_exits_with_two_and_makes_no_folder(
    cli: Cli, trainer: ModuleType, arguments: list[str], said: str
) -> None:
    done = cli("count", *arguments)
    assert said in " ".join(done.stderr.split("\n"))
    assert "\nerror: " in f"\n{done.stderr}"
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()
    document = json.loads(cli("count", *arguments, "--json").stdout)
    assert document["error"]["code"] == 2
    assert set(document["error"]) - {"choices"} == {"code", "message", "why", "fix"}


@pytest.mark.parametrize(
    ("end", "said"), [("error", "the numbers ran out."), ("disk", "metrics.jsonl: No space left on device")]
)
def test_failure_after_the_start_exits_with_one(cli: Cli, trainer: ModuleType, end: str, said: str) -> None:
    done = cli("count", "--end", end, "--name", "a", "--json")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "fix  " in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == 1
    assert json.loads(Path("runs/count/a/run.json").read_text())["status"] == "failed"


def test_a_bug_shows_its_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motionkit.cli.commands.runs.list_runs", lambda: 1 / 0)
    done = cli("runs", "list")
    assert done.exit_code == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr
    assert "this is a bug in motionkit" in done.stderr


def test_resume_takes_the_runs_own_settings(cli: Cli, trainer: ModuleType) -> None:
    cli("count", "--num-steps", 3, "--name", "a", "--reward", "far", "--reward.reach", 9)
    done = cli("count", "--resume", "runs/count/a", "--num-steps", 5, "--json")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["steps"], document["metrics"]["count"]) == (5, 5.0)
    config = json.loads(Path("runs/count/a/config.json").read_text())
    assert config["reward"]["far"]["reach"] == 9
    assert_refused(cli("count", "--resume", "runs/count/a", "--width", 8), "width")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--name", "b"], "--name"),
        (["--out", "elsewhere"], "--out"),
        (["--overwrite"], "--overwrite"),
        (["--overwrite", "--name", "b"], "--name and --overwrite"),
        (["--set", "run.name=b"], "--name"),
        (["--name", "b", "--dry-run"], "--name"),
    ],
)
def test_a_resumed_run_stays_where_it_is(cli: Cli, trainer: ModuleType, more: list[str], named: str) -> None:
    cli("count", "--num-steps", 3, "--name", "a")
    before = Path("runs/count/a/run.json").read_bytes()
    assert_refused(
        cli("count", "--resume", "runs/count/a", "--num-steps", 5, *more),
        f"a run continues in its own folder; leave out {named}",
        "--resume",
    )
    assert Path("runs/count/a/run.json").read_bytes() == before
    assert [path.name for path in Path("runs/count").iterdir()] == ["a"]
    assert not Path("elsewhere").exists()


@pytest.mark.parametrize(("end", "code"), [("interrupt", 130), ("terminate", 143)])
def test_an_interrupted_run_ends_with_a_page_and_what_to_type_next(
    tmp_path: Path, trainer: ModuleType, forks: Forks, end: str, code: int
) -> None:
    path = [str(Path(trainer.__file__ or "").parent)]
    words = ("count", "--end", end, "--num-steps", "50", "--name", "a")
    done = forks.run("motionkit", *words, folder=tmp_path, path=path)
    assert done.returncode == code, done.stderr
    assert "page: runs/count/a/report.html" in done.stderr
    assert "next: motionkit count --resume runs/count/a" in done.stderr
    assert "      motionkit report runs/count/a\n" in done.stderr
    page = (tmp_path / "runs/count/a/report.html").read_text()
    assert "The run did not finish, so the final measurement is missing." in page
    assert "report.html" in json.loads((tmp_path / "runs/count/a/run.json").read_text())["artifacts"]


def test_a_loss_that_is_not_finite_is_an_alarm_on_the_console_in_the_record_and_on_the_page(
    cli: Cli, trainer: ModuleType
) -> None:
    done = cli("count", "--end", "nan", "--num-steps", 4, "--name", "a", "--json")
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert said.count("step 2: loss/total is infinite; metrics.jsonl holds null there") == 1, "once, not in each step"
    assert "loss/total was not finite in 2 lines, first in step 2" in said
    assert "reward/near/mean" not in said, "a reward may apply to no sample of a step"
    wanted = {"loss/total": {"first": 2, "lines": 2}}
    assert json.loads(done.stdout)["not_finite"] == wanted
    assert json.loads(Path("runs/count/a/run.json").read_text())["summary"]["not_finite"] == wanted
    assert "loss/total was not finite in 2 lines" in Path("runs/count/a/report.html").read_text()
    longer = cli("count", "--resume", "runs/count/a", "--num-steps", 6, "--json")
    assert json.loads(longer.stdout)["not_finite"] == wanted, "the lines of earlier attempts count"
    fine = cli("count", "--num-steps", 4, "--name", "b", "--json")
    assert "not_finite" not in json.loads(fine.stdout)


def test_a_check_whose_figures_are_not_finite_fails(cli: Cli, trainer: ModuleType) -> None:
    assert cli("count", "--check").exit_code == 0
    done = cli("count", "--check", "--end", "nan")
    assert done.exit_code == 1
    assert "fails the mask is read: scores move by nan with the mask: not finite" in done.stdout
    document = json.loads(cli("count", "--check", "--end", "nan", "--json").stdout)
    assert document["checks"] == [
        {"name": "the mask is read", "ok": False, "said": "scores move by nan with the mask: not finite"}
    ]


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        ("values move by -inf to 3", False), ("gradient NaN from eager", False), ("reward nan, spread 0.1", False),
        ("a nanometre, information, Nancy, inference 1.0", True), ("60 clips, 0.5 to 1e-09", True),
    ],
)  # fmt: skip
def test_figures_in_words_that_are_not_finite_are_found(said: str, ok: bool) -> None:
    assert Checked("name", True, said).ok is ok
    assert not Checked("name", False, said).ok


@pytest.mark.parametrize(("end", "code"), [("interrupt", 130), ("terminate", 143)])
def test_signals_save_and_print_the_resume_line(
    tmp_path: Path, trainer: ModuleType, forks: Forks, end: str, code: int
) -> None:
    path = [str(Path(trainer.__file__ or "").parent)]
    words = ("count", "--end", end, "--num-steps", "50", "--name", "a", "--json")
    done = forks.run("motionkit", *words, folder=tmp_path, path=path)
    assert done.returncode == code, done.stderr
    assert "motionkit count --resume runs/count/a" in done.stderr
    assert json.loads(done.stdout)["status"] == "interrupted"
    assert (tmp_path / "runs/count/a/checkpoints/step-00000002/model.safetensors").is_file()


def test_dotted_trainers_nest(cli: Cli, trainer: ModuleType) -> None:
    done = cli("deep", "count", "--num-steps", 1, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["command"] == "deep count"
    assert Path("runs/deep-count").is_dir()


LATER = "it acts from the second of objective.inner_epochs on"
GRPO = "grpo --reward tmr-dense --algorithm grpo"
REFUSED = [
    ("train-mpl --precision bf16", "precision", "float32"),
    ("pretrain regions --precision bf16", "precision", "float32"),
    ("sa2va-rl --precision bf16", "precision", "the policy says what it computes in"),
    ("ppo --reward env --precision bf16", "precision", "float32"),
    ("reward-collect --precision bf16", "precision", "float32"),
    ("train-mpl --encoder none --set loss.latent_consistency=0.1", "loss.latent_consistency", "--encoder is none"),
    ("train-mpl --set loss.latent_cosine=true", "loss.latent_cosine", "the weight of latent_consistency is 0"),
    ("train-mpl --set loss.limb_topk=4", "loss.limb_topk", "the weight of limb_geo is 0"),
    ("train-mpl --set loss.limb_margin=1", "loss.limb_margin", "the weight of limb_geo is 0"),
    ("train-mpl --command path --set train.path_share=0.2", "train.path_share", "--command is path"),
    ("train-mpl --command none --set model.ahead=0.2", "model.ahead", "--command is none"),
    ("train-mpl --model.head delta --set model.shot=2", "model.shot", "--model.head is delta"),
    ("train-mpl --model.head one-shot --set model.shot_share=0.2", "model.shot_share", "--model.head is not both"),
    ("sa2va-rl --set loops.third=2", "loops.third", "there is no --loop3"),
    ("sa2va-rl --loop3-reward iou", "loop3_reward", "there is no --loop3"),
    ("sa2va-rl --clip-range 0.1", "objective.clip_range", LATER),
    ("sa2va-rl --set objective.clip_high=0.4", "objective.clip_high", LATER),
    (f"{GRPO} --clip-range 0.1", "objective.clip_range", LATER),
    (f"{GRPO} --set objective.clip_high=0.4", "objective.clip_high", LATER),
    ("ppo --reward env --reward-mode k-of-n", "scoring.mode", "no reward looks at images"),
    ("reward-collect --policy random --learning-rate 0.1", "optim.learning_rate", "--policy is not ppo"),
    ("reward-collect --policy scripted --set actor.width=32", "actor.width", "--policy is not ppo"),
]


@pytest.mark.parametrize(("line", "key", "why"), REFUSED)
def test_an_option_that_cannot_act_is_refused(line: str, key: str, why: str, cli: Cli) -> None:
    assert_refused(cli(*line.split(), "--dry-run"), key, "has no effect", why)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("trainer", "sets"),
    [
        ("sa2va-rl", ["objective.clip_range=0.1", "objective.inner_epochs=2"]),
        ("train-mpl", ["loss.limb_topk=4", "loss.limb_geo=0.1"]),
        ("train-mpl", ["loss.latent_consistency=0.1", "loss.latent_cosine=true"]),
        ("reward-collect", ["optim.learning_rate=0.1"]),
    ],
)
def test_with_what_it_needs_it_is_taken(trainer: str, sets: list[str]) -> None:
    found = resolve(get("trainers", trainer).options, sets=sets)
    assert not any("has no effect" in note for note in found.notes)


def test_as_it_is_by_default_it_is_worth_a_line() -> None:
    found = resolve(get("trainers", "sa2va-rl").options, sets=["objective.clip_range=0.2", "precision=fp32"])
    said = [note for note in found.notes if "has no effect" in note]
    assert {note.partition(" ")[0] for note in said} == {"objective.clip_range", "precision"}


def test_a_stage_that_weighs_a_loss_makes_its_options_act(tmp_path: Path) -> None:
    stage = {"range": [1, 2], "loss_groups": {"aux": {"w_limb_geo": 0.1}}}
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"stages": [stage], "loss": {"limb_topk": 4}}))
    found = resolve(get("trainers", "train-mpl").options, files=[file], command="train-mpl")
    assert not any("has no effect" in note for note in found.notes)
