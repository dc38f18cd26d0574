"""Scenes that need words: captions are true, tell one object from the others, and are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motionkit.config import as_recorded
from motionkit_regions.datasets.scenes import (
    _CELL,
    _GROUND,
    COLOURS,
    HELD_OUT,
    MORE_WORDS,
    PLACES,
    RELATIONS,
    SHAPES,
    SIDE,
    SIZES,
    WORDS,
    Look,
    Said,
    Shapes,
    fitting,
    stands,
)
from motionkit_regions.datasets.settings import ShapesOptions
from motionkit_regions.self_play.settings import Sa2vaRlSettings

from .reading import fits_of


def scenes(**changes: object) -> Shapes:
    return Shapes(ShapesOptions.model_validate({"scenes": "words", **changes}))


def test_a_number_is_a_scene_whatever_is_drawn_beside_it() -> None:
    data = scenes()
    both, one = data.regions("val", np.array([3, 7])), data.regions("val", np.array([7]))
    assert np.array_equal(both.images[1], one.images[0])
    assert np.array_equal(both.others[1], one.others[0])
    assert both.captions[1] == one.captions[0]
    assert not np.array_equal(one.images[0], data.regions("test", np.array([7])).images[0])


def test_pictures_and_masks_are_those_of_the_shapes_drawn_one_by_one() -> None:
    data = scenes()
    index = np.arange(60)
    found = data.regions("test", index)
    for number, image, mask, others in zip(index.tolist(), found.images, found.masks, found.others, strict=True):
        scene = data._scene("test", number)
        slow = np.full((SIDE, SIDE, 3), _GROUND, np.uint8)
        for thing in range(len(scene.cells)):
            slow[_inside(scene, thing, SIDE)] = list(COLOURS.values())[int(scene.colours[thing])]
        assert np.array_equal(image, slow)
        masks = np.stack([_inside(scene, thing, len(mask)) for thing in range(len(scene.cells))])
        assert np.array_equal(np.concatenate([mask[None], others]), masks)


def _inside(scene: Any, thing: int, side: int) -> Any:
    """An object as the first version drew it, on the whole image."""
    row, column = divmod(int(scene.cells[thing]), 3)
    axis = (np.arange(side) + 0.5) * SIDE / side
    x = axis[None, :] - (column * _CELL + 8 + scene.shifts[thing, 0])
    y = axis[:, None] - (row * _CELL + 8 + scene.shifts[thing, 1])
    r = list(SIZES.values())[int(scene.sizes[thing])]
    inside = {
        "circle": x * x + y * y <= r * r,
        "square": np.maximum(abs(x), abs(y)) <= 0.88 * r,
        "diamond": abs(x) + abs(y) <= 1.2 * r,
        "triangle": (y <= 0.8 * r) & (2 * abs(x) <= 0.95 * (y + r) + 0.5),
    }
    return inside[SHAPES[int(scene.shapes[thing])]]


def test_captions_without_a_lapse_fit_the_object_that_is_meant_and_no_other() -> None:
    data = scenes(lapse=0.0, extra=0.0)
    captions = data.regions("train", np.arange(500)).captions
    for number, caption in enumerate(captions):
        assert fits_of(caption, data._scene("train", number)) == [0], caption
        for kind in ({*COLOURS}, {*SIZES}):  # no attribute is named in vain
            shorter = " ".join(word for word in caption.split() if word not in kind)
            if shorter != caption and not any(word in caption for word in RELATIONS):
                assert len(fits_of(shorter, data._scene("train", number))) > 1, caption
    assert {word for one in captions for word in one.split()} <= {*WORDS, *MORE_WORDS}
    shares = [np.mean([any(f" {word}" in one for word in kind) for one in captions]) for kind in (PLACES, RELATIONS)]
    assert min(shares) > 0.08


def test_lapses_and_words_that_are_not_needed_are_as_many_as_asked() -> None:
    plain, lapsed, more = (
        scenes(lapse=lapse, extra=extra).regions("train", np.arange(1000)).captions
        for lapse, extra in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.3))
    )
    shorter = np.mean([len(one.split()) < len(other.split()) for one, other in zip(lapsed, plain, strict=True)])
    longer = np.mean([len(one.split()) > len(other.split()) for one, other in zip(more, plain, strict=True)])
    assert 0.15 < shorter < 0.3  # a caption of the shape alone has nothing that it can lack
    assert 0.25 < longer < 0.35


def test_a_part_of_the_training_scenes_has_captions_and_none_of_the_pairs_that_are_held_out() -> None:
    data = scenes(images=2000, captioned=0.1)
    part = data.captioned("train")
    assert part is not None
    assert data.captioned("test") is None
    assert data.count("train") == 2000
    assert 100 < len(part) < 200
    assert part.max() < 200
    named = [set(one.split()) for one in data.regions("train", part).captions]
    for colour, shape in HELD_OUT:
        assert not any({colour, shape} <= words and not words & {"of", "above", "below"} for words in named)
    kept = np.array([number for number in range(200) if number not in set(part.tolist())])
    meant = [scene.things[scene.meant].attributes for scene in data.scenes("train", kept)]
    assert all((one["colour"], one["shape"]) in HELD_OUT for one in meant)


def test_what_is_absent_is_nearly_there() -> None:
    data = scenes()
    near = 0
    for number, caption in enumerate(data.absent("val", np.arange(300))):
        scene = data._scene("val", number)
        assert fits_of(caption, scene) == []
        _, colour, shape = caption.split()
        there = (list(COLOURS).index(colour) in scene.colours, SHAPES.index(shape) in scene.shapes)
        near += all(there)
        assert any(there)
    assert near > 150


def test_relations_compare_columns_or_rows() -> None:
    assert [word for number, word in enumerate(RELATIONS) if stands(number, 0, 5)] == ["left of", "above"]
    assert [word for number, word in enumerate(RELATIONS) if stands(number, 7, 1)] == ["below"]
    look = Look(*(np.array(one) for one in ([0, 2, 4], [0, 0, 1], [1, 1, 2], [0, 0, 0])))
    assert fitting(look, Said(colour=True)) == [0, 1]
    assert fitting(look, Said(colour=True, relation=(0, 2, False))) == [0]
    assert fitting(look, Said(colour=True, relation=(2, 2, True))) == [0, 1]


def test_runs_recorded_before_go_on_with_simple_scenes() -> None:
    before = {"dataset": {"name": "shapes", "drop_size": 0.5, "seed": 3}, "seed": 1}
    assert as_recorded(Sa2vaRlSettings, before)["dataset"]["scenes"] == "simple"
    options = ShapesOptions(scenes="words", images=5).model_dump()
    chosen = {"dataset": {"name": "shapes", **options}}
    assert as_recorded(Sa2vaRlSettings, chosen) == chosen
    other = {"dataset": {"name": "coco-refexp"}}
    assert as_recorded(Sa2vaRlSettings, other) == other


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_captions_or_all_of_them(share: float) -> None:
    part = scenes(images=50, captioned=share).captioned("train")
    assert part is not None
    assert (len(part) > 25) == bool(share)
