"""Scenes of coloured shapes, drawn on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Claim, Regions, Scene, Split
from motionkit.datasets.shapes import ShapesOptions
from motionkit.datasets.shapes._grammar import read_caption, related, things_of

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
"""Every word of a caption."""

_KINDS = {"shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "place": PLACES}
"""What a caption may say of an object, the noun first."""

_COUNTS = {"train": 2**31, "val": 4096, "test": 4096}
_SPLITS = {"train": 0, "val": 1, "test": 2}
_PALETTE, _FORMS = 3, 2  # colours and shapes of one scene: few, so that objects look alike
_GROUND = 40
_ABSENT = 1  # marks the draws of captions of what is not there


@dataclass(frozen=True)
class _Scene:
    """Objects of a scene; the first is the one that is meant."""

    cells: NDArray[np.int64]
    colours: NDArray[np.int64]
    shapes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    shifts: NDArray[np.float64]
    keep: NDArray[np.bool_]


class Shapes:
    """Images of two to five shapes on a 3 x 3 grid; see `motionkit.datasets.base.RegionDataset`.

    A caption names size, colour, shape and place of one shape, and leaves some of it out: then several shapes may fit
    it, and a better caption can be learned.

    Args:
        options: How captions are worded.
    """

    name = "shapes"
    inputs: Mapping[str, str] = {}  # no file is read
    attributes = tuple(_KINDS)

    def __init__(self, options: ShapesOptions | None = None) -> None:
        self.options = options or ShapesOptions()
        self.words = WORDS

    def count(self, split: Split) -> int:
        """Return the number of scenes of a split; that of train has no end in practice."""
        return _COUNTS[split]

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Draw scenes; one number is one scene, whatever is drawn beside it."""
        scenes = [self._scene(split, int(number)) for number in index]
        images, masks = [_draw(scene) for scene in scenes], [_mask(scene) for scene in scenes]
        return Regions(images, masks, tuple(_caption(scene) for scene in scenes))

    def absent(self, split: Split, index: NDArray[np.int64]) -> tuple[str, ...]:
        """Return captions of a colour and a shape that no object of the scene has together."""
        return tuple(self._absent(split, int(number)) for number in index)

    def scenes(self, split: Split, index: NDArray[np.int64]) -> tuple[Scene, ...]:
        """See `motionkit.datasets.base.KnowsScenes`."""
        found = [self._scene(split, int(number)) for number in index]
        return tuple(Scene(things_of((s.shapes, s.colours, s.sizes, s.cells), s.shifts / SIDE, _KINDS)) for s in found)

    def read(self, caption: str) -> Claim:
        """See `motionkit.datasets.base.KnowsScenes`."""
        return read_caption(caption, _KINDS)

    related = staticmethod(related)

    def _absent(self, split: Split, number: int) -> str:
        scene = self._scene(split, number)
        there = set(zip(scene.colours.tolist(), scene.shapes.tolist(), strict=True))
        others = [pair for pair in np.ndindex(len(COLOURS), len(SHAPES)) if pair not in there]
        draw = np.random.default_rng((self.options.seed, _SPLITS[split], number, _ABSENT))
        colour, shape = others[int(draw.integers(len(others)))]
        return f"a {list(COLOURS)[colour]} {SHAPES[shape]}"

    def _scene(self, split: Split, number: int) -> _Scene:
        draw = np.random.default_rng((self.options.seed, _SPLITS[split], number))
        count = int(draw.integers(2, 6))
        palette = draw.choice(len(COLOURS), _PALETTE, replace=False)
        forms = draw.choice(len(SHAPES), _FORMS, replace=False)
        options = self.options
        return _Scene(
            draw.choice(9, count, replace=False), palette[draw.integers(_PALETTE, size=count)],
            forms[draw.integers(_FORMS, size=count)], draw.integers(len(SIZES), size=count),
            draw.uniform(-1.0, 1.0, (count, 2)),
            draw.random(3) >= (options.drop_size, options.drop_colour, options.drop_place),
        )  # fmt: skip


def _inside(scene: _Scene, thing: int, side: int) -> NDArray[np.bool_]:
    """Return ``[side, side]`` bool: the pixels whose middle is inside an object."""
    row, column = divmod(int(scene.cells[thing]), 3)
    axis = (np.arange(side) + 0.5) * SIDE / side
    x = axis[None, :] - (column * 16 + 8 + scene.shifts[thing, 0])
    y = axis[:, None] - (row * 16 + 8 + scene.shifts[thing, 1])
    r = list(SIZES.values())[int(scene.sizes[thing])]
    shape = SHAPES[int(scene.shapes[thing])]
    if shape == "circle":
        found = x * x + y * y <= r * r
    elif shape == "square":
        found = np.maximum(abs(x), abs(y)) <= 0.88 * r
    elif shape == "diamond":
        found = abs(x) + abs(y) <= 1.2 * r
    else:
        found = (y <= 0.8 * r) & (2 * abs(x) <= 0.95 * (y + r) + 0.5)
    return np.asarray(found)


def _draw(scene: _Scene) -> NDArray[np.uint8]:
    image = np.full((SIDE, SIDE, 3), _GROUND, np.uint8)
    for thing in range(len(scene.cells)):
        image[_inside(scene, thing, SIDE)] = list(COLOURS.values())[int(scene.colours[thing])]
    return image


def _mask(scene: _Scene) -> NDArray[np.bool_]:
    return _inside(scene, 0, MASK)  # cells are 16 pixels wide: objects do not overlap


def _caption(scene: _Scene) -> str:
    size, colour, place = scene.keep
    words = ["a"]
    words += [list(SIZES)[int(scene.sizes[0])]] if size else []
    words += [list(COLOURS)[int(scene.colours[0])]] if colour else []
    words += [SHAPES[int(scene.shapes[0])]]
    words += [PLACES[int(scene.cells[0])]] if place else []
    return " ".join(words)
