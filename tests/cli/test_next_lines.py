"""Each `next:` line of each trainer, after a tiny run on data of one's own: it works as typed and names these data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from motionkit.cli import get_app
from motionkit.datasets.motions._starter import _motion
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.runs import next_commands, peek
from motionkit.starter import Order, perform

from ..made.regions import write_jsonl
from ..made.toy_clips import write_toy

TEXTS, CLIPS, PICTURES = "my texts", "my clips", "my pictures"
TINY = "--device cpu --threads 1 --set checkpoint.every=0"
PAIRS = f"--dataset humanml --dataset.root '{TEXTS}' --num-steps 2 --batch-size 8 {TINY} --set train.val_clips=8"
SHAPE = "--model.latent-dim 16 --model.layers 1 --set model.num_heads=2 --set model.ff_size=32"
REACH = "--env.max-steps 8 --num-envs 4 --set episodes.steps=16"
ACTOR = "--set objective.batch_size=16 --set objective.epochs=1"
LOOPS = "--num-steps 1 --batch-size 2 --group-size 2 --set heldout.regions=4 --set heldout.every=0"
MPL = (
    "--set model.width=16 --set model.window=4 --set model.heads=2 --set train.batch_size=16 --set train.seq_len=34 "
    "--set train.known=20 --set train.stride=16 --set train.val_stride=32 --set freerun.horizon=2 "
    "--set freerun.first_horizon=1 --set teacher.frames=2"
)
RUNS = {
    "pretrain tmr": f"pretrain tmr {PAIRS} {SHAPE} --text.encoder clip --text.model {{text}}",
    "pretrain mdm": f"pretrain mdm {PAIRS} {SHAPE} --text.encoder clip --text.model {{text}} "
    "--set model.diffusion_steps=6 --set train.samples=4",
    "pretrain t2m-evaluator": f"pretrain t2m-evaluator {PAIRS}",
    "grpo": f"grpo --dataset humanml --dataset.root '{TEXTS}' --policy.checkpoint runs/tiny/pretrain-mdm "
    f"--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr --num-steps 1 --batch-size 2 --group-size 2 {TINY} "
    "--train-timesteps 3 --inference-timesteps 3 --set sampler.window_size=2 --set heldout.prompts=4 "
    "--set heldout.samples=2",
    "pretrain mpl-encoder": f"pretrain mpl-encoder --data '{CLIPS}' --epochs 1 --batch-size 4 {TINY}",
    "train-mpl": f"train-mpl --data '{CLIPS}' --encoder none --epochs 1 {MPL} {TINY}",
    "reward-collect": f"reward-collect --policy scripted {REACH} --num-steps 6 {TINY} --set quota.positive=0",
    "reward-train": f"reward-train --data runs/tiny/reward-collect --num-steps 2 --batch-size 16 {TINY}",
    "ppo": f"ppo --reward env {REACH} {ACTOR} --num-steps 1 --set heldout.episodes=4 --set heldout.watched=2 {TINY}",
    "pretrain regions": f"pretrain regions --dataset.drop-size 0.25 --num-steps 1 {TINY} --set train.batch_size=4",
    "sa2va-rl": f"sa2va-rl --dataset regions-jsonl --dataset.path '{PICTURES}' {LOOPS} {TINY}",
}
NAMED = {
    "reward-collect": ("max_steps = 8", "max-steps 8"), "ppo": ("max_steps = 8", "max-steps 8"),
    "reward-train": ("max_steps = 8", "max-steps 8", "runs/tiny/reward-collect"),
    "pretrain regions": ("drop_size = 0.25", "drop-size 0.25"),
    "sa2va-rl": (PICTURES,), "train-mpl": (CLIPS,), "pretrain mpl-encoder": (CLIPS,),
}  # fmt: skip
"""What a line has to name, itself or in its dry run: one of these; of the others the texts."""

TAKES_A_RUN = ("eval", "reward-train", "tune-bayes")
"""Commands that take the data from the run that the line names."""

SHOWN = ("report", "runs")
"""Commands that show the run itself."""


def typed(line: str, *more: str) -> Result:
    """Type a line of a shell."""
    words = shlex.split(line)
    return CliRunner().invoke(get_app(), [*(words[1:] if words[0] == "motionkit" else words), *more])


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, clip: Path) -> Iterator[Path]:
    """A folder with data of one's own, whose names have spaces, and a run of each trainer."""
    pytest.importorskip("transformers")
    work = tmp_path_factory.mktemp("next")
    (work / TEXTS).mkdir()
    write_toy(work / TEXTS, train=16, val=40)
    lines = (work / TEXTS / "val.txt").read_text().splitlines()
    (work / TEXTS / "test.txt").write_text("\n".join(lines[20:]))
    (work / TEXTS / "val.txt").write_text("\n".join(lines[:20]))
    (work / CLIPS).mkdir()
    for number in range(6):
        made = _motion(perform([Order("walk/normal", 60, number)], fps=30.0)[0])
        split = "train" if number < 4 else "val"
        write_mpl_npz(work / CLIPS / f"clip{number}.npz", Clip(made, split=split), source_hash="")
    write_jsonl(work / PICTURES)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MOTIONKIT_")]:
            patch.delenv(name)
        patch.setenv("MOTIONKIT_CACHE", str(work / "cache"))
        patch.setenv("XDG_CACHE_HOME", str(work / "cache"))
        patch.chdir(work)
        for command, line in RUNS.items():
            out = f"runs/tiny/{command.replace(' ', '-')}"
            done = typed(line.format(text=shlex.quote(str(clip))), "--out", out)
            assert done.exit_code == 0, f"{line}\n{done.stderr}"
        yield work


