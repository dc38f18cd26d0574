"""Prompts as a dataset, and `grpo` on them: trained, resumed to the bit, exported; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.testing import check_dataset
from motionkit_policy_kimodo.dataset import KimodoPrompts
from motionkit_policy_kimodo.prompts import read_prompts
from motionkit_policy_kimodo.settings import KimodoOptions, PromptOptions
from motionkit_policy_kimodo.texts import clean

TEXTS = ("A person walks.", "A person waves.", "Someone turns around.", "A man sits down.", "A robot stands still.")


def test_dataset(texts: Path) -> None:
    dataset = KimodoPrompts(PromptOptions(path=texts))
    check_dataset(dataset)
    splits = {split: [prompt.text for prompt in dataset.prompts(split)] for split in ("train", "val", "test")}
    assert [len(splits[split]) for split in splits] == [3, 1, 1]
    assert sorted(chain(*splits.values())) == sorted(TEXTS)
    lengths = {prompt.text: prompt.length for split in splits for prompt in dataset.prompts(split)}
    assert lengths[TEXTS[0]] == 15
    assert lengths[TEXTS[4]] == 27
    assert dataset.physics_reference()[1] > 0


def test_a_text_is_in_one_split(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    rows = [f"{text},{seconds},0.5,c.json" for text in (*TEXTS, *map(str.lower, TEXTS)) for seconds in (1, 2)]
    path.write_text("\n".join(["text,seconds,heading,constraints", *rows]))
    dataset = KimodoPrompts(PromptOptions(path=path, held_out=0.5))
    splits = [{clean(prompt.text) for prompt in dataset.prompts(split)} for split in ("train", "val", "test")]
    assert sum(map(len, splits)) == len(TEXTS)
    prompts = [prompt for split in ("train", "val", "test") for prompt in dataset.prompts(split)]
    assert len({prompt.key for prompt in prompts}) == len(prompts) == 20
    assert prompts[0].extras == {"heading": 0.5, "constraints": str(tmp_path / "c.json")}


def test_cases_of_the_benchmark(tmp_path: Path) -> None:
    for number, text in enumerate(TEXTS):
        folder = tmp_path / "cases" / str(number)
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"text": text, "duration": 2.55, "num_samples": 1}))
        (folder / "constraints.json").write_text("[]")
    dataset = KimodoPrompts(PromptOptions(path=tmp_path / "cases"))
    prompt = dataset.prompts("train")[0]
    assert prompt.length == 76
    assert Path(prompt.extras["constraints"]).name == "constraints.json"


def test_extras_of_what_is_asked(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,heading\nx,\ny,0\n")
    assert [asked.extras for asked in read_prompts(tmp_path / "texts.csv")] == [{}, {"heading": 0.0}]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("A person walks.\nA person waves.\nA man sits.", "has no seconds"),
        ("A person walks.\t1\na person walks\t2", "has 1 texts"),
        ("A person walks.\t1\nA person waves.\t20\nA man sits.\t1", "0.1 to 10 s"),
        ("A person walks.\t1\nA person waves.\tlong\nA man sits.\t1", "no seconds"),
        ("", "no prompt"),
    ],
)
def test_prompts_that_are_refused(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(content)
    with pytest.raises(MotionkitError) as refused:
        KimodoPrompts(PromptOptions(path=tmp_path / "texts.txt"))
    assert said in refused.value.sentence()


def test_several_prompts_in_a_row_are_refused(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        case = {"texts": [f"One {number}", "two"], "durations": [1, 2]}
        (folder / "meta.json").write_text(json.dumps(case))
    with pytest.raises(MotionkitError, match="2 prompts in a row"):
        KimodoPrompts(PromptOptions(path=tmp_path))


def _weights(run: str) -> dict[str, torch.Tensor]:
    return load_file(Path(run) / "policy" / "model.safetensors")


def test_grpo_resumes_to_the_bit_and_its_policy_opens(
    cli: Callable[..., Result], asked: Sequence[str], soma: KimodoOptions, tmp_path: Path
) -> None:
    rewards = ("--reward", f"{tmp_path / 'high.py'}:high", "--reward", "physics=0.1", "--reward", "tmr-dense=0.1")
    words = (*asked, *rewards, "--algorithm", "grpo", "--group-size", "4")
    done = cli(*words, "--num-steps", "3", "--out", "whole", "--set", "checkpoint.every=2")
    assert done.exit_code == 0, done.output
    copytree("whole", "run", symlinks=True)
    again = cli("grpo", "--resume", "run/checkpoints/step-00000002", *rewards)
    assert again.exit_code == 0, again.output
    whole, resumed = _weights("whole"), _weights("run")
    assert all(torch.equal(whole[name], value) for name, value in resumed.items())
    assert any("lora_B" in name and bool(value.any()) for name, value in whole.items())
    assert "not measured" in Path("run/report.html").read_text()
    made = cli("generate", "--policy", "kimodo", "--policy.checkpoint", "run", TEXTS[0], "walk.bvh", "--durations", "1")
    assert made.exit_code == 0, made.output
    written = cli("export", "run", "official", "--to", "kimodo")
    assert written.exit_code == 0, written.output
    before, after = load_file(Path(soma.checkpoint) / "model.safetensors"), load_file("official/model.safetensors")
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed
    assert all("embed_timestep" not in name and "norm" not in name and "bias" not in name for name in changed)
    other = cli("export", "run", "other", "--to", "onnx")
    assert other.exit_code == 2
    assert "formats it has: kimodo" in other.output


def test_all_weights_are_trained_resumed_and_exported(
    cli: Callable[..., Result], asked: Sequence[str], soma: KimodoOptions, tmp_path: Path
) -> None:
    words = [word for word in asked if word != "--lora"]
    reward = ("--reward", f"{tmp_path / 'high.py'}:high")
    more = ("--no-lora", "--algorithm", "grpo", "--group-size", "4", "--set", "checkpoint.every=2")
    done = cli(*words, *reward, *more, "--num-steps", "3", "--out", "whole")
    assert done.exit_code == 0, done.output
    copytree("whole", "run", symlinks=True)
    again = cli("grpo", "--resume", "run/checkpoints/step-00000002", *reward)
    assert again.exit_code == 0, again.output
    whole, resumed = _weights("whole"), _weights("run")
    assert all(torch.equal(whole[name], value) for name, value in resumed.items())
    written = cli("export", "run", "official", "--to", "kimodo")
    assert written.exit_code == 0, written.output
    before, after = load_file(Path(soma.checkpoint) / "model.safetensors"), load_file("official/model.safetensors")
    assert list(after) == list(before)
    same = [name for name, value in before.items() if torch.equal(value, after[name])]
    assert not same, "every weight is trained"
    assert cli("kimodo-check", "official").exit_code == 0


@pytest.mark.parametrize("algorithm", ["reward-gradient", "awm"])
def test_other_algorithms(algorithm: str, cli: Callable[..., Result], asked: Sequence[str]) -> None:
    done = cli(*asked, "--reward", "tmr-dense", "--algorithm", algorithm, "--num-steps", "2", "--out", "run")
    assert done.exit_code == 0, done.output


def test_constraints_and_headings_are_trained_with(
    cli: Callable[..., Result], asked: Sequence[str], recorded: Path, tmp_path: Path
) -> None:
    known = recorded / "tiny_soma" / "chain_constraints.json"
    rows = [f"{text},2,0.{number},{known}" for number, text in enumerate(TEXTS)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,seconds,heading,constraints", *rows]))
    words = [
        "--dataset.path",
        str(tmp_path / "texts.csv"),
        "--reward",
        "physics",
        "--algorithm",
        "grpo",
        "--group-size",
        "4",
    ]
    done = cli(*asked, *words, "--num-steps", "1", "--out", "run")
    assert done.exit_code == 0, done.output
