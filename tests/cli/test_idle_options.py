"""An option that cannot act is refused by name; as it is by default it is worth a line. Nothing is trained here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from motionkit.config import Given, resolve
from motionkit.plugins import get

Cli = Callable[..., Result]
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
    refused = cli(*line.split(), "--dry-run")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert key in said
    assert "has no effect" in said
    assert why in said
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
    found = resolve(get("trainers", trainer).options, Given(sets=sets))
    assert not any("has no effect" in note for note in found.notes)


def test_as_it_is_by_default_it_is_worth_a_line() -> None:
    found = resolve(get("trainers", "sa2va-rl").options, Given(sets=["objective.clip_range=0.2", "precision=fp32"]))
    said = [note for note in found.notes if "has no effect" in note]
    assert {note.partition(" ")[0] for note in said} == {"objective.clip_range", "precision"}


def test_a_stage_that_weighs_a_loss_makes_its_options_act(tmp_path: Path) -> None:
    stage = {"range": [1, 2], "loss_groups": {"aux": {"w_limb_geo": 0.1}}}
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"stages": [stage], "loss": {"limb_topk": 4}}))
    found = resolve(get("trainers", "train-mpl").options, Given(files=[file]), command="train-mpl")
    assert not any("has no effect" in note for note in found.notes)
