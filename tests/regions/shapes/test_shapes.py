"""The drawn scenes: repeatable, and captions say what masks show."""

from __future__ import annotations

import numpy as np

from motionkit.regions.datasets.scenes import COLOURS, SHAPES, WORDS, Shapes
from motionkit.regions.datasets.settings import ShapesOptions


def test_a_number_is_a_scene_whatever_is_drawn_beside_it() -> None:
    data = Shapes(ShapesOptions(scenes="simple"))
    both, one = data.regions("val", np.array([3, 7])), data.regions("val", np.array([7]))
    assert np.array_equal(both.images[1], one.images[0])
    assert np.array_equal(both.masks[1], one.masks[0])
    assert both.captions[1] == one.captions[0]
    assert not np.array_equal(one.images, data.regions("test", np.array([7])).images)
    assert not np.array_equal(
        one.images, Shapes(ShapesOptions(scenes="simple", seed=1)).regions("val", np.array([7])).images
    )


def test_masks_have_the_colour_of_the_caption() -> None:
    found = Shapes(ShapesOptions(scenes="simple", drop_size=0, drop_colour=0, drop_place=0)).regions(
        "train", np.arange(200)
    )
    large = np.stack(found.masks).repeat(2, 1).repeat(2, 2)
    for image, mask, caption in zip(found.images, large, found.captions, strict=True):
        _, size, colour, shape, *place = caption.split()
        pixels = image[mask]
        assert (pixels == COLOURS[colour]).all(1).mean() > 0.6
        assert (mask.sum() / 4 > 18) == (size == "large")
        assert shape in SHAPES
        rows, columns = (np.flatnonzero(mask.any(axis)).mean() / 16 for axis in (1, 0))
        assert ("top" in place) == (rows < 1)
        assert ("right" in place) == (columns > 2)


def test_words_are_left_out_as_often_as_asked() -> None:
    captions = Shapes(ShapesOptions(scenes="simple")).regions("train", np.arange(2000)).captions
    words = [caption.split() for caption in captions]
    assert {word for one in words for word in one} <= set(WORDS)
    assert abs(np.mean([not {"small", "large"} & set(one) for one in words]) - 0.5) < 0.05
    assert abs(np.mean([not set(COLOURS) & set(one) for one in words]) - 0.3) < 0.05
    assert abs(np.mean(["at" not in one and "in" not in one for one in words]) - 0.5) < 0.05
