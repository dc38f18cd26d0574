"""What is true of captions: scenes written by hand, and a second version that looks at every subset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from motionkit_regions.datasets.base import Scene, Thing
from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.datasets.settings import ShapesOptions
from motionkit_regions.evaluation.known import Truth, look_up, open_truth
from tests.made.known_regions import Blocks

PLACES = {"at the top left": (0, 0), "at the top": (1, 0), "in the middle": (1, 1), "at the right": (2, 1)}


def thing(words: str) -> Thing:
    size, colour, shape, place = words.split(" ", 3)
    x, y = PLACES[place]
    return Thing({"shape": shape, "colour": colour, "size": size, "place": place}, ((x + 0.5) / 3, (y + 0.5) / 3))


def truth(*things: str) -> Truth:
    return Truth(Shapes(ShapesOptions(scenes="simple")), [Scene(tuple(map(thing, things)))])


CIRCLES = ("small red circle in the middle", "large red circle at the top", "small blue square at the right")


def of(caption: str, scene: Sequence[str] = CIRCLES) -> dict[str, float]:
    return {name: float(value[0]) for name, value in truth(*scene).score([caption]).items()}


def test_named_rightly_wrongly_and_left_out() -> None:
    found = of("a small blue circle")
    assert (found["attributes_right"], found["attributes_wrong"], found["attributes_left_out"]) == (0.5, 0.25, 0.25)
    assert (found["size_right"], found["colour_wrong"], found["place_left_out"]) == (1, 1, 1)
    assert found["colour_right"] == found["place_wrong"] == found["shape_left_out"] == 0
    twice = of("a red blue circle")  # one of two is wrong
    assert (twice["colour_wrong"], twice["colour_right"], twice["colour_left_out"]) == (1, 0, 0)
    related = of("the red circle below the circle")  # shape, colour and the relation of five things to say
    assert (related["attributes_right"], related["attributes_left_out"]) == pytest.approx((0.6, 0.4))
    assert of("the red circle above the circle")["attributes_wrong"] == pytest.approx(0.2)
    assert of("")["attributes_left_out"] == 1.0


@pytest.mark.parametrize(
    ("caption", "unique"),
    [
        ("the small circle", 1),
        ("the red circle", 0),  # fits two objects
        ("the circle in the middle", 1),
        ("the small circle at the right", 0),  # a wrong word
        ("the small blue circle", 0),
        ("the circle left of the square", 0),  # both circles are
        ("the circle left of the small circle", 0),  # true of none
        ("the circle below the large circle", 1),
        ("the circle below the large square", 0),  # there is no such other object
        ("the circle below the circle", 1),
        ("", 0),
        ("the", 0),
        ("the small circle dog", 0),  # a word that is true of nothing
        ("in the middle", 1),
    ],
)
def test_a_caption_is_unique_where_it_fits_this_object_and_no_other(caption: str, unique: int) -> None:
    assert of(caption)["unique"] == unique


def test_what_is_not_needed() -> None:
    assert of("the small circle")["over_specified"] == 0
    assert of("the small red circle")["over_specified"] == 1
    assert of("the red circle in the middle")["over_specified"] == 1
    assert of("the red circle")["over_specified"] == 0  # not even enough
    assert of("the small blue circle")["over_specified"] == 0  # wrong, which is counted elsewhere
    assert of("the circle below the large circle")["over_specified"] == 0
    assert of("the small circle below the circle")["over_specified"] == 1


def test_an_object_alone_needs_no_words_but_the_noun() -> None:
    alone = CIRCLES[:1]
    assert of("a circle", alone)["unique"] == 1
    assert of("a circle", alone)["over_specified"] == 0
    assert of("a red circle", alone)["over_specified"] == 1
    assert of("", alone)["unique"] == 0
    assert of("the circle below the circle", alone)["unique"] == 0  # an object is not below itself


def test_a_second_version_agrees_on_drawn_scenes() -> None:
    """Captions of random attributes, some of them another object's; every object is tried word by word."""
    data, index, draw = Shapes(ShapesOptions(scenes="simple")), np.arange(200), np.random.default_rng(0)
    found = open_truth(data, "val", index)
    assert found is not None
    captions, wanted = [], []
    for scene in found.scenes:
        own = scene.things[0].attributes
        source = scene.things[int(draw.integers(len(scene.things)))].attributes if draw.random() < 0.5 else own
        kinds = [kind for kind in ("size", "colour", "place") if draw.random() < 0.5]
        words = {kind: source[kind] for kind in (*kinds, "shape")}
        captions.append(" ".join(["a", *(words[k] for k in ("size", "colour", "shape", "place") if k in words)]))
        table = [dict(one.attributes) for one in scene.things]

        def fits(said: dict[str, str], table: list[dict[str, str]] = table) -> list[int]:
            return [n for n, row in enumerate(table) if not any(row[k] != v for k, v in said.items())]

        unique = fits(words) == [0]
        subsets = [
            {"shape": words["shape"], **{k: words[k] for k in some}}
            for size in range(len(kinds))
            for some in combinations(kinds, size)
        ]
        needless = unique and any(fits(one) == [0] for one in subsets)
        wrong = sum(words[kind] != own[kind] for kind in words)
        wanted.append((unique, needless, wrong / 4, (4 - len(words)) / 4))
    scores = found.score(captions)
    names = ("unique", "over_specified", "attributes_wrong", "attributes_left_out")
    for name, column in zip(names, zip(*wanted, strict=True), strict=True):
        assert scores[name].tolist() == pytest.approx(list(map(float, column))), name
        assert 0 < scores[name].mean() < 1


def test_an_absent_object_that_is_there_is_left_out_and_told() -> None:
    class Wrong(Shapes):
        def absent(self, split, index):
            named = list(super().absent(split, index))
            thing = self.scenes(split, index)[2].things[-1].attributes
            named[2] = f"a {thing['colour']} {thing['shape']}"
            return tuple(named)

    index = np.arange(5)
    known = look_up(Wrong(), "val", index)
    assert known.present == 1
    assert [bool(text) for text in known.absent] == [True, True, False, True, True]
    assert any("name an object that is in the image" in note for note in known.notes("shapes"))
    sound = look_up(Shapes(ShapesOptions(scenes="simple")), "val", np.arange(100))
    assert (sound.present, sound.notes("shapes")) == (0, [])


def test_data_that_do_not_know_say_which_rows_are_left_out() -> None:
    data = Blocks()
    assert open_truth(data, "val", np.arange(3)) is None
    note = look_up(data, "val", np.arange(3)).notes("blocks")[0]
    for words in ("blocks", "uniqueness", "attributes named wrongly", "over-specification"):
        assert words in note
