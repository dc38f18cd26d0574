"""Scenes of coloured shapes, drawn on demand, with captions and a parser of these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from motionkit.motion.corpus.ids import Split
from motionkit_regions.datasets.base import Claim, RegionDataset, Regions, Scene, Thing
from motionkit_regions.datasets.settings import ShapesOptions

RELATIONS = ("left of", "right of", "above", "below")
"""Relations of an object to another one: left and right compare columns alone, above and below rows alone."""

HELD_OUT = (("purple", "circle"), ("green", "diamond"), ("white", "square"), ("yellow", "triangle"))
"""Combinations of colour and shape that no caption of the captioned part has."""

_ALIKE_COLOUR, _ALIKE_SHAPE, _ALIKE_SIZE = 0.35, 0.55, 0.2
"""Share of distractors with the colour, the shape and the size of the target object."""

_FEW = ((False, False), (True, False), (False, True), (True, True))
"""Whether colour and size are named, from the shortest caption on."""

_BY_RELATION = 0.7
"""Share of captions with a relation among those in which a relation is unique, but colour and size are not."""

_APART = 0.15
"""Share of the image's width or height that one middle has to be beyond the other; neighbours are 0.29 apart."""

_ARTICLES = ("a", "an", "the")
_SIDES = ("top", "bottom", "left", "right", "middle")
_WORD = re.compile(r"[\w'-]+")
_RELATION = re.compile(rf"\b(?:to the |on the )?({'|'.join(RELATIONS)})\b")

SIDE, MASK = 48, 24
"""Pixels of an image, and of a mask."""

