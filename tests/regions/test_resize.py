"""Images of any size for the small policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.regions.datasets.scenes import Shapes
from motionkit.regions.small import _squeezed, open_regions
from motionkit.regions.small_settings import RegionOptions


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