@pytest.mark.parametrize("command", RUNS)
def test_each_line_works_as_typed_and_names_the_data(
    command: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    out = Path("runs/tiny") / command.replace(" ", "-")
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


def test_grpo_takes_the_policy_and_the_reward_of_the_same_data(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert line.startswith("motionkit grpo --policy.checkpoint runs/tiny/")
    assert line.endswith("--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr")
    assert f"--dataset humanml --dataset.root '{TEXTS}'" in line


def test_a_reward_of_other_data_than_the_prompts_is_a_warning(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (line,) = (one for one in next_commands(peek("runs/tiny/pretrain-tmr")) if " grpo " in one)
    assert "was trained on" not in typed(line, "--dry-run", "--device", "cpu").stderr
    weights = "--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr/tmr"
    done = typed(f"grpo {weights} --judge tmr-dense --judge.weights runs/tiny/pretrain-tmr --dry-run --device cpu")
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert "warning: reward.tmr-dense was trained on " in said
    assert "warning: judge was trained on " in said
    assert f"{TEXTS}), and the prompts are of starter" in said


def test_without_a_policy_of_the_data_one_is_trained_first(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing below ./runs
    lines = next_commands(peek(place / "runs/tiny/pretrain-tmr"))
    assert lines[0].startswith(f"motionkit pretrain mdm --dataset humanml --dataset.root '{TEXTS}' --text.encoder")
    lines = next_commands(peek(place / "runs/tiny/pretrain-mdm"))
    assert any(line.startswith("motionkit pretrain tmr --dataset humanml") for line in lines)
    assert not any("a person walks" in line for line in lines)


@pytest.mark.parametrize(
    "line",
    ["predict runs/tiny/train-mpl {out} --seconds 0.2", "eval mpl runs/tiny/train-mpl --horizons 100 --stride 30"],
)
def test_a_predictor_is_used_on_the_clips_of_its_run(
    line: str, place: Path, tmp_path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = typed(line.format(out=tmp_path / "motion.bvh"), "--json", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    assert '"clip": "clip' in done.stdout or CLIPS in done.stdout
    monkeypatch.chdir(tmp_path)
    moved = typed(line.format(out=tmp_path / "other.bvh").replace("runs/", f"{place}/runs/"), "--device", "cpu")
    assert moved.exit_code == 2
    assert f"are not at {CLIPS}" in moved.stderr
    assert ("--start FOLDER" if "predict" in line else "--data FOLDER") in moved.stderr


def test_a_prediction_says_its_rate_and_another_is_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = typed(f"predict runs/tiny/train-mpl {tmp_path}/a.bvh --seconds 0.2 --device cpu")
    assert "predicted, at 30 fps, the predictor's; --fps changes that" in done.stderr
    done = typed(f"predict runs/tiny/train-mpl {tmp_path}/b.bvh --seconds 0.2 --device cpu --fps 60")
    assert "predicted, at 60 fps" in done.stderr
    slow, fast = ((tmp_path / name).read_text() for name in ("a.bvh", "b.bvh"))
    assert "Frame Time: 0.0333" in slow
    assert "Frame Time: 0.0166" in fast


def test_generate_asks_the_prompts_of_the_run_where_no_text_is_given(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = typed(f"generate {tmp_path}/made --policy.checkpoint runs/tiny/pretrain-mdm --limit 2 --device cpu")
    assert done.exit_code == 0, done.stderr
    assert "someone " in (tmp_path / "made/motions.json").read_text()
    forgot = typed("generate 'a person walks' --policy.checkpoint runs/tiny/pretrain-mdm --device cpu")
    assert forgot.exit_code == 2
