"""Prompts from files, and the command that encodes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.contracts.console import Quiet
from motionkit.errors import MotionkitError
from motionkit_policy_kimodo import embed
from motionkit_policy_kimodo.commands import EMBED, EmbedSettings
from motionkit_policy_kimodo.prompts import Asked, read_prompts
from motionkit_policy_kimodo.texts import KNOWN, TextTable


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_lines_and_tables(tmp_path: Path) -> None:
    lines = _write(tmp_path, "a.txt", "wave\t2.5\n\n  jump \n")
    assert read_prompts(lines) == [
        Asked(("wave",), (2.5,), f"{lines}, line 1"), Asked(("jump",), (), f"{lines}, line 3")
    ]  # fmt: skip
    table = _write(tmp_path, "a.csv", 'seconds,text\n3,"walk, then sit"\n')
    assert read_prompts(table) == [Asked(("walk, then sit",), (3.0,), f"{table}, line 2")]


def test_cases(tmp_path: Path) -> None:
    _write(tmp_path, "b/meta.json", json.dumps({"texts": ["walk", "sit"], "durations": [2, 3.5]}))
    one = _write(tmp_path, "a/meta.json", json.dumps({"text": "walk", "duration": 4}))
    constraints = _write(tmp_path, "a/constraints.json", "[]")
    truth = _write(tmp_path, "a/gt_motion.npz", "")
    first, second = read_prompts(tmp_path)
    assert first == Asked(("walk",), (4.0,), str(one), {"constraints": str(constraints), "truth": str(truth)})
    assert (second.texts, second.seconds, second.extras) == (("walk", "sit"), (2.0, 3.5), {})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "\n", "no prompt"),
        ("a.txt", "wave\tlong", "line 1: 'long' are no seconds"),
        ("a.txt", "wave\t-1", "no seconds"),
        ("a.txt", "wave\tnan", "no seconds"),
        ("a.csv", "caption\nwave\n", "no column text"),
        ("meta.json", '{"duration": 3}', "has no text"),
        ("meta.json", '{"texts": ["a", "b"], "durations": [1]}', "another number"),
        ("meta.json", '{"text": "a", "duration": [null]}', ""),
    ],
)
def test_bad_files_are_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = _write(tmp_path, name, text)
    if not said:
        assert read_prompts(tmp_path)[0].seconds == ()
        return
    with pytest.raises(MotionkitError) as refused:
        read_prompts(tmp_path if name == "meta.json" else path)
    assert said in refused.value.sentence()


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def server(address: str) -> Callable[[str], Any]:
        assert address == "http://127.0.0.1:9550"

        def ask(text: str) -> torch.Tensor:
            asked.append(text)
            return torch.ones(4) * len(text)

        return ask

    monkeypatch.setattr(embed, "Server", server)
    prompts, out = _write(tmp_path, "a.txt", "wave\t2\nWave.\njump\n"), tmp_path / "texts.safetensors"
    assert EMBED.check is not None
    EMBED.check(EmbedSettings(), prompts=prompts, out=out)
    document = EMBED.run(EmbedSettings(), Quiet(), prompts=prompts, out=out)
    assert asked == [KNOWN, "Jump.", "Wave."]
    assert (document["texts"], document["asked"]) == (2, 3)
    assert TextTable(out).encoder == "llm2vec"
    with pytest.raises(MotionkitError, match=r"is not a \.safetensors"):
        EMBED.check(EmbedSettings(), prompts=prompts, out=tmp_path / "texts.npz")
