"""The guide's checklist: each line can be ok and can warn, and names what decided it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.config import Given, resolve
from motionkit.datasets.motions import ClipSet, StateClip
from motionkit.motion.prediction import MotionState
from motionkit.trainers.train_mpl import TrainMplSettings
from motionkit.trainers.train_mpl._checklist import DataFacts, as_lines, checklist
from motionkit.trainers.train_mpl._facts import data_facts

FACTS = DataFacts(5_000, 40, ["walk", "run"] * 20, 40, 8, "runs/enc")


def stage(first: int, last: int, weight: float, horizon: int = 10, **groups: Any) -> dict[str, Any]:
    trainer = {"freerun_weight": weight, "freerun_horizon": horizon}
    return {"range": (first, last), "label": f"s{first}", "trainer": trainer, "loss_groups": groups}


STAGES = (stage(1, 3, 0.0, 8), stage(4, 7, 0.175, 14), stage(8, 10, 0.325, 18))


def check(text: str, facts: DataFacts = FACTS, **table: Any) -> tuple[bool, str]:
    found = {one.text: one for one in checklist(TrainMplSettings(**table), facts)}
    (name,) = [name for name in found if name.startswith(text)]
    return found[name].ok, found[name].value


@pytest.mark.parametrize(
    ("text", "good", "bad", "value"),
    [
        ("losses by group", {}, {"freerun": {"weight": 0}}, "long none"),
        ("key losses", {}, {"loss": {"rot_local": 0.07}}, "one is missing"),
        ("key losses", {"loss": {"fk_pos": 0.07, "rot_local": 0.07, "rot_delta": 1}},
         {"loss": {"fk_pos": 0.5, "rot_local": 0.01, "rot_delta": 0.001}}, "drowns one"),
        ("no constraints of the feet", {}, {"loss": {"skate": 0.1}}, "loss.skate 0.1"),
        ("no constraints of the feet", {"stages": STAGES},
         {"stages": (stage(1, 5, 0.0, aux={"w_skate": 0.2}), stage(6, 10, 0.3))}, "loss.skate 0.2"),
        ("weight of free runs", {}, {"freerun": {"weight": 0.05}}, "0.05, 0.3 or more"),
        ("weight of free runs", {"stages": STAGES}, {"stages": (stage(1, 10, 0.2),)}, "0.2,"),
        ("teacher forcing goes down", {}, {"teacher": {"min": 0.5}}, "→ 0.5"),
        ("teacher forcing goes down", {}, {"teacher": {"mode": "constant"}}, "1 → 1 → 1, constant"),
        ("stages rise evenly", {"stages": STAGES}, {"stages": (stage(1, 5, 0.0), stage(6, 10, 0.4))},
         "rises by 0.4 in s6"),
        ("stages rise evenly", {}, {"stages": (stage(1, 5, 0.15), stage(6, 10, 0.1))}, "goes down"),
        ("stages rise evenly", {}, {"freerun": {"first_horizon": 20}}, "20 to 15"),
        ("number of stages", {"stages": STAGES}, {"stages": (stage(1, 10, 0.3),)}, "1; 3 to 4 for 5000 frames"),
        ("sizes", {}, {"optim": {"learning_rate": 2e-3}}, "--preset medium"),
        ("sizes", {}, {"model": {"dropout": 0.01}}, "model.dropout 0.01, the guide's 0.1"),
    ],
)  # fmt: skip
def test_a_line_is_ok_or_warns_with_its_value(text: str, good: Any, bad: Any, value: str) -> None:
    assert check(text, **good)[0]
    ok, shown = check(text, **bad)
    assert not ok
    assert value in shown


@pytest.mark.parametrize(
    ("text", "facts", "value"),
    [
        ("soft period", {"encoder": ""}, "no encoder"),
        ("soft period", {"contacts": 39}, "39 of 40"),
        ("teacher forcing and free runs", {"validation": 0}, "0 validation clips"),
        ("variety", {"labels": ["walk"] * 40}, "1 kinds: walk 40"),
        ("variety", {"labels": [""] * 40}, "no clip says"),
        ("sizes", {"frames": 400}, "(small)"),
    ],
)
def test_lines_about_the_clips(text: str, facts: dict[str, Any], value: str) -> None:
    changed = DataFacts(**{**FACTS.__dict__, **facts})
    assert check(text)[0]
    ok, _ = check(text, changed)
    assert not ok
    lines = as_lines(checklist(TrainMplSettings(), changed))
    assert any(line.startswith("warn") and value in line for line in lines)


@pytest.mark.parametrize(
    ("frames", "stages"), [(999, (2, 3)), (1_000, (3, 4)), (10_000, (3, 4)), (10_001, (5, 6)), (10**6, (5, 9))]
)
def test_stages_by_the_size_of_the_data(frames: int, stages: tuple[int, int]) -> None:
    facts = DataFacts(**{**FACTS.__dict__, "frames": frames})
    for count in range(1, 11):
        made = tuple(stage(number, number if number < count else 10, 0.3) for number in range(1, count + 1))
        ok = check("number of stages", facts, stages=made)[0]
        assert ok == (stages[0] <= count and (count <= stages[1] or stages[0] == 5))


def test_the_guides_own_config_passes_the_guides_checklist(shared: Path, tmp_path: Path) -> None:
    text = (shared / "guides/003-motion-predictor.md").read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", text[text.index("主配置文件") :], re.DOTALL)
    assert example is not None
    (tmp_path / "exp.json").write_text(example[1])
    settings = resolve(TrainMplSettings, Given(files=(tmp_path / "exp.json",))).settings
    assert [one for one in checklist(settings, FACTS) if not one.ok] == []


def test_facts_are_counted(tmp_path: Path) -> None:
    def clip(key: str, frames: int, split: str, *, contacts: bool = True, gait: int | None = None) -> StateClip:
        state = MotionState(
            torch.eye(3).expand(frames, 2, 3, 3), torch.zeros(frames, 3), torch.zeros(frames), torch.zeros(frames, 2)
        )
        shares = None if gait is None else torch.eye(4)[[gait]].expand(frames, 4)
        return StateClip(key, state, torch.zeros(2, 3), split, contacts, shares)

    clips = (clip("a/Walk_01", 10, "train"), clip("07", 5, "train", contacts=False), clip("x", 4, "train", gait=2),
             clip("y", 99, "val"), clip("z", 99, "test"))  # fmt: skip
    found = data_facts(ClipSet("set", ("a", "b"), (-1, 0), 30.0, clips), "enc")
    assert found == DataFacts(19, 3, ["walk", "", "run"], 2, 1, "enc")
