"""Data of which a part has captions: no reward reads those of the others, and loop 2 has those of the part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.config import read_layers, resolve
from motionkit.contracts.dataset import Split
from motionkit.errors import MotionkitError
from motionkit.rl import RowNoise
from motionkit_regions.datasets.base import Regions
from motionkit_regions.datasets.scenes import COLOURS, SHAPES, Shapes
from motionkit_regions.datasets.settings import ShapesOptions
from motionkit_regions.evaluation.measure import as_it_is, open_task
from motionkit_regions.pretrain import mask_loss
from motionkit_regions.self_play.loop import Turn
from motionkit_regions.self_play.loops import CaptionToMaskOptions, MaskToCaptionOptions
from motionkit_regions.self_play.play import RegionOrder
from motionkit_regions.self_play.settings import CurriculumSettings, Sa2vaRlSettings
from motionkit_regions.self_play.train import Sa2vaRl
from motionkit_regions.self_play.turns import CaptionToMask, MaskToCaption
from motionkit_regions.small import open_regions
from motionkit_regions.small_settings import RegionOptions
from tests.made.training import run_trainer

from .test_sa2va_rl import train

WORDS = {"name": "shapes", "scenes": "words", "images": 400, "captioned": 0.1}


def changes(**more: Any) -> dict[str, Any]:
    loops = {"name": "mask-to-caption", "listen": 0.5}, {"name": "caption-to-mask", "absent": 0.5, "learn": 0.5}
    return {
        "dataset": WORDS,
        "loop1": loops[0],
        "loop2": loops[1],
        "loop1_reward": {"iou": {}, "contrast": {}, "brevity": {}},
        "run": {"num_steps": 2},
        "heldout": {"regions": 4, "every": 0},
    } | more


def replaced(part: set[int]) -> Any:
    """Return `Shapes.regions` with noise for the captions of training regions that are not in the part."""
    whole = Shapes.regions

    def regions(self: Shapes, split: Split, index: NDArray[np.int64]) -> Regions:
        found = whole(self, split, index)
        noise = ("small at the purple", "", "[SEG] white", "triangle triangle triangle")
        captions = [
            noise[number % 4] if split == "train" and number not in part else text
            for number, text in zip(index.tolist(), found.captions, strict=True)
        ]
        return Regions(found.images, found.masks, tuple(captions), found.others)

    return regions


def test_captions_of_regions_without_one_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path / "one", **changes())
    part = Shapes(ShapesOptions(scenes="words", images=400, captioned=0.1)).captioned("train")
    assert part is not None
    with monkeypatch.context() as patch:
        patch.setattr(Shapes, "regions", replaced(set(part.tolist())))
        train(tmp_path / "two", **changes())
        one, two = ((tmp_path / run / "policy-last/model.safetensors").read_bytes() for run in ("one", "two"))
        assert one == two
        patch.setattr(Shapes, "regions", replaced(set()))  # those of the part count
        train(tmp_path / "three", **changes())
    assert (tmp_path / "three/policy-last/model.safetensors").read_bytes() != one
    lines = [json.loads(line) for line in (tmp_path / "one/metrics.jsonl").read_text().splitlines()]
    assert {"loop1/reward/contrast", "loop1/reward/brevity"} <= set(lines[0])


def test_a_reward_that_compares_with_captions_is_given_those_of_the_part(tmp_path: Path) -> None:
    train(tmp_path / "run", **changes(loop1_reward="meteor"))
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert max(line["loop1/reward/meteor"] for line in lines) > 0.1


@pytest.mark.parametrize("given", [{"captioned": 0.0}, {"captioned": 0.0, "images": 8}, {"captioned": 1 / 400}])
def test_no_caption_or_one_is_refused_where_a_loop_reads_them(tmp_path: Path, given: dict[str, Any]) -> None:
    for loops, word in ({"supervised": 0.0}, "loop2"), ({"caption_to_mask": 0.0}, "loops.supervised"):
        with pytest.raises(MotionkitError, match=word):
            train(tmp_path / "run", **changes(dataset={**WORDS, **given}, loops=loops))
    found = train(
        tmp_path / "one",
        **changes(
            dataset={**WORDS, **given},
            loop2_reward={"iou-truth": {}},
            loops={"caption_to_mask": 0.0, "supervised": 0.0},
        ),
    )
    assert found["heldout"]


def test_a_curriculum_that_reads_all_captions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError, match="reads the captions of all regions"):
        train(tmp_path / "run", **changes(curriculum={"by": "ambiguity"}))


def order(part: list[int] | None) -> RegionOrder:
    data = Shapes(ShapesOptions(scenes="words", images=400, captioned=0.1))
    return RegionOrder(
        data,
        open_regions(RegionOptions()),
        4,
        0,
        CurriculumSettings(),
        20,
        as_it_is,
        part=None if part is None else np.array(part),
    )


def test_regions_come_without_captions_and_those_of_the_part_in_turn() -> None:
    found = order([3, 5, 7, 9, 11, 13, 15, 17])
    data = Shapes(ShapesOptions(scenes="words", images=400, captioned=0.1))
    assert set(found.at(1).captions) == {""}
    told = [text for step in (1, 2) for text in found.captioned(step).captions]
    assert sorted(told) == sorted(data.regions("train", np.array([3, 5, 7, 9, 11, 13, 15, 17])).captions)
    assert len(order([3]).captioned(1)) == 4  # a part of one region comes again


def test_a_share_of_the_captions_is_of_what_is_not_there() -> None:
    found = order([3, 5, 7, 9, 11, 13, 15, 17]).captioned(1, 0.5)
    plain = order([3, 5, 7, 9, 11, 13, 15, 17]).captioned(1)
    assert not found.masks[:2].any()
    assert torch.equal(found.masks[2:], plain.masks[2:])
    assert found.captions[2:] == plain.captions[2:]
    assert not set(found.captions[:2]) & set(plain.captions[:2])
    whole = order(None)
    assert whole.captioned(3).captions == whole.at(3).captions
    assert whole.captioned(3, 0.5).captions[2:] == whole.at(3).captions[2:]
    assert not whole.captioned(3, 0.5).masks[:2].any()


def test_an_absent_object_that_is_there_is_not_taught_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    part = [3, 5, 7, 9, 11, 13, 15, 17]
    plain = order(part).captioned(1)
    whole = Shapes.absent

    def absent(self: Shapes, split: Split, index: NDArray[np.int64]) -> tuple[str, ...]:
        scene = self._scene(split, int(index[0]))
        there = f"the {list(COLOURS)[scene.colours[0]]} {SHAPES[scene.shapes[0]]}"
        return (there, *whole(self, split, index)[1:])

    monkeypatch.setattr(Shapes, "absent", absent)
    found = order(part).captioned(1, 0.5)
    assert torch.equal(found.masks[0], plain.masks[0])
    assert found.captions[0] == plain.captions[0]
    assert not found.masks[1].any()
    assert found.captions[1] != plain.captions[1]


@torch.no_grad()
def test_what_is_learned_beside_the_actions_is_the_loss_of_masks_times_the_reward() -> None:
    policy = open_regions(RegionOptions())
    data = Shapes(ShapesOptions(scenes="words"))
    task = open_task(policy, data.regions("train", np.arange(4)))
    rewards = torch.tensor([0.5, -1.0, 0.0, 3.0])
    turn = Turn(as_it_is, as_it_is, RowNoise((1,), 4), measured={"spread": 1.0})
    spoken = MaskToCaption(MaskToCaptionOptions(listen=2.0), policy=policy).play(task, turn)
    given = CaptionToMask(CaptionToMaskOptions(learn=2.0), policy=policy).play(task, turn)
    for played, texts in ((spoken, list(spoken.made.texts.texts)), (given, list(task.captions))):
        assert played.beside is not None
        found = played.beside(rewards)
        for row in range(4):
            index = torch.tensor([row])
            own = policy.draw(task.seen.select(index), policy.prompts(task.seen.select(index), [texts[row]]))
            slow = 2.0 * min(1.0, max(0.0, float(rewards[row]))) * float(mask_loss(own, task.masks[index]))
            assert float(found[row]) == pytest.approx(slow, abs=1e-4)
    assert MaskToCaption(MaskToCaptionOptions(listen=0.0), policy=policy).play(task, turn).beside is None


def test_a_run_recorded_before_there_were_these_settings_goes_on_in_the_same_bits(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "dataset": {"name": "shapes", "scenes": "simple"}, "loop1": {"name": "mask-to-caption", "listen": 0.0},
        "loop2": {"name": "caption-to-mask", "learn": 0.0, "absent": 0.0}, "loops": {"supervised": 0.0},
        "loop1_reward": {"iou": {}, "meteor": {"weight": 0.5}}, "loop2_reward": {"meteor": {}, "iou-truth": {}},
    }  # fmt: skip
    train(tmp_path / "whole", **given)
    train(tmp_path / "parts", stop_after=2, **given)
    file = tmp_path / "parts/config.json"
    config = json.loads(file.read_text())
    for slot, later in (("dataset", ("scenes", "images", "captioned", "lapse", "extra")), ("loop1", ("listen",)),
                        ("loop2", ("learn", "absent"))):  # fmt: skip
        for name in later:
            del config[slot][name]
    file.write_text(json.dumps(config))
    layers = read_layers(Sa2vaRlSettings, files=[file])
    assert layers[0].table["dataset"]["scenes"] == "simple"
    assert layers[0].table["loop1"]["listen"] == 0.0
    snapshot = resolve(Sa2vaRlSettings, files=[file]).settings
    again = snapshot.model_copy(
        update={"run": snapshot.run.model_copy(update={"resume": tmp_path / "parts", "out": None})}
    )
    run_trainer(Sa2vaRl, "sa2va-rl", again, tmp_path / "parts")
    one, two = ((tmp_path / run / "policy-last/model.safetensors").read_bytes() for run in ("whole", "parts"))
    assert one == two
