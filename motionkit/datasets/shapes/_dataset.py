"""Scenes of coloured shapes, drawn on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Claim, Regions, Scene, Split
from motionkit.datasets.shapes import ShapesOptions
from motionkit.datasets.shapes._grammar import read_caption, related, things_of
from motionkit.datasets.shapes._words import HELD_OUT, Look, describe, draw_look, written

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
"""Words of relations, which come behind the others."""

_KINDS = {"shape": SHAPES, "colour": tuple(COLOURS), "size": tuple(SIZES), "place": PLACES}
"""What a caption may say of an object, the noun first."""

_COUNTS = {"train": 2**31, "val": 4096, "test": 4096}
_CELL, _MARGIN = 16, 4  # pixels along a cell of the grid, and how far an object may reach out of its own
_SPLITS = {"train": 0, "val": 1, "test": 2}
_PALETTE, _FORMS = 3, 2  # colours and shapes of one scene: few, so that objects look alike
_GROUND = 40
_ABSENT, _WORDED = 1, 2  # mark the draws of captions of what is not there, and of scenes that need words


@dataclass(frozen=True)
class _Scene:
    """Objects of a scene; the first is the one that is meant."""

    cells: NDArray[np.int64]
    colours: NDArray[np.int64]
    shapes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    shifts: NDArray[np.float64]
    caption: str


class Shapes:
    """Images of a few shapes on a 3 x 3 grid; see `motionkit.datasets.base.RegionDataset`.

    Simple scenes have two to five objects; a caption names size, colour, shape and place of one of them, and leaves
    some of it out. Those that need words have three to five that look alike; a caption names what tells one from the
    others, or nearly so, and only a part of the training scenes has one that may be read.

    Args:
        options: Which scenes, and how captions are worded.
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
        """See `motionkit.datasets.base.HasCaptionedPart`."""
        if self._simple or split != "train":
            return None
        first = range(round(self.options.captioned * self.options.images))
        return np.array([number for number in first if not self.held_out("train", number)], np.int64)

    def held_out(self, split: Split, number: int) -> bool:
        """Return whether an object has a colour and a shape that no caption to learn from names together."""
        scene = self._scene(split, number)
        return not self._simple and (list(COLOURS)[scene.colours[0]], SHAPES[scene.shapes[0]]) in HELD_OUT

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Draw scenes; one number is one scene, whatever is drawn beside it."""
        scenes = [self._scene(split, int(number)) for number in index]
        images, masks, others = _draw(scenes)
        return Regions(images, masks, tuple(scene.caption for scene in scenes), others)

    def absent(self, split: Split, index: NDArray[np.int64]) -> tuple[str, ...]:
        """Return captions of a colour and a shape that no object of the scene has together.

        In scenes that need words there are objects of the colour and others of the shape, where there can be.
        """
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
        return _Scene(look.cells, look.colours, look.shapes, look.sizes, shifts, _caption(look, keep))

    def _worded_scene(self, split: Split, number: int) -> _Scene:
        draw = np.random.default_rng((self.options.seed, _SPLITS[split], number, _WORDED))
        look = draw_look(draw, len(COLOURS), len(SHAPES), len(SIZES))
        shifts = draw.uniform(-1.0, 1.0, (len(look.cells), 2))
        said = describe(look, draw, self.options.lapse, self.options.extra)
        caption = written(look, said, list(COLOURS), SHAPES, list(SIZES), PLACES)
        return _Scene(look.cells, look.colours, look.shapes, look.sizes, shifts, caption)


def _inside(scenes: Sequence[_Scene], scale: int) -> NDArray[np.bool_]:
    """Return ``[M, S, S]`` bool of all objects: the pixels of its cell and its margin whose middle is inside."""
    shapes, sizes = (np.concatenate([getattr(scene, name) for scene in scenes]) for name in ("shapes", "sizes"))
    corners = np.concatenate([np.stack(np.divmod(scene.cells, 3), 1) for scene in scenes]) * _CELL
    shifts = np.concatenate([scene.shifts for scene in scenes])
    axis = (np.arange(-_MARGIN // scale, (_CELL + _MARGIN) // scale) + 0.5) * scale
    y, x = (corners[:, side, None] + axis - (corners[:, side] + 8 + shifts[:, 1 - side])[:, None] for side in (0, 1))
    y, x = y[:, :, None], x[:, None, :]
    r = np.array(list(SIZES.values()))[sizes][:, None, None]
    found = np.stack([
        x * x + y * y <= r * r,
        np.maximum(abs(x), abs(y)) <= 0.88 * r,
        (y <= 0.8 * r) & (2 * abs(x) <= 0.95 * (y + r) + 0.5),
        abs(x) + abs(y) <= 1.2 * r,
    ])  # fmt: skip
    return np.asarray(found[shapes, np.arange(len(shapes))])


def _draw(
    scenes: Sequence[_Scene],
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
    """Return images, masks of the first objects, and those ``[K, h, w]`` of the others."""
    if not scenes:
        return [], [], []
    scale = SIDE // MASK
    fine, coarse = _inside(scenes, 1), _inside(scenes, scale)
    tones = np.array(list(COLOURS.values()), np.uint8)
    images, masks, others, at = [], [], [], 0
    for scene in scenes:
        image = np.full((SIDE + 2 * _MARGIN, SIDE + 2 * _MARGIN, 3), _GROUND, np.uint8)
        own = np.zeros((len(scene.cells), MASK + 2 * _MARGIN // scale, MASK + 2 * _MARGIN // scale), bool)
        for thing, cell in enumerate(scene.cells.tolist()):
            row, column = divmod(cell, 3)
            for pixels, target, step, tone in (
                (fine, image, _CELL, tones[scene.colours[thing]]), (coarse, own[thing], _CELL // scale, True)
            ):  # fmt: skip
                size = pixels.shape[-1]
                part = target[row * step : row * step + size, column * step : column * step + size]
                part[pixels[at]] = tone
            at += 1
        images.append(np.ascontiguousarray(image[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]))
        edge = _MARGIN // scale
        masks.append(np.ascontiguousarray(own[0, edge:-edge, edge:-edge]))
        others.append(np.ascontiguousarray(own[1:, edge:-edge, edge:-edge]))
    return images, masks, others


def _caption(look: Look, keep: NDArray[np.bool_]) -> str:
    size, colour, place = keep
    words = ["a"]
    words += [list(SIZES)[int(look.sizes[0])]] if size else []
    words += [list(COLOURS)[int(look.colours[0])]] if colour else []
    words += [SHAPES[int(look.shapes[0])]]
    words += [PLACES[int(look.cells[0])]] if place else []
    return " ".join(words)
