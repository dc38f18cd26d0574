"""Rewards of masks and texts, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from motionkit.config import choose_one
from motionkit.contracts.dataset import Split
from motionkit.contracts.reward import MaskBatch, TextBatch
from motionkit.errors import MotionkitError
from motionkit_regions.datasets.base import Regions
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.reward_terms import Brevity
from motionkit_regions.rewards import BrevityOptions
from motionkit_regions.small import _squeezed, open_regions
from motionkit_regions.small_settings import RegionOptions


def reward(name: str, **options: Any) -> Any:
    return choose_one("rewards", name, options).build(dataset=None, device="cpu")


def masks(*pairs: tuple[slice, slice]) -> MaskBatch:
    """Rows of ten pixels: the pixels drawn, and those wanted."""
    drawn, wanted = torch.zeros(len(pairs), 1, 10, dtype=torch.bool), torch.zeros(len(pairs), 1, 10, dtype=torch.bool)
    for row, (one, other) in enumerate(pairs):
        drawn[row, 0, one], wanted[row, 0, other] = True, True
    return MaskBatch(drawn, wanted)


def texts(*texts: str, wanted: str = "a red circle", ended: list[bool] | None = None) -> TextBatch:
    return TextBatch(list(texts), [[wanted]] * len(texts), ended=ended)


@pytest.mark.parametrize("name", ["iou", "iou-truth"])
def test_overlap(name: str) -> None:
    batch = masks((slice(0, 4), slice(2, 6)), (slice(0, 5), slice(0, 5)), (slice(0, 0), slice(0, 5)))
    assert reward(name).score(batch, ()).total.tolist() == pytest.approx([2 / 6, 1, 0])


def test_overlap_of_boxes() -> None:
    batch = masks((slice(0, 4), slice(2, 6)))
    batch.masks[0, 0, 1] = False  # a hole does not change the box
    assert reward("box-iou").score(batch, ()).total.tolist() == pytest.approx([2 / 6])


def test_confidence() -> None:
    batch = masks((slice(0, 4), slice(2, 6)))
    with pytest.raises(MotionkitError, match="without a confidence"):
        reward("mask-confidence").score(batch, ())
    sure = MaskBatch(batch.masks, batch.references, torch.tensor([0.7]))
    assert reward("mask-confidence").score(sure, ()).total.tolist() == pytest.approx([0.7])


def test_length() -> None:
    batch = texts("", "one", "one two three", " ".join(["w"] * 12), " ".join(["w"] * 18), " ".join(["w"] * 30))
    found = reward("length", shortest=3, longest=12).score(batch, ()).total.tolist()
    assert found == pytest.approx([0, 1 / 3, 1, 1, 0.5, 0])


def test_distinct() -> None:
    found = reward("distinct").score(texts("", "a b c", "a A a b"), ()).total.tolist()
    assert found == pytest.approx([0, 1, 0.5])


def test_format() -> None:
    said = ("", "a red circle", "a red circle a red circle", "a red a red", "...")
    assert reward("format").score(texts(*said), ()).total.tolist() == [0, 1, 0, 1, 0]
    assert reward("format", repeat=2).score(texts(*said), ()).total.tolist() == [0, 1, 0, 0, 0]
    assert reward("format").score(texts("a b", "a b", ended=[True, False]), ()).total.tolist() == [1, 0]


def test_rules() -> None:
    said = ("A red circle!", "a red", "the circle is red")
    assert reward("rule").score(texts(*said), ()).total.tolist() == [1, 0, 0]
    numbers = ("there are 12", "3 of 7", "none", "it is 7,0")
    assert reward("rule", match="number").score(texts(*numbers, wanted="7 things"), ()).total.tolist() == [0, 1, 0, 1]
    pattern = reward("rule", match="pattern", pattern=r"\bred\b")
    assert pattern.score(texts("a red circle", "reddish"), ()).total.tolist() == [1, 0]
    with pytest.raises(MotionkitError, match="regular expression"):
        reward("rule", match="pattern", pattern="(")


def test_contrast_is_the_overlap_with_the_wanted_object_minus_the_best_with_another() -> None:
    batch = masks(
        (slice(0, 4), slice(0, 4)), (slice(5, 8), slice(0, 4)), (slice(0, 10), slice(0, 5)), (slice(0, 0), slice(0, 4))
    )
    others = torch.zeros(4, 2, 1, 10, dtype=torch.bool)
    others[0, 0, 0, 6:8] = True  # not touched
    others[1, 1, 0, 5:9] = True  # drawn instead of the wanted one; the first place of the row is not an object
    others[2, 0, 0, 5:10] = True  # drawn as well
    others[3, 0, 0, 5:10] = True
    found = reward("contrast").score(MaskBatch(batch.masks, batch.references, others=others), ()).total.tolist()
    assert found == pytest.approx([1, -3 / 4, 0, 0])


def test_contrast_without_other_objects_is_the_overlap() -> None:
    batch = masks((slice(0, 4), slice(2, 6)), (slice(0, 0), slice(0, 4)))
    for others in (None, torch.zeros(2, 0, 1, 10, dtype=torch.bool), torch.zeros(2, 3, 1, 10, dtype=torch.bool)):
        found = reward("contrast").score(MaskBatch(batch.masks, batch.references, others=others), ()).total.tolist()
        assert found == pytest.approx([2 / 6, 0])


def test_brevity() -> None:
    found = reward("brevity", longest=4).score(texts("", "one", "one two three", "a b c d e f"), ()).total.tolist()
    assert found == pytest.approx([0, 3 / 4, 1 / 4, 0])


def test_brevity_follows_the_length_of_the_captions_that_may_be_read() -> None:
    class Data(Shapes):
        def captioned(self, split: Split) -> NDArray[np.int64]:
            return np.arange(5, 9)

        def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
            assert set(index.tolist()) <= set(range(5, 9))
            return replace(super().regions(split, index), captions=("one two three",) * len(index))

    assert Brevity(BrevityOptions(), dataset=Data()).of("a b c", ()) == pytest.approx(1 - 3 / 12)
    assert Brevity(BrevityOptions()).of("a b c", ()) == pytest.approx(1 - 3 / 16)


def test_squeezed_pictures_are_averages_of_what_was_there() -> None:
    photo = np.random.default_rng(0).integers(0, 256, (120, 200, 3)).astype(np.uint8)
    found = _squeezed(photo, 48)
    pixels = torch.from_numpy(photo).permute(2, 0, 1)[None].double()
    wanted = torch.nn.functional.interpolate(pixels, (48, 48), mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    assert found.shape == (48, 48, 3)
    assert np.abs(found - wanted.numpy()).max() < 1.01
    plain = np.full((30, 70, 3), 77, np.uint8)
    assert (_squeezed(plain, 48) == 77).all()


def test_pictures_of_the_right_size_are_not_touched() -> None:
    images = Shapes().regions("val", np.arange(3)).images
    plain, resizing = (open_regions(RegionOptions(resize=resize)) for resize in (False, True))
    assert _squeezed(images[0], 48) is images[0]
    with torch.no_grad():
        assert torch.equal(plain.see(images).cells, resizing.see(images).cells)


def test_a_policy_that_squeezes_is_saved_as_one(tmp_path: Path) -> None:
    policy = open_regions(RegionOptions(resize=True))
    policy.save(tmp_path, tensors=policy.tensors())
    again = open_regions(RegionOptions(checkpoint=str(tmp_path)))
    photo = [np.zeros((20, 90, 3), np.uint8)]
    assert len(again.see(photo)) == 1
    assert "squeezed to 48 x 48" in again.sees
    with pytest.raises(MotionkitError, match="one is 90 x 20"):
        open_regions(RegionOptions()).see(photo)


def test_how_many_words_are_known() -> None:
    policy = open_regions(RegionOptions())
    assert policy.known_words(["a small red circle", ""]) == 1.0
    assert policy.known_words(["A red dog.", "the cat"]) == pytest.approx(3 / 5)
    assert policy.known_words([]) == 1.0
