"""Captions of shapes are read as what they say, relations included."""

from __future__ import annotations

import numpy as np
import pytest

from motionkit_regions.datasets.base import Claim, KnowsScenes, Thing
from motionkit_regions.datasets.scenes import COLOURS, SHAPES, WORDS, Shapes
from motionkit_regions.datasets.settings import ShapesOptions


def test_what_is_written_is_read() -> None:
    """Every word of the data's captions is true of the first object of the scene, and none is left unread."""
    data, index = Shapes(ShapesOptions(scenes="simple")), np.arange(300)
    assert isinstance(data, KnowsScenes)
    pairs = zip(data.regions("train", index).captions, data.scenes("train", index), strict=True)
    lengths = set()
    for caption, scene in pairs:
        claim, thing = data.read(caption), scene.things[scene.meant]
        assert claim.unread == ()
        assert claim.relations == ()
        assert all(thing.attributes[kind] == value for kind, value in claim.said)
        assert ("shape", thing.attributes["shape"]) in claim.said
        lengths.add(len(claim.said))
        assert set(thing.attributes) == set(data.attributes)
    assert lengths == {1, 2, 3, 4}


def test_things_are_where_their_pixels_are() -> None:
    data = Shapes(ShapesOptions(scenes="simple"))
    for scene, mask in zip(data.scenes("val", np.arange(30)), data.regions("val", np.arange(30)).masks, strict=True):
        rows, columns = np.nonzero(mask)
        x, y = (np.mean(axis + 0.5) / 24 for axis in (columns, rows))
        assert scene.things[0].middle == pytest.approx((x, y), abs=0.04)


@pytest.mark.parametrize(
    ("caption", "said", "relation", "other"),
    [
        ("the small circle left of the square", "small circle", "left of", "square"),
        ("the circle to the left of a large red square", "circle", "left of", "large red square"),
        ("a red circle above the small blue square at the top", "red circle", "above", "small blue square at the top"),
        ("the circle at the top left of the square", "circle at the top", "left of", "square"),
        ("the triangle in the middle below the white diamond", "triangle in the middle", "below", "white diamond"),
    ],
)  # fmt: skip
def test_a_relation_parts_the_object_from_the_other_one(caption: str, said: str, relation: str, other: str) -> None:
    read = Shapes(ShapesOptions(scenes="simple")).read
    found = read(caption)
    assert found.said == read(said).said != ()
    assert found.relations == ((relation, read(other)),)
    assert found.unread == ()


def test_what_cannot_be_read_is_kept_apart() -> None:
    read = Shapes(ShapesOptions(scenes="simple")).read
    assert read("") == Claim()
    assert read("A small RED circle.") == read("a small red circle")
    assert read("a dog at the zoo") == Claim((), (), ("dog", "at", "the", "zoo"))
    assert read("a red blue circle").said == (("colour", "red"), ("colour", "blue"), ("shape", "circle"))
    assert read("a circle left").unread == ("left",)
    assert read("a circle at the top bottom").said == (("shape", "circle"), ("place", "at the top bottom"))
    nested = read("the circle above the square left of the diamond").relations[0][1]
    assert nested.relations == (("left of", read("the diamond")),)


def test_relations_compare_columns_alone_or_rows_alone() -> None:
    related = Shapes.related
    cells = {(x, y): Thing({}, ((x + 0.5) / 3, (y + 0.5) / 3)) for x in range(3) for y in range(3)}
    for (x, y), one in cells.items():
        for (u, v), other in cells.items():
            held = [word for word in ("left of", "right of", "above", "below") if related(word, one, other)]
            sides = {"left of": x < u, "right of": x > u, "above": y < v, "below": y > v}
            assert held == [word for word, holds in sides.items() if holds]
    shifted = Thing({}, (0.5 + 2 / 48, 0.5))  # of one cell, at both ends of where an object may be in it
    assert not related("right of", shifted, Thing({}, (0.5, 0.5)))
    assert not related("beside", cells[0, 0], cells[1, 0])


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
