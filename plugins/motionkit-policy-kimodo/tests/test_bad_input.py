"""Bad input of `grpo`, in one table: each is refused with exit code 2, before a run folder exists."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree

import pytest
import torch
from typer.testing import Result

from motionkit_policy_kimodo.settings import KimodoOptions
from motionkit_policy_kimodo.texts import KNOWN, write_vectors

Change = Callable[[Path, Path], Sequence[str]]
"""Called with the copy of the model and the fixtures; returns further words."""


def _without_statistics(model: Path, recorded: Path) -> Sequence[str]:
    (model / "stats" / "motion" / "body" / "std.npy").unlink()
    return ()


def _unknown_target(model: Path, recorded: Path) -> Sequence[str]:
    text = (model / "config.yaml").read_text()
    (model / "config.yaml").write_text(text.replace("kimodo.skeleton.SOMASkeleton30", "os.system"))
    return ()


def _smplx(model: Path, recorded: Path) -> Sequence[str]:
    text = (model / "config.yaml").read_text()
    (model / "config.yaml").write_text(text.replace("SOMASkeleton30", "SMPLXSkeleton22"))
    return ()


def _wide(model: Path, recorded: Path) -> Sequence[str]:
    text = (model / "config.yaml").read_text()
    assert "llm_shape" in text
    (model / "config.yaml").write_text(text.replace("16]", "12]").replace("- 16", "- 12"))
    return ()


def _table(model: Path, recorded: Path) -> Sequence[str]:
    write_vectors(model.parent / "narrow.safetensors", {KNOWN: torch.ones(8)}, encoder="other")
    return ("--policy.embeddings", str(model.parent / "narrow.safetensors"))


def _prompts(content: str, *more: str) -> Change:
    def change(model: Path, recorded: Path) -> Sequence[str]:
        path = model.parent / ("other.csv" if content.startswith("text,") else "other.txt")
        path.write_text(content)
        return ("--dataset.path", str(path), *more)

    return change


def _constraints(*, frame: int, joints: int) -> Change:
    def change(model: Path, recorded: Path) -> Sequence[str]:
        one = {"type": "fullbody", "frame_indices": [frame], "root_positions": [[0, 1, 0]]}
        entry = one | {"local_joints_rot": [[[0.0, 0.0, 0.0]] * joints]}
        (model.parent / "c.json").write_text(json.dumps([entry]))
        rows = [f"{text},1,c.json" for text in ("A person walks.", "A person waves.", "A man sits down.")]
        return _prompts("\n".join(["text,seconds,constraints", *rows]))(model, recorded)

    return change


LINES = "A person walks.\t1\nA person waves.\t1\nA man sits down.\t1\n"
REFUSED: dict[str, tuple[Change, str]] = {
    "a folder without statistics": (_without_statistics, "has no statistics"),
    "weights of TMR": (lambda model, known: ("--policy.checkpoint", str(known / "tiny_tmr")), "kimodo-tmr"),
    "SMPL-X without the body": (_smplx, "SMPL-X's body"),
    "a class that is not known": (_unknown_target, "os.system"),
    "an llm_shape that the weights do not have": (_wide, "does not fit KimodoNetwork"),
    "vectors of another width": (_table, "8 numbers, the model reads 16"),
    "a text without a vector": (
        _prompts(LINES + "A cat sleeps.\t1\n"),
        "kimodo-embed",
    ),
    "prompts without seconds": (_prompts(LINES.replace("\t1", "")), "has no seconds"),
    "constraints past the end": (_constraints(frame=40, joints=30), "is of frame 40"),
    "constraints of another skeleton": (_constraints(frame=4, joints=34), "another skeleton"),
    "several prompts in a row": (lambda *_: ("--k-segments", "2"), "--k-segments"),
    "data at another rate": (lambda *_: ("--dataset", "starter"), "frames per second"),
    "a reward of motions of clips": (lambda *_: ("--reward", "movement"), "reference clips"),
}


@pytest.mark.parametrize(("change", "said"), REFUSED.values(), ids=REFUSED)
def test_refused(
    change: Change, said: str, cli: Callable[..., Result], soma: KimodoOptions, recorded: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    copytree(soma.checkpoint, model, copy_function=lambda a, b: Path(b).write_bytes(Path(a).read_bytes()))
    for folder in (model, *model.rglob("*")):
        folder.chmod(0o755)
    (tmp_path / "texts.txt").write_text(LINES)
    words = ["--policy.checkpoint", str(model), "--dataset", "kimodo-prompts"]
    more = list(change(model, recorded))
    if "--dataset" in more:
        words = words[:2]
    elif "--dataset.path" not in more:
        more += ["--dataset.path", str(tmp_path / "texts.txt")]
    if "--policy.checkpoint" in more:
        words = words[2:]
    if "--reward" not in more:
        more += ["--reward", "physics"]
    table = () if "--policy.embeddings" in more else ("--policy.embeddings", str(soma.embeddings))
    result = cli("grpo", "--policy", "kimodo", *words, *table, *more, "--num-steps", "1", "--out", "run")
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not Path("run").exists()


def test_a_robot_s_file_with_missing_columns(cli: Callable[..., Result]) -> None:
    for name, columns in {"less.csv": [35, 35], "later.csv": [36, 30]}.items():
        Path(name).write_text("".join(",".join(["1"] * count) + "\n" for count in columns))
        result = cli("convert", name, "out.bvh")
        assert result.exit_code == 2
        assert " 36" in result.output
        assert "columns" in result.output
        assert "  fix" in result.output
        assert not Path("out.bvh").exists()


def test_tmr_of_soma_is_refused_on_the_g1(
    cli: Callable[..., Result], checkpoint: Path, make_table: Callable[..., Path], recorded: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text(LINES)
    result = cli(
        "grpo", "--policy", "kimodo", "--policy.checkpoint", str(checkpoint), "--policy.embeddings",
        str(make_table(8)), "--dataset", "kimodo-prompts", "--dataset.path", str(tmp_path / "texts.txt"), "--reward",
        "kimodo-tmr", "--reward.weights", str(recorded / "tiny_tmr"), "--reward.embeddings",
        str(make_table(16, name="wide.safetensors")), "--out", "run",
    )  # fmt: skip
    assert result.exit_code == 2, result.output
    assert "of the g1 body" in " ".join(result.output.split())
