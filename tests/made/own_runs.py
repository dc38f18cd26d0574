"""A tiny run of each trainer on data of one's own; the fixture `own_runs` makes them, once per session."""

from __future__ import annotations

import shlex
from pathlib import Path

from typer.testing import CliRunner, Result

from motionkit.cli import get_app
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion

from .regions import write_jsonl
from .toy_clips import write_toy

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
    "--set freerun.first_horizon=1 --set teacher.frames=2 --set train.long=[]"
)
RUNS = {
    "pretrain tmr": f"pretrain tmr {PAIRS} {SHAPE} --text.encoder clip --text.model {{text}}",
    "pretrain mdm": f"pretrain mdm {PAIRS} {SHAPE} --text.encoder clip --text.model {{text}} "
    "--set model.diffusion_steps=6 --set train.samples=4",
    "pretrain t2m-evaluator": f"pretrain t2m-evaluator {PAIRS}",
    "grpo": f"grpo --dataset humanml --dataset.root '{TEXTS}' --policy.checkpoint runs/tiny/pretrain-mdm "
    f"--reward tmr-dense --reward.weights runs/tiny/pretrain-tmr --num-steps 1 --batch-size 2 --group-size 2 {TINY} "
    "--judge mdm-matching --judge.weights runs/tiny/pretrain-t2m-evaluator "
    "--train-timesteps 3 --inference-timesteps 3 --set sampler.window_size=2 --set heldout.prompts=4 "
    "--set heldout.samples=2 --set audit.enabled=false",
    "pretrain mpl-encoder": f"pretrain mpl-encoder --data '{CLIPS}' --epochs 1 --batch-size 4 {TINY}",
    "train-mpl": f"train-mpl --data '{CLIPS}' --encoder none --epochs 1 {MPL} {TINY}",
    "reward-collect": f"reward-collect --policy scripted {REACH} --num-steps 6 {TINY} --set quota.positive=0",
    "reward-train": f"reward-train --data runs/tiny/reward-collect --num-steps 2 --batch-size 16 {TINY}",
    "ppo": f"ppo --reward env {REACH} {ACTOR} --num-steps 1 --set heldout.episodes=4 --set heldout.watched=2 {TINY}",
    "pretrain regions": f"pretrain regions --dataset.lapse 0.25 --num-steps 1 {TINY} --set train.batch_size=4",
    "sa2va-rl": f"sa2va-rl --dataset regions-jsonl --dataset.path '{PICTURES}' {LOOPS} {TINY} "
    "--policy.checkpoint runs/tiny/pretrain-regions",
}


def typed(line: str, *more: str) -> Result:
    """Type a line of a shell."""
    words = shlex.split(line)
    return CliRunner().invoke(get_app(), [*(words[1:] if words[0] == "motionkit" else words), *more])


def write_clip(folder: Path, number: int, split: str) -> None:
    """Write a clip of a person who walks, another one for each number."""
    made = _motion(perform([Order("walk/normal", 60, number)], fps=30.0)[0])
    write_mpl_npz(folder / f"clip{number}.npz", Clip(made, split=split), source_hash="")


def write_data(work: Path) -> None:
    """Write texts with motions, clips and pictures into folders whose names have spaces."""
    (work / TEXTS).mkdir()
    write_toy(work / TEXTS, train=16, val=40)
    lines = (work / TEXTS / "val.txt").read_text().splitlines()
    (work / TEXTS / "test.txt").write_text("\n".join(lines[20:]))
    (work / TEXTS / "val.txt").write_text("\n".join(lines[:20]))
    (work / CLIPS).mkdir()
    for number in range(6):
        write_clip(work / CLIPS, number, "train" if number < 4 else "val")
    write_jsonl(work / PICTURES)


def place_of(command: str) -> str:
    """Return the folder of a command's run."""
    return f"runs/tiny/{command.replace(' ', '-')}"
