"""The guide's checklist: each line can be ok and can warn, and names what decided it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from motionkit.config import resolve
from motionkit_predictor.data.clips import ClipSet, StateClip
from motionkit_predictor.states import MotionState
from motionkit_predictor.training.checklist import DataFacts, as_lines, checklist
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.training.trainer import TrainMpl, data_facts

FACTS = DataFacts(5_000, 40, {"walk": 0.6, "run": 0.35, "idle": 0.05}, 40, 8, "runs/enc")


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
        ("soft period", {"contacts": 39}, "39 of 40"),
        ("teacher forcing and free runs", {"validation": 0}, "0 validation clips"),
        ("variety", {"gaits": {"walk": 0.96, "run": 0.04}}, "walk 96 %, run 4 % of the frames"),
        ("variety", {"gaits": {}}, "no known feet"),
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


def test_few_epochs_have_no_teacher_forcing_and_that_is_said() -> None:
    for epochs, words in ((2, "none: 2 epochs are too few"), (4, "1 → 0 → 0")):
        assert check("teacher forcing goes down", run={"epochs": epochs}) == (True, mock.ANY)
        assert words in check("teacher forcing goes down", run={"epochs": epochs})[1]
    asked = check("teacher forcing goes down", run={"epochs": 2}, teacher={"max": 0.0})
    assert asked == (False, "0 → 0 → 0, epoch_linear")
    assert not check("teacher forcing goes down", run={"epochs": 2}, teacher={"end_epoch": 1})[0]


@pytest.mark.parametrize(("dropout", "ok"), [(None, True), (0.02, True), (0.3, True), (0.01, False)])
def test_the_dropout_that_is_taken_without_a_word_is_no_fault(dropout: float | None, ok: bool) -> None:
    facts = DataFacts(**{**FACTS.__dict__, "frames": 40_000})
    settings = {"model": {"dropout": dropout}, "train": {"seq_len": 60}, "optim": {"learning_rate": 1e-3}}
    assert check("sizes", facts, **settings)[0] is ok


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
    settings = resolve(TrainMplSettings, files=(tmp_path / "exp.json",)).settings
    assert [one for one in checklist(settings, FACTS) if not one.ok] == []


def test_facts_are_counted() -> None:
    names, parents = ("hips", "left_knee", "left_ankle", "right_knee", "right_ankle"), (-1, 0, 1, 0, 3)
    offsets = torch.tensor([[0.0, 0, 0], [0, -0.45, 0], [0, -0.45, 0], [0, -0.45, 0], [0, -0.45, 0]]).double()

    def clip(key: str, frames: int, split: str, *, speed: float, contacts: bool = True) -> StateClip:
        steps = torch.tensor([0.0, speed / 30.0, 0.0]).double().expand(frames, 3)
        state = MotionState(
            torch.eye(3).double().expand(frames, 5, 3, 3), steps, torch.ones(frames).double(),
            torch.ones(frames, 2).double(),
        )  # fmt: skip
        return StateClip(key, state, offsets, split, contacts)

    clips = (
        clip("a", 60, "train", speed=1.2), clip("b", 30, "train", speed=0.0, contacts=False),
        clip("c", 30, "train", speed=3.5), clip("d", 99, "val", speed=0.0), clip("e", 99, "test", speed=0.0),
    )  # fmt: skip
    found = data_facts(ClipSet("set", names, parents, 30.0, clips), "enc")
    assert (found.frames, found.clips, found.contacts, found.validation, found.encoder) == (120, 3, 2, 1, "enc")
    assert found.gaits == pytest.approx({"idle": 0.25, "walk": 0.5, "run": 0.25, "jump": 0.0}, abs=0.01)
    unknown = data_facts(ClipSet("set", ("a", "b", "c", "d", "e"), parents, 30.0, clips))
    assert unknown.gaits == {}


def test_defaults_pass_on_the_starter() -> None:
    """A person who gave no option gets no warning; what they can do is said without one."""
    trainer = TrainMpl(TrainMplSettings(encoder="none"))
    trainer.prepare()
    lines = trainer.describe()["checklist"]
    assert isinstance(lines, list)
    assert [line for line in lines if line.startswith("warn")] == []
    assert any("no encoder; motionkit pretrain mpl-encoder" in line for line in lines)
    assert any("idle 7" in line and "walk 2" in line for line in lines)
