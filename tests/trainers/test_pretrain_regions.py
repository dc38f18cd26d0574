"""`pretrain regions`: what it learns without captions, from a part with captions, and how it resumes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.regions.datasets.scenes import Shapes
from motionkit.regions.datasets.settings import ShapesOptions
from motionkit.regions.pretrain import Eyes, PretrainRegions, _empty, pointed_at
from motionkit.regions.pretrain_settings import PretrainRegionsSettings
from motionkit.regions.small import ShapesPolicy
from motionkit.regions.small_settings import RegionSettings

from ..made.training import run_trainer

SMALL = {"width": 16, "layers": 1, "vision": 8, "channels": 8, "prompt": 8, "region": "word"}


def settings(out: Path | None, **train: Any) -> PretrainRegionsSettings:
    given = {
        "run": {"num_steps": 8, "out": out}, "model": SMALL, "threads": 1,
        "train": {"val_every": 2, "val_regions": 8, "batch_size": 8, "eyes": 3, "absent": 0.5, "best": True} | train,
        "dataset": {"name": "shapes", "scenes": "words", "images": 300, "captioned": 0.1}, "checkpoint": {"every": 1},
    }  # fmt: skip
    return PretrainRegionsSettings.model_validate(given)


def test_a_run_that_was_stopped_ends_in_the_same_bits(tmp_path: Path) -> None:
    run_trainer(PretrainRegions, "pretrain regions", settings(tmp_path / "one"), tmp_path / "one")
    run_trainer(PretrainRegions, "pretrain regions", settings(tmp_path / "two"), tmp_path / "two", stop_after=5)
    resumed = settings(None)
    again = resumed.model_copy(update={"run": resumed.run.model_copy(update={"resume": tmp_path / "two"})})
    run_trainer(PretrainRegions, "pretrain regions", again, tmp_path / "two")
    one, two = ((tmp_path / run / "policy/model.safetensors").read_bytes() for run in ("one", "two"))
    assert one == two
    lines = [json.loads(line) for line in (tmp_path / "one/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "val/loss" in line] == [2, 4, 6, 8]


def test_a_part_without_a_caption_and_best_without_validation_are_refused(tmp_path: Path) -> None:
    nothing = settings(tmp_path / "run")
    nothing = PretrainRegionsSettings.model_validate(
        nothing.model_dump() | {"dataset": {"name": "shapes", "scenes": "words", "captioned": 0.0}}
    )
    with pytest.raises(MotionkitError, match="no training region"):
        PretrainRegions(nothing).prepare()
    with pytest.raises(MotionkitError, match="needs validation"):
        PretrainRegions(settings(tmp_path / "run", val_every=0)).prepare()


def test_squares_move_with_their_masks() -> None:
    data = Shapes(ShapesOptions(scenes="words"))
    found = data.regions("train", np.arange(6))
    policy = ShapesPolicy(RegionSettings.model_validate(SMALL), data.words)
    masks = torch.from_numpy(np.stack(found.masks))
    images, moved = Eyes(policy, 0).moved(found.images, masks, (3,))
    for image, other, mask, place in zip(found.images, images, masks.numpy(), moved.numpy(), strict=True):
        assert not np.array_equal(image, other)
        squares = [
            {one[y : y + 16, x : x + 16].tobytes() for y in (0, 16, 32) for x in (0, 16, 32)} for one in (image, other)
        ]
        assert squares[0] == squares[1]
        before, after = (one.repeat(2, 0).repeat(2, 1) for one in (mask, place))
        assert mask.sum() == place.sum()
        assert sorted(map(tuple, image[before])) == sorted(map(tuple, other[after]))


def test_pixels_are_those_of_the_squares_in_the_order_of_the_words() -> None:
    policy = ShapesPolicy(RegionSettings.model_validate(SMALL), ("a",))
    image = np.zeros((48, 48, 3), np.uint8)
    image[16:32, 32:48] = 255  # the sixth word
    found = Eyes(policy, 0).pixels([image])
    assert found.shape == (1, 9, 192)
    assert found[0].mean(1).tolist() == pytest.approx([-1] * 5 + [1] + [-1] * 3)
    cells = policy.see([image]).cells
    rest = policy.see([np.zeros((48, 48, 3), np.uint8)]).cells
    assert int((cells - rest).abs().sum(2).argmax()) == 5


def test_an_empty_image_has_the_colour_of_most_pixels() -> None:
    found = Shapes(ShapesOptions(scenes="words")).regions("train", np.arange(3)).images
    assert np.array_equal(_empty(found), np.full((48, 48, 3), 40, np.uint8))


@torch.no_grad()
def test_a_region_is_read_as_the_words_of_the_image_in_it_and_where_they_stand() -> None:
    policy = ShapesPolicy(RegionSettings.model_validate(SMALL), ("a",))
    images = Shapes(ShapesOptions(scenes="words")).regions("train", np.arange(2)).images
    seen, model = policy.see(images), policy.network.language_model
    masks = torch.zeros(2, 24, 24, dtype=torch.bool)
    masks[0, 8:16, 16:24] = True  # the sixth word
    masks[1, :8, :16] = True  # the first two
    found = policy.network.region_word(seen.regions, masks)[:, 0] - model.region
    first = policy.network.mlp1(seen.cells[0, 5]) + model.positions[5]
    second = policy.network.mlp1(seen.cells[1, :2].mean(0)) + model.positions[:2].mean(0)
    assert torch.allclose(found, torch.stack([first, second]), atol=1e-5)


@torch.no_grad()
def test_the_mask_decoder_reads_where_a_pixel_is() -> None:
    images = Shapes(ShapesOptions(scenes="words")).regions("train", np.arange(2)).images
    plain, placed = (
        ShapesPolicy(RegionSettings.model_validate(SMALL | {"places": places}), ("a",)) for places in (False, True)
    )
    placed.network.grounding_encoder.sam_encoder.load_state_dict(
        plain.network.grounding_encoder.sam_encoder.state_dict()
    )
    found = placed.see(images).drawn
    assert torch.equal(found[:, :8], plain.see(images).drawn)
    middles = torch.linspace(-1, 1, 48).view(24, 2).mean(1)
    assert torch.allclose(found[0, 8], middles[:, None].expand(24, 24), atol=1e-6)
    assert torch.allclose(found[1, 9], middles.expand(24, 24), atol=1e-6)
    assert torch.allclose(found[:, 10:], found[:, 8:10] ** 2)
    assert placed.draw(placed.see(images), torch.zeros(2, 8)).shape == (2, 24, 24)


@pytest.mark.parametrize("eyes", [0, 3])
def test_captions_leave_encoders_alone_that_learned_without(tmp_path: Path, eyes: int) -> None:
    trainer = PretrainRegions(settings(tmp_path / "run", eyes=eyes))
    trainer.prepare()
    trainer._told(np.arange(4)).backward()
    network = trainer.policy.network
    seen = [*network.vision_model.parameters(), *network.grounding_encoder.sam_encoder.parameters()]
    assert all((one.grad is None) == bool(eyes) for one in seen)
    assert network.mlp1[1].weight.grad is not None


def test_every_object_is_pointed_at() -> None:
    mask, others = np.zeros((4, 4), bool), np.zeros((2, 4, 4), bool)
    mask[0], others[0, 1], others[1, 2] = True, True, True
    rows = {int(pointed_at([mask], [others], (seed,))[0].any(1).argmax()) for seed in range(30)}
    assert rows == {0, 1, 2}
    assert np.array_equal(pointed_at([mask], (), (1,))[0], mask)


def test_a_run_of_before_these_settings_goes_on_in_the_same_bits(tmp_path: Path, cli: Callable[..., Any]) -> None:
    small = ["--num-steps", "4", "--batch-size", "4", "--threads", "1", "--set", "train.val_every=0"]
    small += ["--set", "checkpoint.every=1"]
    for out in ("whole", "old"):
        assert cli("pretrain", "regions", *small, "--out", out).exit_code == 0
    shutil.rmtree("old/policy")
    for step in (3, 4):
        shutil.rmtree(f"old/checkpoints/step-{step:08d}", ignore_errors=True)
    config = json.loads(Path("old/config.json").read_text())
    for group, later in (("model", ("region", "places", "resize")), ("train", ("eyes", "absent", "best"))):
        for name in later:
            del config[group][name]
    Path("old/config.json").write_text(json.dumps(config))
    found = cli("pretrain", "regions", "--resume", "old")
    assert found.exit_code == 0, found.output
    one, two = ((Path(out) / "policy/model.safetensors").read_bytes() for out in ("whole", "old"))
    assert one == two
