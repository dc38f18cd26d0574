"""`motionkit sa2va-rl`: it improves what the frozen judge sees, its control does not, it resumes to the bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.report.page import run_page
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.evaluation.result import GREEDY, SAMPLED
from motionkit_regions.pretrain import PretrainRegions
from motionkit_regions.pretrain_settings import PretrainRegionsSettings
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.train import Sa2vaRl
from motionkit_regions.small import open_regions
from motionkit_regions.small_settings import RegionOptions
from tests.made.training import run_in_parts, run_trainer


def settings(out: Path | None = None, **changes: Any) -> Sa2vaRlSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 4, "out": out}, "rollout": {"batch_size": 2, "group_size": 4}, "threads": 1,
        "heldout": {"regions": 8, "every": 2},
    }  # fmt: skip
    for name, value in changes.items():
        base[name] = {**base.get(name, {}), **value} if isinstance(value, dict) and "reward" not in name else value
    return Sa2vaRlSettings.model_validate(base)


def train(out: Path, *, stop_after: int = 0, **changes: Any) -> Mapping[str, Any]:
    _, found = run_trainer(Sa2vaRl, "sa2va-rl", settings(out, **changes), out, stop_after=stop_after)
    return dict(found)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, train(out)


def test_what_a_run_leaves_behind(finished: tuple[Path, Mapping[str, Any]]) -> None:
    out, found = finished
    heldout, sampled = found["heldout"], found["heldout_sampled"]
    assert list(heldout) == [*GREEDY, "referring_iou", "no_target"]  # what one gets leads
    assert list(sampled) == list(SAMPLED)
    assert all({"before", "after", "delta", "ci95", "n"} == set(one) - {"data"} for one in heldout.values())
    # Before training the policy is the judge, whatever its weights are by now.
    for one in (heldout["cycle_iou_greedy"], sampled["cycle_iou"]):
        judged = heldout["judge_iou_greedy"] if one is heldout["cycle_iou_greedy"] else sampled["judge_iou"]
        assert one["before"] == judged["before"]
    data = Shapes().regions("test", np.arange(8)).captions
    assert heldout["words_greedy"]["data"] == pytest.approx(np.mean([len(text.split()) for text in data]))
    assert heldout["attributes_wrong_greedy"]["data"] == 0.0
    assert set(found["attributes"]) == {
        f"{kind}_{how}_greedy" for kind in Shapes.attributes for how in ("right", "wrong", "left_out")
    }
    assert 0.02 < found["equal_entropy"]["temperature"] < 1.1  # four steps change little, and sharpen
    assert [one["title"] for one in found["table"]] == [
        "8 held-out regions, captions of the likeliest words",
        "Sampled captions, beside the policy before at equal entropy", "Attributes, as share of the captions",
    ]  # fmt: skip
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert lines[0]["loop1/kl_div"] == pytest.approx(0, abs=1e-6)
    assert lines[0]["loop2/kl_div"] == pytest.approx(0, abs=1e-6)
    assert lines[0]["loop1/clip_frac"] == lines[0]["loop2/clip_frac"] == 0
    assert {"loop1/reward/iou", "loop2/reward/meteor", "loop2/reward/iou-truth", "loop1/distinct"} <= set(lines[0])
    page = run_page(out)
    assert page.count('<div class="strip wide"') == 8
    assert "frozen judge" in page
    assert "<td>uniqueness</td>" in page
    assert "where its words have the same mean entropy" in page
    assert "likeliest words" in page
    watched = [line for line in lines if "regions/judge_iou_greedy" in line]
    assert {"regions/unique_greedy", "regions/words_greedy", "regions/no_target"} <= set(watched[0])
    trained, start = (open_regions(RegionOptions(checkpoint=place)) for place in (str(out / "policy-last"), "starter"))
    for name, value in trained.tensors().items():
        frozen = name.startswith(("vision_model", "grounding_encoder.sam_encoder"))
        assert torch.equal(value, start.tensors()[name]) or not frozen


@pytest.mark.parametrize("stop_after", [1, 3])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    finished: tuple[Path, Mapping[str, Any]], tmp_path: Path, stop_after: int
) -> None:
    run_in_parts(Sa2vaRl, "sa2va-rl", settings(tmp_path / "parts"), tmp_path / "parts", stop_after=stop_after)
    for name in ("policy", "policy-last"):
        one, two = ((run / name / "model.safetensors").read_bytes() for run in (finished[0], tmp_path / "parts"))
        assert one == two


def test_the_frozen_judge_sees_a_gain_and_no_gain_with_shuffled_advantages(tmp_path: Path) -> None:
    changes = {
        "run": {"num_steps": 15}, "rollout": {"batch_size": 4, "group_size": 8}, "loops": {"supervised": 0.0},
        "heldout": {"regions": 30, "every": 0}, "optim": {"learning_rate": 1e-3},
    }  # fmt: skip
    gain = train(tmp_path / "run", **changes)["heldout_sampled"]["judge_iou"]["delta"]
    shuffled = train(tmp_path / "control", control={"shuffle": True}, **changes)
    control = shuffled["heldout_sampled"]["judge_iou"]["delta"]
    assert gain > 0.1
    assert control < gain / 2


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"loop1_reward": "physics"}, "physics"),
        ({"run": {"num_steps": 0, "epochs": 1}, "dataset": {"name": "shapes", "scenes": "simple"}}, "no end"),
    ],
)
def test_rewards_of_something_else_and_epochs_of_endless_data_are_refused(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    with pytest.raises(MotionkitError, match=word):
        train(tmp_path / "run", **changes)


def test_a_policy_is_trained_from_nothing(tmp_path: Path) -> None:
    small = {"width": 16, "layers": 1, "vision": 8, "channels": 8, "prompt": 8}
    given = {"run": {"num_steps": 30, "out": tmp_path / "run"}, "model": small, "threads": 1, "train": {"val_every": 0}}
    run_trainer(PretrainRegions, "pretrain regions", PretrainRegionsSettings.model_validate(given), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["loss/total"] < lines[0]["loss/total"]
    assert open_regions(RegionOptions(checkpoint=str(tmp_path / "run"))).settings.width == 16
    wrong = PretrainRegionsSettings.model_validate({**given, "model": {**small, "mask_size": 16}})
    with pytest.raises(MotionkitError, match="mask_size"):
        PretrainRegions(wrong).prepare()


def test_a_damaged_policy_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"kind": "regions", "words": ["[SEG]"], "settings": {}}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(MotionkitError, match="damaged"):
        open_regions(RegionOptions(checkpoint=str(tmp_path)))
    with pytest.raises(MotionkitError, match="not a region policy"):
        open_regions(RegionOptions(checkpoint=str(tmp_path / "nothing")))
