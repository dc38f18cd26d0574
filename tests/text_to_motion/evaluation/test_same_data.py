"""The models of finished runs that know the data that are measured: found by content, the newest first."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from motionkit import load_dataset
from motionkit.config import choose_one
from motionkit.contracts.dataset import record_of
from motionkit.runs import TrainedOn, open_run
from motionkit.text_to_motion.evaluation.same_data import (
    SameData,
    better_evaluator,
    evaluator_doubt,
    evaluator_notes,
    find_evaluator,
    is_starter,
    training_command,
)
from motionkit.text_to_motion.evaluation.settings import EvaluatorSettings
from motionkit.text_to_motion.evaluator.files import save_evaluator
from motionkit.text_to_motion.trained import clip_fingerprint

from ...made import starter_evaluator
from ...made.toy_clips import write_toy


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of clips, and the current folder beside it."""
    (tmp_path / "toy").mkdir()
    monkeypatch.chdir(tmp_path)
    return load_dataset("humanml", root=write_toy(tmp_path / "toy"))


def trained(out: str, dataset: Any, *, split: str = "train", done: bool = True, seed: int = 0) -> None:
    """Write a run of `pretrain t2m-evaluator` on a split."""
    with open_run("pretrain t2m-evaluator", {"run": {"out": out}, "dataset": {"name": "humanml"}}) as run:
        record = record_of(dataset).model_dump()
        save_evaluator(
            run.artifact("evaluator"), starter_evaluator.make(dataset, seed=seed), extra={"trained_on": record}
        )
        TrainedOn.of(map(clip_fingerprint, dataset.clips(split))).write(run.artifact("evaluator"))
        if done:
            run.finish()
        else:
            run.request_stop(2)
            run.finish()


def test_the_newest_finished_run_of_the_same_data_is_found(
    toy: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    same = SameData(toy, "val")
    assert find_evaluator(EvaluatorSettings(), same) is None
    trained("runs/first", toy)
    trained("runs/pretrain-t2m-evaluator/second", toy, seed=1)
    trained("runs/seen", toy, split="val", seed=2)  # it knows the clips that are measured
    shutil.copytree(tmp_path / "toy", tmp_path / "other")
    (tmp_path / "other" / "Mean.npy").write_bytes((tmp_path / "toy" / "Std.npy").read_bytes())
    trained("runs/other", load_dataset("humanml", root=tmp_path / "other"), seed=3)
    assert [info.directory.name for info in same.runs("evaluator")] == ["second", "first"]
    named = find_evaluator(EvaluatorSettings(), same)
    assert named is not None
    assert (named.name, named.said) == (
        "runs/pretrain-t2m-evaluator/second", "runs/pretrain-t2m-evaluator/second, trained on these data"
    )  # fmt: skip
    copied = SameData(load_dataset("humanml", root=shutil.copytree(tmp_path / "toy", tmp_path / "elsewhere")), "val")
    assert len(copied.runs("evaluator")) == 2, "by content, wherever the folder is"
    for file in (tmp_path / "elsewhere" / "texts").iterdir():
        file.write_text("1.61#1.61/NUM#0.0#0.0\n")
    assert copied.runs("evaluator") == [], "the same motions with other captions are other data"
    read = {named.evaluator.fingerprint()}
    other = find_evaluator(EvaluatorSettings(), same, without=read)
    assert other is not None
    assert other.name == "runs/first", "one that training reads is not found"
    (tmp_path / "runs/pretrain-t2m-evaluator/second/evaluator/model.safetensors").write_bytes(b"damaged")
    other = find_evaluator(EvaluatorSettings(), same)
    assert other is not None
    assert other.name == "runs/first", "a damaged one is passed over, and warned of"
    assert "the evaluator of runs/pretrain-t2m-evaluator/second is not used" in caplog.text


def test_an_evaluator_that_was_typed_wins_and_is_named_as_what_it_is(toy: Any, tmp_path: Path) -> None:
    trained("runs/mine", toy)
    trained("runs/seen", toy, split="val", seed=1)
    same = SameData(toy, "val")

    def said(weights: str, **more: Any) -> str:
        named = find_evaluator(EvaluatorSettings(weights=weights), same, **more)
        assert named is not None
        return named.said

    assert said("runs/mine") == "runs/mine, trained on these data"
    assert said("runs/seen") == "runs/seen, trained on 40 of the clips that are measured"
    assert said("starter") == "of the starter pack, trained on other data than these"
    assert said(str(starter_evaluator.write(tmp_path / "from-elsewhere", toy))) == (
        "from-elsewhere, trained on data that are not known"
    )
    data, starters = choose_one("datasets", "humanml", {"root": "toy"}), EvaluatorSettings(weights="starter")
    named = find_evaluator(starters, same)
    assert named is not None
    assert better_evaluator(same, named, data) == "--evaluator runs/mine", "none is trained again where one is there"
    named = find_evaluator(EvaluatorSettings(weights="runs/mine"), same)
    assert named is not None
    assert better_evaluator(same, named, data) == training_command("t2m-evaluator", data)
    config = tmp_path / "runs/mine/evaluator/config.json"
    record = json.loads(config.read_text()) | {
        "trained_on": {"name": "kit", "root": "/their/walks", "statistics": "00"}
    }
    config.write_text(json.dumps(record))
    assert said("runs/mine") == "runs/mine, trained on other data than these: walks (layout kit)"
    assert said("auto", fallback="starter") == "of the starter pack, trained on other data than these"
    assert find_evaluator(EvaluatorSettings(weights="none"), same) is None


def test_the_starters_data_have_the_starters_evaluator(toy: Any) -> None:
    starter = load_dataset("starter", clips=144, val_clips=48)
    assert is_starter(starter)
    assert not is_starter(toy)
    named = find_evaluator(EvaluatorSettings(), SameData(starter, "val"))
    assert named is not None
    assert named.words == "evaluator of the starter pack, 64 wide"


def test_notes_say_that_an_evaluator_knows_few_words_or_tells_captions_apart_badly(toy: Any) -> None:
    named = starter_evaluator.named(starter_evaluator.write(Path("made"), toy))
    command = training_command("t2m-evaluator", choose_one("datasets", "humanml", {"root": "my clips"}))
    assert command == "motionkit pretrain t2m-evaluator --dataset humanml --dataset.root 'my clips'"
    known, unknown = ["a man walks slowly", "a person jumps"], ["a man pirouettes gracefully", "zzz"]
    assert evaluator_notes(named, known, 0.76, command) == []
    assert evaluator_doubt(named, known, 0.76) == ""
    assert evaluator_doubt(named, known, None).startswith("there are too few prompts to measure whether")
    assert evaluator_doubt(replace(named, said="of the starter pack"), known, None) == "", "on the starter's data"
    assert evaluator_doubt(named, unknown, 0.76) == "", "R@3 decides where it is known"
    assert evaluator_doubt(named, known, 0.34) == "the evaluator finds the text of reference clips with R@3 0.34"
    assert evaluator_doubt(named, unknown, None) == "the evaluator knows 40 % of the words of these captions"
    words, low = evaluator_notes(named, unknown, 0.34, command)
    assert words == f"the evaluator knows 40 % of the words of these captions. An evaluator of these data: {command}"
    assert "R@3 0.34 (chance 0.09)" in low
    assert low.endswith(command)
