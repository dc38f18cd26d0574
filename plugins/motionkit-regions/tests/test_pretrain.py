"""`pretrain regions`: what the network reads, what is learned from a part with captions, and how it resumes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.datasets.settings import ShapesOptions
from motionkit_regions.pretrain import PretrainRegions, mask_loss, supervised_loss
from motionkit_regions.pretrain_settings import PretrainRegionsSettings
from motionkit_regions.small import PAD, UNKNOWN, LanguageModel, Layer, Read, ShapesPolicy, open_regions
from motionkit_regions.small_settings import BEFORE, RegionOptions, RegionSettings
from tests.made.commands import assert_refused
from tests.made.training import run_in_parts, run_trainer

SMALL = {"width": 16, "layers": 1, "vision": 8, "channels": 8, "prompt": 8, "region": "word"}


def settings(out: Path | None, **train: Any) -> PretrainRegionsSettings:
    given = {
        "run": {"num_steps": 8, "out": out}, "model": SMALL, "threads": 1,
        "train": {"val_every": 2, "val_regions": 8, "batch_size": 8, "absent": 0.5, "best": True} | train,
        "dataset": {"name": "shapes", "scenes": "words", "images": 300, "captioned": 0.1}, "checkpoint": {"every": 1},
    }  # fmt: skip
    return PretrainRegionsSettings.model_validate(given)


def test_a_run_that_was_stopped_ends_in_the_same_bits(tmp_path: Path) -> None:
    run_trainer(PretrainRegions, "pretrain regions", settings(tmp_path / "one"), tmp_path / "one")
    run_in_parts(PretrainRegions, "pretrain regions", settings(tmp_path / "two"), tmp_path / "two", stop_after=5)
    one, two = ((tmp_path / run / "policy/model.safetensors").read_bytes() for run in ("one", "two"))
    assert one == two
    lines = [json.loads(line) for line in (tmp_path / "one/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "val/loss" in line] == [2, 4, 6, 8]


def test_a_part_without_a_caption_is_refused(tmp_path: Path) -> None:
    nothing = settings(tmp_path / "run")
    nothing = PretrainRegionsSettings.model_validate(
        nothing.model_dump() | {"dataset": {"name": "shapes", "scenes": "words", "captioned": 0.0}}
    )
    with pytest.raises(MotionkitError, match="no training region"):
        PretrainRegions(nothing).prepare()


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
    for times in (1, 2, 3):  # half waves from edge to edge, of rows and of columns
        wave = torch.pi / 2 * times * middles
        at = 8 + 2 * (times - 1)
        assert torch.allclose(found[0, at], wave.sin()[:, None].expand(24, 24), atol=1e-5)
        assert torch.allclose(found[1, at + 1], wave.sin().expand(24, 24), atol=1e-5)
        assert torch.allclose(found[0, at + 6], wave.cos()[:, None].expand(24, 24), atol=1e-5)
        assert torch.allclose(found[1, at + 7], wave.cos().expand(24, 24), atol=1e-5)
    assert placed.draw(placed.see(images), torch.zeros(2, 8)).shape == (2, 24, 24)


@torch.no_grad()
@pytest.mark.parametrize("attention", ["causal", "prefix"])
def test_words_that_are_given_read_all_of_each_other_with_prefix_alone(attention: str) -> None:
    torch.manual_seed(0)
    model = LanguageModel(RegionSettings.model_validate(SMALL | {"attention": attention, "layers": 2}), 9)
    words, given = torch.randn(2, 7, 16), torch.tensor([3, 5])
    found = model(words, given=given)
    for row, first in enumerate(given.tolist()):
        for changed in range(7):
            other = words.clone()
            other[row, changed] = torch.randn(16)
            reached = ((model(other, given=given) - found)[row].abs().amax(1) > 1e-6).tolist()
            together = attention == "prefix" and changed < first
            assert reached == [place >= changed or (together and place < first) for place in range(7)]
    one = Layer(16, 4)
    mask = torch.ones(7, 7).tril().bool()
    q, k, v = one.qkv_proj(one.norm1(words)).view(2, 7, 3, 4, 4).unbind(2)
    weights = (torch.einsum("nihd,njhd->nhij", q, k) / 2).masked_fill(~mask, -torch.inf).softmax(-1)
    mixed = words + one.out_proj(torch.einsum("nhij,njhd->nihd", weights, v).flatten(2))
    slow = mixed + one.linear2(torch.nn.functional.gelu(one.linear1(one.norm2(mixed))))
    assert torch.allclose(one(words, Read(), mask), slow, atol=1e-5)


@torch.no_grad()
def test_a_prompt_does_not_read_the_padding_behind_its_text() -> None:
    data = Shapes(ShapesOptions())
    policy = ShapesPolicy(RegionSettings.model_validate(SMALL), data.words)
    seen = policy.see(data.regions("train", np.arange(2)).images)
    texts = ["the red circle", "the small red circle left of the white square"]
    alone = policy.prompts(seen.select(torch.tensor([0])), texts[:1])
    assert torch.allclose(policy.prompts(seen, texts)[:1], alone, atol=1e-5)


def test_a_policy_without_later_settings_is_what_it_was(tmp_path: Path) -> None:
    old = RegionSettings(width=16, layers=1, region="pooled", places=False, attention="causal")
    policy = ShapesPolicy(old, ("a",))
    policy.save(tmp_path, tensors=policy.tensors())
    document = json.loads((tmp_path / "policy.json").read_text())
    for name in BEFORE:
        del document["settings"][name]
    (tmp_path / "policy.json").write_text(json.dumps(document))
    assert open_regions(RegionOptions(checkpoint=str(tmp_path))).settings == old


def test_a_run_of_before_these_settings_goes_on_in_the_same_bits(tmp_path: Path, cli: Callable[..., Any]) -> None:
    small = ["--num-steps", "4", "--batch-size", "4", "--threads", "1", "--set", "train.val_every=0"]
    small += ["--set", "checkpoint.every=1", "--set", "train.absent=0"]
    small += [word for name, value in BEFORE.items() for word in ("--set", f"model.{name}={value}".lower())]
    for out in ("whole", "old"):
        assert cli("pretrain", "regions", *small, "--out", out).exit_code == 0
    shutil.rmtree("old/policy")
    for step in (3, 4):
        shutil.rmtree(f"old/checkpoints/step-{step:08d}", ignore_errors=True)
    config = json.loads(Path("old/config.json").read_text())
    for group, later in (("model", BEFORE), ("train", ("absent", "best"))):
        for name in later:
            del config[group][name]
    config["train"]["eyes"] = 0  # an option of a while
    Path("old/config.json").write_text(json.dumps(config))
    found = cli("pretrain", "regions", "--resume", "old")
    assert found.exit_code == 0, found.output
    one, two = ((Path(out) / "policy/model.safetensors").read_bytes() for out in ("whole", "old"))
    assert one == two


def test_unknown_words_are_left_out_of_the_loss_as_padding_is() -> None:
    policy = open_regions(RegionOptions())
    regions = Shapes(ShapesOptions()).regions("train", np.arange(2))
    seen, masks = policy.see(regions.images), torch.from_numpy(np.stack(regions.masks))
    texts = ["a red zeppelin above", "a blue circle"]
    ids = policy.encode(texts)
    unknown = ids == UNKNOWN
    assert unknown.sum() == 1
    scores = policy.score_words(seen, masks, ids, whole=True)
    assert scores.whole is not None
    inside = (ids != PAD) & ~unknown
    assert torch.equal(scores.mask, inside)
    wanted = torch.where(inside, scores.whole.gather(-1, ids[..., None])[..., 0], 0.0)
    assert torch.equal(scores.log_prob, wanted)
    assert scores.entropy[~inside].eq(0).all()
    loss = supervised_loss(policy, seen, masks, texts)
    pixels = mask_loss(policy.draw(seen, policy.prompts(seen, texts)), masks).mean()
    assert loss.item() == pytest.approx((pixels - wanted.sum() / inside.sum()).item(), rel=1e-5)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in policy.network.parameters())


def test_validation_with_unknown_words_chooses_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An infinite loss would choose none."""
    plain = Shapes.regions

    def spoken(self: Shapes, split: Any, index: Any) -> Any:
        regions = plain(self, split, index)
        return replace(regions, captions=tuple(f"{text} zeppelin" for text in regions.captions))

    monkeypatch.setattr(Shapes, "regions", spoken)
    run_trainer(PretrainRegions, "pretrain regions", settings(tmp_path / "run"), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    values = [line["val/loss"] for line in lines if "val/loss" in line]
    assert len(values) == 4
    assert np.isfinite(values).all()
    assert all(0.1 < line["supervised/unknown_words"] < 0.5 for line in lines)


def test_a_small_policy_is_exported_as_a_hub_folder_by_default(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run_trainer(PretrainRegions, "pretrain regions", settings(tmp_path / "run"), tmp_path / "run")
    done = cli("export", tmp_path / "run", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out/README.md").is_file()
    assert "model.safetensors" in {path.name for path in (tmp_path / "out").iterdir()}
    assert_refused(
        cli("export", tmp_path / "run", tmp_path / "other", "--to", "onnx"), "cannot be exported to onnx", "--to hub"
    )
