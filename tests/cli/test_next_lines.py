"""Each `next:` line of each trainer, after a tiny run on data of one's own: it works as typed and names these data."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit.runs import next_commands, open_run, peek

from ..made.own_runs import CLIPS, PICTURES, RUNS, TEXTS, place_of, typed
from .conftest import DATA

NAMED = {
    "reward-collect": ("max_steps = 8", "max-steps 8"), "ppo": ("max_steps = 8", "max-steps 8"),
    "reward-train": ("max_steps = 8", "max-steps 8", "runs/tiny/reward-collect"),
    "pretrain regions": ("lapse = 0.25", "lapse 0.25"),
    "sa2va-rl": (PICTURES,), "train-mpl": (CLIPS,), "pretrain mpl-encoder": (CLIPS,),
}  # fmt: skip
"""What a line has to name, itself or in its dry run: one of these; of the others the texts."""

TAKES_A_RUN = ("eval", "reward-train", "tune-bayes")
"""Commands that take the data from the run that the line names."""

MOCAP = {"name": "humanml", "root": "data/mocap"}

SHOWN = ("report", "runs")
"""Commands that show the run itself."""


@pytest.mark.parametrize("command", RUNS)
def test_each_line_works_as_typed_and_names_the_data(
    command: str, own_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    out = Path(place_of(command))
    lines = next_commands(peek(out))
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "motionkit"
        done = typed(line) if words[1] in SHOWN else typed(line, "--dry-run")
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
        named = NAMED.get(command, (TEXTS,))
        if words[1] not in SHOWN:
            assert any(one in line or one in done.stdout for one in (*named, str(out))), f"{line}\n{done.stdout}"
            if words[1] not in TAKES_A_RUN:
                assert any(one in line or one in done.stdout for one in named), f"{line}\n{done.stdout}"
        assert not any(word.startswith("/") for word in words), f"a run that was given as a relative path: {line}"


def test_grpo_takes_the_policy_and_the_reward_of_the_same_data(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_runs)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert line.startswith("motionkit grpo --policy.checkpoint runs/tiny/")
    assert "--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr" in line
    # What a run was judged by is not what the next one is trained by.
    assert line.endswith("--judge mdm-dense --judge.weights runs/tiny/pretrain-t2m-evaluator/evaluator")
    (other,) = (one for one in next_commands(peek("runs/tiny/pretrain-t2m-evaluator")) if " grpo " in one)
    assert other == line
    assert f"--dataset humanml --dataset.root '{TEXTS}'" in line


def trained(command: str, name: str, part: str, **train: str) -> str:
    """Make a finished run; return the words of its `grpo` line from the reward on."""
    config = {"run": {"out": f"runs/mocap/{name}"}, "dataset": MOCAP, "train": train}
    with open_run(command, config) as run:
        run.artifact(part).mkdir()
        run.finish()
    (line,) = (one for one in next_commands(peek(f"runs/mocap/{name}")) if one.startswith("motionkit grpo "))
    return line.partition(" --reward ")[2]


def test_a_model_of_the_other_half_is_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of example 03: the reward on one half of the clips, the judge on the other, then the policy."""
    monkeypatch.chdir(tmp_path)
    with open_run("pretrain mdm", {"run": {"out": "runs/mocap/old"}, "dataset": MOCAP}) as run:
        run.artifact("policy").mkdir()
        run.finish()
    reward = "tmr-dense --reward.weights runs/mocap/tmr/tmr"
    judge = "--judge tmr-dense --judge.weights runs/mocap/judge/tmr"
    assert trained("pretrain tmr", "tmr", "tmr", half="first") == reward
    assert trained("pretrain tmr", "judge", "tmr", half="second") == f"{reward} {judge}"
    assert trained("pretrain mdm", "mdm", "policy") == f"{reward} {judge}"
    assert trained("pretrain tmr", "newer", "tmr", half="first") == f"{reward.replace('tmr/tmr', 'newer/tmr')} {judge}"


def test_a_model_that_judged_a_run_stays_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    newest = "tmr-dense --reward.weights runs/mocap/b/tmr"
    with open_run("pretrain mdm", {"run": {"out": "runs/mocap/old"}, "dataset": MOCAP}) as run:
        run.artifact("policy").mkdir()
        run.finish()
    for name in "ab":
        trained("pretrain tmr", name, "tmr", half="all")
    assert trained("pretrain mdm", "mdm", "policy") == newest
    for place in ("runs/mocap/b", "runs/mocap/b/tmr"):
        judge = {"name": "tmr-dense", "weights": place}
        with open_run("grpo", {"run": {"out": f"runs/grpo/{len(place)}"}, "dataset": MOCAP, "judge": judge}) as run:
            run.finish()
        expected = "tmr-dense --reward.weights runs/mocap/a/tmr --judge tmr-dense --judge.weights runs/mocap/b/tmr"
        assert trained("pretrain mdm", f"mdm-{len(place)}", "policy") == expected


def test_a_reward_of_other_data_than_the_prompts_is_a_warning(own_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_runs)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert "was trained on" not in typed(line, "--dry-run", "--device", "cpu").stderr
    weights = "--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr"
    judge = "--judge tmr-dense --judge.weights runs/tiny/pretrain-tmr"
    done = typed(f"grpo {weights} {judge} --dry-run", *DATA)
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "warning: reward.tmr-dense was trained on " in said
    assert "warning: judge was trained on " in said
    assert f"{TEXTS}), and the prompts are of starter" in said


def test_without_a_policy_of_the_data_one_is_trained_first(
    own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing below ./runs
    lines = next_commands(peek(own_runs / "runs/tiny/pretrain-tmr"))
    assert lines[0].startswith(f"motionkit pretrain mdm --dataset humanml --dataset.root '{TEXTS}' --text.encoder")
    lines = next_commands(peek(own_runs / "runs/tiny/pretrain-mdm"))
    assert any(line.startswith("motionkit pretrain tmr --dataset humanml") for line in lines)
    assert not any("a person walks" in line for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        "predict runs/tiny/train-mpl {out} --seconds 0.2",
        "eval mpl runs/tiny/train-mpl --horizons 100 --stride 30 --long ''",
    ],
)
def test_a_predictor_is_used_on_the_clips_of_its_run(
    line: str, own_runs: Path, tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    done = typed(line.format(out=tmp_path / "motion.bvh"), "--json", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    assert '"clip": "clip' in done.stdout or CLIPS in done.stdout
    monkeypatch.chdir(tmp_path)
    moved = typed(line.format(out=tmp_path / "other.bvh").replace("runs/", f"{own_runs}/runs/"), "--device", "cpu")
    assert moved.exit_code == 2
    assert f"are not at {CLIPS}" in moved.stderr
    assert ("--start FOLDER" if "predict" in line else "--data FOLDER") in moved.stderr


def test_generate_asks_the_prompts_of_the_run_where_no_text_is_given(
    own_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_runs)
    done = typed(f"generate {tmp_path}/made --policy.checkpoint runs/tiny/pretrain-mdm --limit 2 --device cpu")
    assert done.exit_code == 0, done.stderr
    assert "someone " in (tmp_path / "made/motions.json").read_text()
    forgot = typed("generate 'a person walks' --policy.checkpoint runs/tiny/pretrain-mdm --device cpu")
    assert forgot.exit_code == 2