COLOURS = {
    "red": (220, 50, 47), "green": (64, 170, 70), "blue": (50, 90, 220), "yellow": (235, 205, 60),
    "purple": (150, 70, 190), "white": (235, 235, 235),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond")
SIZES = {"small": 4.5, "large": 7.5}
PLACES = (
    "at the top left", "at the top", "at the top right", "at the left", "in the middle", "at the right",
    "at the bottom left", "at the bottom", "at the bottom right",
)  # fmt: skip
WORDS = (*SIZES, *COLOURS, *SHAPES, "a", "at", "in", "the", "top", "bottom", "left", "right", "middle")
"""Every word of a caption of simple scenes."""

MORE_WORDS = ("of", "above", "below")
"""Words of relations, which come after the others."""

_KINDS = {"shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "place": PLACES}
"""Attributes that a caption may name, the noun first."""

_COUNTS = {"train": 2**31, "val": 4096, "test": 4096}
_CELL, _MARGIN = 16, 4  # pixels along a cell of the grid, and by which an object may reach out of its cell
_SPLITS = {"train": 0, "val": 1, "test": 2}
_PALETTE, _FORMS = 3, 2  # colours and shapes of one scene: few, so that objects look alike
_GROUND = 40
_ABSENT, _WORDED = 1, 2  # mark the draws of captions of absent objects, and of scenes that need words


@dataclass(frozen=True)
class Look:
    """Objects of a scene, the target first: columns of attributes."""

    cells: NDArray[np.int64]  # [K] cell of the 3 x 3 grid
    colours: NDArray[np.int64]  # [K] number of the colour
    shapes: NDArray[np.int64]  # [K] number of the shape
    sizes: NDArray[np.int64]  # [K] number of the size


def draw_look(draw: np.random.Generator, colours: int, shapes: int, sizes: int) -> Look:
    """Draw the objects of a scene: three to five, each like the first one in about half of its attributes."""
    count = int(draw.integers(3, 6))
    cells = draw.choice(9, count, replace=False)
    columns = []
    for values, alike in ((colours, _ALIKE_COLOUR), (shapes, _ALIKE_SHAPE), (sizes, _ALIKE_SIZE)):
        drawn = draw.integers(values, size=count)
        same = draw.random(count) < alike
        columns.append(np.where(same, drawn[0], drawn))
    return Look(cells, *columns)


def stands(relation: int, cell: int, other_cell: int) -> bool:
    """Return whether an object in one cell has a relation to one in another cell."""
    (row, column), (beside_row, beside_column) = divmod(cell, 3), divmod(other_cell, 3)
    return (
        column < beside_column, column > beside_column, row < beside_row, row > beside_row,
    )[relation]  # fmt: skip


@dataclass(frozen=True)
class Said:
    """Attributes of the target that a caption names; its shape is always named."""

    colour: bool = False  # whether its colour is named
    size: bool = False  # whether its size is named
    place: bool = False  # whether its place is named
    # A relation, the other object, and whether that one's colour is named; None without
    relation: tuple[int, int, bool] | None = None


def fitting(look: Look, said: Said) -> list[int]:
    """Return the objects that a caption fits; the other object of a relation may be any that its words fit."""
    kept = look.shapes == look.shapes[0]
    if said.colour:
        kept &= look.colours == look.colours[0]
    if said.size:
        kept &= look.sizes == look.sizes[0]
    if said.place:
        kept &= look.cells == look.cells[0]
    fits = np.flatnonzero(kept).tolist()
    if said.relation is None:
        return fits
    relation, other, coloured = said.relation
    others = look.shapes == look.shapes[other]
    if coloured:
        others &= look.colours == look.colours[other]
    marks = np.flatnonzero(others).tolist()
    return [
        thing
        for thing in fits
        if any(
            mark != thing and stands(relation, int(look.cells[thing]), int(look.cells[mark])) for mark in marks
        )
    ]  # fmt: skip


def describe(look: Look, draw: np.random.Generator, lapse: float, extra: float) -> Said:
    """Choose a caption as an annotator would.

    The fewest of colour and size that only the target has, colour before size; if others have them too, a relation to
    another object, with the fewest of them, or the place. A share of captions then lacks one of these words (`lapse`),
    and a share has one that is not needed (`extra`).
    """
    place, relation = False, None
    by_relation, which = draw.random() < _BY_RELATION, draw.random()
    ways = [few for few in _FEW if len(fitting(look, Said(*few))) == 1]
    if ways:
        colour, size = ways[0]
    else:
        choices = next((choices for few in _FEW if (choices := _relations(look, *few))), []) if by_relation else []
        caption = choices[int(which * len(choices))] if choices else Said(place=True)
        colour, size, place, relation = caption.colour, caption.size, caption.place, caption.relation
    forgets, chosen = draw.random() < lapse, draw.random()
    adds, added = draw.random() < extra, draw.random()
    named = [name for name, there in (("colour", colour), ("size", size), ("place", place)) if there]
    if forgets and named:
        dropped = named[int(chosen * len(named))]
        colour, size, place = colour and dropped != "colour", size and dropped != "size", place and dropped != "place"
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
    """Return captions with a relation that only the target has, with the fewest words for the other object."""
    for coloured in (False, True):
        fits = []
        for other in range(1, len(look.cells)):
            alike = look.shapes == look.shapes[other]
            if coloured:
                alike = alike & (look.colours == look.colours[other])
            if alike.sum() != 1:
                continue  # the words for the other object must fit one only
            candidates = (Said(colour, size, relation=(number, other, coloured)) for number in range(len(RELATIONS)))
            fits += [words for words in candidates if fitting(look, words) == [0]]
        if fits:
            return fits
    return []


def written(look: Look, said: Said, *, article: str = "the") -> str:
    """Return a caption as text."""
    colours, sizes = list(COLOURS), list(SIZES)
    words = [article]
    words += [sizes[int(look.sizes[0])]] if said.size else []
    words += [colours[int(look.colours[0])]] if said.colour else []
    words += [SHAPES[int(look.shapes[0])]]
    words += [PLACES[int(look.cells[0])]] if said.place else []
    if said.relation is not None:
        relation, other, coloured = said.relation
        words += [RELATIONS[relation], "the"]
        words += [colours[int(look.colours[other])]] if coloured else []
        words += [SHAPES[int(look.shapes[other])]]
    return " ".join(words)


def read_caption(caption: str, kinds: Mapping[str, Sequence[str]]) -> Claim:
    """Parse a caption.

    Words before a relation are of the object, words after it of the other one: in "the small circle left of the red
    square" the circle is small and the square is red. A place, such as "at the top left", belongs to the noun before
    it.

    Args:
        caption: Any text.
        kinds: The values of each attribute; those of ``place`` are phrases.

    Example:
        >>> kinds = {"shape": ("circle", "square"), "size": ("small",), "place": ("at the top",)}
        >>> found = read_caption("the small circle at the top left of the square", kinds)
        >>> found.said
        (('size', 'small'), ('shape', 'circle'), ('place', 'at the top'))
        >>> found.relations
        (('left of', Claim(said=(('shape', 'square'),), relations=(), unread=())),)
    """
    text = " ".join(_WORD.findall(caption.lower()))
    first = _RELATION.search(text)
    phrase = text[: first.start()] if first else text
    named, unread = _phrase(phrase, kinds)
    if first is None:
        return Claim(named, (), unread)
    # "above the square left of the circle": the square is left of the circle, and so on.
    return Claim(named, ((first[1], read_caption(text[first.end() :], kinds)),), unread)


def _phrase(text: str, kinds: Mapping[str, Sequence[str]]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the attributes of one noun with its adjectives and its place, and all other words."""
    words = text.split()
    values = {value: kind for kind, options in kinds.items() for value in options if kind != "place"}
    named: list[tuple[str, str]] = []
    unread: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word in ("at", "in") and words[place + 1 : place + 2] == ["the"]:
            end = place + 2
            while end < len(words) and words[end] in _SIDES:
                end += 1
            # An impossible place, such as "at the top bottom", is wrong for every object.
            named += [("place", " ".join(words[place:end]))] if end > place + 2 else []
            unread += words[place:end] if end == place + 2 else []
            place = end
            continue
        if word in values:
            named.append((values[word], word))
        elif word not in _ARTICLES:
            unread.append(word)
        place += 1
    return tuple(named), tuple(unread)


def related(relation: str, first: Thing, other: Thing) -> bool:
    """Return whether an object is left of, right of, above or below another one.

    Left and right compare columns alone, above and below rows alone.

    Example:
        >>> one, other = Thing({}, (0.2, 0.8)), Thing({}, (0.8, 0.2))
        >>> [word for word in RELATIONS if related(word, one, other)]
        ['left of', 'below']
    """
    right, down = first.middle[0] - other.middle[0], first.middle[1] - other.middle[1]
    distances: dict[str, float] = {"left of": -right, "right of": right, "above": -down, "below": down}
    return distances.get(relation, 0.0) > _APART


def things_of(
    numbers: Sequence[NDArray[np.int64]], shifts: NDArray[np.float64], kinds: Mapping[str, Sequence[str]]
) -> tuple[Thing, ...]:
    """Return the K objects of a scene in words.

    Args:
        numbers: For each attribute ``[K]`` the numbers of its values; the last one is the cell of the 3 x 3 grid.
        shifts: ``[K, 2]`` offsets x and y of a middle from that of its cell, as shares of the image.
        kinds: The values of each attribute.
    """
    columns = [[names[number] for number in row.tolist()] for names, row in zip(kinds.values(), numbers, strict=True)]
    middles = (np.stack([numbers[-1] % 3, numbers[-1] // 3], 1) + 0.5) / 3 + shifts
    words = [dict(zip(kinds, attributes, strict=True)) for attributes in zip(*columns, strict=True)]
    return tuple(Thing(attributes, (x, y)) for attributes, (x, y) in zip(words, middles.tolist(), strict=True))


@dataclass(frozen=True)
class _Scene(Look):
    shifts: NDArray[np.float64]  # [K, 2] pixels x and y of a middle from that of its cell
    caption: str


class Shapes(RegionDataset):
    """Images of a few shapes on a 3 x 3 grid; see `motionkit_regions.datasets.base.RegionDataset`.

    Simple scenes have two to five objects; a caption names some of size, colour, shape and place of one of them. Scenes
    that need words have three to five objects that look alike; a caption names what distinguishes one of them, or
    nearly so, and only a part of the training scenes has a caption that may be read.
    """

    name = "shapes"
    inputs: Mapping[str, str] = {}  # no file is read
    attributes = tuple(_KINDS)

    def __init__(self, options: ShapesOptions | None = None) -> None:
        self.options = options or ShapesOptions()
        self._simple = self.options.scenes == "simple"
        self.words = WORDS if self._simple else (*WORDS, *MORE_WORDS)

    def count(self, split: Split) -> int:
        """Return the number of scenes of a split; that of simple scenes to train on has no end in practice."""
        return _COUNTS[split] if self._simple or split != "train" else self.options.images

    def captioned(self, split: Split) -> NDArray[np.int64] | None:
        """See `motionkit_regions.datasets.base.RegionDataset.captioned`."""
        if self._simple or split != "train":
            return None
        return _captioned(self.options.seed, round(self.options.captioned * self.options.images)).copy()

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Draw scenes; a scene depends on its number alone."""
        scenes = [self._scene(split, int(number)) for number in index]
        images, masks, others = _draw(scenes)
        return Regions(images, masks, tuple(scene.caption for scene in scenes), others)

    def absent(self, split: Split, index: NDArray[np.int64]) -> tuple[str, ...]:
        """Return captions of a colour and a shape that no object of the scene has together.

        In scenes that need words, if possible, some objects have the colour and others the shape.
        """
        return tuple(self._absent(split, int(number)) for number in index)

    def scenes(self, split: Split, index: NDArray[np.int64]) -> tuple[Scene, ...]:
        """See `motionkit_regions.datasets.base.KnowsScenes`."""
        scenes = [self._scene(split, int(number)) for number in index]
        return tuple(Scene(things_of((s.shapes, s.colours, s.sizes, s.cells), s.shifts / SIDE, _KINDS)) for s in scenes)

    def read(self, caption: str) -> Claim:
        """See `motionkit_regions.datasets.base.KnowsScenes`."""
        return read_caption(caption, _KINDS)

    related = staticmethod(related)

    def _absent(self, split: Split, number: int) -> str:
        scene = self._scene(split, number)
        there = set(zip(scene.colours.tolist(), scene.shapes.tolist(), strict=True))
        others = [pair for pair in np.ndindex(len(COLOURS), len(SHAPES)) if pair not in there]
        draw = np.random.default_rng((self.options.seed, _SPLITS[split], number, _ABSENT))
        if not self._simple:
            near = [(c, s) for c, s in others if c in scene.colours and s in scene.shapes]
            half = [(c, s) for c, s in others if c in scene.colours or s in scene.shapes]
            others = near or half
        colour, shape = others[int(draw.integers(len(others)))]
        return f"{'a' if self._simple else 'the'} {list(COLOURS)[colour]} {SHAPES[shape]}"

    def _scene(self, split: Split, number: int) -> _Scene:
        return (self._simple_scene if self._simple else self._worded_scene)(split, number)

    def _simple_scene(self, split: Split, number: int) -> _Scene:
        draw = np.random.default_rng((self.options.seed, _SPLITS[split], number))
        count = int(draw.integers(2, 6))
        palette = draw.choice(len(COLOURS), _PALETTE, replace=False)
        forms = draw.choice(len(SHAPES), _FORMS, replace=False)
        options = self.options
        look = Look(
            draw.choice(9, count, replace=False), palette[draw.integers(_PALETTE, size=count)],
            forms[draw.integers(_FORMS, size=count)], draw.integers(len(SIZES), size=count),
        )  # fmt: skip
        shifts = draw.uniform(-1.0, 1.0, (count, 2))
        keep = draw.random(3) >= (options.drop_size, options.drop_colour, options.drop_place)
        size, colour, place = map(bool, keep)
        return _Scene(**vars(look), shifts=shifts, caption=written(look, Said(colour, size, place), article="a"))

    def _worded_scene(self, split: Split, number: int) -> _Scene:
        look, draw = _look(self.options.seed, split, number)
        shifts = draw.uniform(-1.0, 1.0, (len(look.cells), 2))
        said = describe(look, draw, self.options.lapse, self.options.extra)
        return _Scene(**vars(look), shifts=shifts, caption=written(look, said))


def _look(seed: int, split: Split, number: int) -> tuple[Look, np.random.Generator]:
    """Return the objects of a scene that needs words, and the generator for its further draws."""
    draw = np.random.default_rng((seed, _SPLITS[split], number, _WORDED))
    return draw_look(draw, len(COLOURS), len(SHAPES), len(SIZES)), draw


def _is_held_out(look: Look) -> bool:
    """Return whether the target has a combination of colour and shape that no caption names."""
    return (list(COLOURS)[look.colours[0]], SHAPES[look.shapes[0]]) in HELD_OUT


@cache
def _captioned(seed: int, first: int) -> NDArray[np.int64]:
    """Return the numbers of the first training scenes with a caption that may be read; cached, as a run asks twice."""
    kept = [number for number in range(first) if not _is_held_out(_look(seed, "train", number)[0])]
    return np.array(kept, np.int64)


def _inside(scenes: Sequence[_Scene], scale: int) -> NDArray[np.bool_]:
    """Return ``[M, S, S]`` bool of all objects: pixels of its cell and margin whose middle is inside."""
    shapes, sizes = (np.concatenate([getattr(scene, name) for scene in scenes]) for name in ("shapes", "sizes"))
    corners = np.concatenate([np.stack(np.divmod(scene.cells, 3), 1) for scene in scenes]) * _CELL
    shifts = np.concatenate([scene.shifts for scene in scenes])
    axis = (np.arange(-_MARGIN // scale, (_CELL + _MARGIN) // scale) + 0.5) * scale
    y, x = (corners[:, side, None] + axis - (corners[:, side] + 8 + shifts[:, 1 - side])[:, None] for side in (0, 1))
    y, x = y[:, :, None], x[:, None, :]
    r = np.array(list(SIZES.values()))[sizes][:, None, None]
    inside = np.stack([
        x * x + y * y <= r * r,
        np.maximum(abs(x), abs(y)) <= 0.88 * r,
        (y <= 0.8 * r) & (2 * abs(x) <= 0.95 * (y + r) + 0.5),
        abs(x) + abs(y) <= 1.2 * r,
    ])  # fmt: skip
    return np.asarray(inside[shapes, np.arange(len(shapes))])


def _draw(scenes: Sequence[_Scene]) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
    """Return images, masks of the first objects, and those ``[K, h, w]`` of the others."""
    if not scenes:
        return [], [], []
    scale = SIDE // MASK
    fine, coarse = _inside(scenes, 1), _inside(scenes, scale)
    tones = np.array(list(COLOURS.values()), np.uint8)
    images, masks, others, at = [], [], [], 0
    for scene in scenes:
        image = np.full((SIDE + 2 * _MARGIN, SIDE + 2 * _MARGIN, 3), _GROUND, np.uint8)
        masks_of = np.zeros((len(scene.cells), MASK + 2 * _MARGIN // scale, MASK + 2 * _MARGIN // scale), bool)
        for thing, cell in enumerate(scene.cells.tolist()):
            row, column = divmod(cell, 3)
            for pixels, target, step, tone in (
                (fine, image, _CELL, tones[scene.colours[thing]]), (coarse, masks_of[thing], _CELL // scale, True)
            ):  # fmt: skip
                size = pixels.shape[-1]
                part = target[row * step : row * step + size, column * step : column * step + size]
                part[pixels[at]] = tone
            at += 1
        images.append(np.ascontiguousarray(image[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]))
        edge = _MARGIN // scale
        masks.append(np.ascontiguousarray(masks_of[0, edge:-edge, edge:-edge]))
        others.append(np.ascontiguousarray(masks_of[1:, edge:-edge, edge:-edge]))
    return images, masks, others
