"""Scenes that need words: objects that look alike, told apart by colour, size, place, or another object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RELATIONS = ("left of", "right of", "above", "below")
"""How an object stands to another one: left and right compare columns alone, above and below rows alone."""

HELD_OUT = (("purple", "circle"), ("green", "diamond"), ("white", "square"), ("yellow", "triangle"))
"""Colours and shapes that no caption of the captioned part has together."""

_ALIKE_COLOUR, _ALIKE_SHAPE, _ALIKE_SIZE = 0.35, 0.55, 0.2
"""Share of distractors that have the colour, the shape and the size of the object that is meant."""

_FEW = ((False, False), (True, False), (False, True), (True, True))
"""Whether colour and size are named, those that say less first."""

_BY_RELATION = 0.7
"""Share of captions that name another object where colour and size do not do, and a relation does."""


@dataclass(frozen=True)
class Look:
    """Objects of a scene, the one that is meant first: columns of attributes.

    Attributes:
        cells: ``[K]`` cell of the 3 x 3 grid.
        colours: ``[K]`` number of the colour.
        shapes: ``[K]`` number of the shape.
        sizes: ``[K]`` number of the size.
    """

    cells: NDArray[np.int64]
    colours: NDArray[np.int64]
    shapes: NDArray[np.int64]
    sizes: NDArray[np.int64]


def draw_look(draw: np.random.Generator, colours: int, shapes: int, sizes: int) -> Look:
    """Draw the objects of a scene: three to five, each like the first one in about half of its attributes."""
    count = int(draw.integers(3, 6))
    cells = draw.choice(9, count, replace=False)
    columns = []
    for values, alike in ((colours, _ALIKE_COLOUR), (shapes, _ALIKE_SHAPE), (sizes, _ALIKE_SIZE)):
        own = draw.integers(values, size=count)
        same = draw.random(count) < alike
        columns.append(np.where(same, own[0], own))
    return Look(cells, *columns)


def stands(relation: int, one: int, other: int) -> bool:
    """Return whether an object in one cell stands in a relation to one in another cell."""
    (row, column), (beside_row, beside_column) = divmod(one, 3), divmod(other, 3)
    return (
        column < beside_column, column > beside_column, row < beside_row, row > beside_row,
    )[relation]  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What a caption names of the object that is meant; its shape is always named.

    Attributes:
        colour: Whether its colour is named.
        size: Whether its size is named.
        place: Whether its place is named.
        relation: A relation, the other object, and whether that one's colour is named; None without.
    """

    colour: bool = False
    size: bool = False
    place: bool = False
    relation: tuple[int, int, bool] | None = None


def fitting(look: Look, said: Said) -> list[int]:
    """Return the objects that what is said fits; the other object of a relation may be any that its words fit."""
    kept = look.shapes == look.shapes[0]
    if said.colour:
        kept &= look.colours == look.colours[0]
    if said.size:
        kept &= look.sizes == look.sizes[0]
    if said.place:
        kept &= look.cells == look.cells[0]
    found = np.flatnonzero(kept).tolist()
    if said.relation is None:
        return found
    relation, beside, coloured = said.relation
    others = look.shapes == look.shapes[beside]
    if coloured:
        others &= look.colours == look.colours[beside]
    marks = np.flatnonzero(others).tolist()
    return [
        thing
        for thing in found
        if any(
            mark != thing and stands(relation, int(look.cells[thing]), int(look.cells[mark])) for mark in marks
        )
    ]  # fmt: skip


def describe(look: Look, draw: np.random.Generator, lapse: float, extra: float) -> Said:
    """Choose what an annotator says.

    The fewest of colour and size that only this object has, colour before size; where others have them too, a relation
    to another object, with the fewest of them, or the place. A share of captions then lacks one of these words, and a
    share has one that is not needed.

    Args:
        look: The scene.
        draw: Random numbers.
        lapse: Share of captions that lack something.
        extra: Share of captions that have something that is not needed.
    """
    place, relation = False, None
    by_relation, which = draw.random() < _BY_RELATION, draw.random()
    ways = [few for few in _FEW if len(fitting(look, Said(*few))) == 1]
    if ways:
        colour, size = ways[0]
    else:
        found = next((found for few in _FEW if (found := _relations(look, *few))), []) if by_relation else []
        said = found[int(which * len(found))] if found else Said(place=True)
        colour, size, place, relation = said.colour, said.size, said.place, said.relation
    forgets, chosen = draw.random() < lapse, draw.random()
    adds, added = draw.random() < extra, draw.random()
    named = [name for name, there in (("colour", colour), ("size", size), ("place", place)) if there]
    if forgets and named:
        gone = named[int(chosen * len(named))]
        colour, size, place = colour and gone != "colour", size and gone != "size", place and gone != "place"
    elif adds:
        absent = [name for name, there in (("colour", colour), ("size", size)) if not there]
        absent += ["place"] if not place and relation is None else []
        more_name = absent[int(added * len(absent))] if absent else ""
        colour, size, place = (
            colour or more_name == "colour",
            size or more_name == "size",
            place or more_name == "place",
        )
    return Said(colour, size, place, relation)


def _relations(look: Look, colour: bool, size: bool) -> list[Said]:
    """Return what is said with a relation that only the object that is meant has; with few words of the other one."""
    for coloured in (False, True):
        found = []
        for beside in range(1, len(look.cells)):
            alike = look.shapes == look.shapes[beside]
            if coloured:
                alike = alike & (look.colours == look.colours[beside])
            if alike.sum() != 1:
                continue  # the other object is named so that it is one
            every = (Said(colour, size, relation=(number, beside, coloured)) for number in range(len(RELATIONS)))
            found += [said for said in every if fitting(look, said) == [0]]
        if found:
            return found
    return []


def written(
    look: Look, said: Said, colours: Sequence[str], shapes: Sequence[str], sizes: Sequence[str], places: Sequence[str]
) -> str:
    """Return a caption in words."""
    words = ["the"]
    words += [sizes[int(look.sizes[0])]] if said.size else []
    words += [colours[int(look.colours[0])]] if said.colour else []
    words += [shapes[int(look.shapes[0])]]
    words += [places[int(look.cells[0])]] if said.place else []
    if said.relation is not None:
        relation, beside, coloured = said.relation
        words += [RELATIONS[relation], "the"]
        words += [colours[int(look.colours[beside])]] if coloured else []
        words += [shapes[int(look.shapes[beside])]]
    return " ".join(words)
