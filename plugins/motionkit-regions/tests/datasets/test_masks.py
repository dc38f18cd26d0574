"""Masks of files against independent slow versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from motionkit_regions.datasets import masks
from motionkit_regions.datasets.images import Facts
from motionkit_regions.datasets.masks import area_of, draw_mask, draw_runs, fill_polygons, polygon_area, runs_of
from motionkit_regions.datasets.rows import UnusableError
from tests.made.regions import letters, letters_of, rectangles, rle

RANDOM = np.random.default_rng(0)


def facts(height: int, width: int, turn: int = 1) -> Facts:
    size = (height, width)
    return Facts(1, size, size[::-1] if turn >= 5 else size, turn)


def blob(height: int, width: int, share: float) -> np.ndarray:
    coarse = RANDOM.random((height // 4 + 1, width // 4 + 1)) < share
    return coarse.repeat(4, 0).repeat(4, 1)[:height, :width]


def slow_decode(text: str, height: int, width: int) -> np.ndarray:
    """The format's description, a letter at a time."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        x, k, more = 0, 0, True
        while more:
            c = ord(text[at]) - 48
            x |= (c & 31) << (5 * k)
            more, at, k = bool(c & 32), at + 1, k + 1
            if not more and c & 16:
                x |= -1 << (5 * k)
        counts.append(x + (counts[-2] if len(counts) > 2 else 0))
    flat = [place % 2 == 1 for place, count in enumerate(counts) for _ in range(count)]
    return np.array(flat).reshape(width, height).T


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (48, 48), (60, 200)])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_rle_is_decoded_as_it_is_described(size: tuple[int, int], share: float) -> None:
    mask = blob(*size, share)
    text = letters(mask)
    runs, found = runs_of({"size": list(size), "counts": text})
    assert found == size
    np.testing.assert_array_equal(draw_runs(runs, size), mask)
    np.testing.assert_array_equal(slow_decode(text, *size), mask)
    plain, _ = runs_of({"size": list(size), "counts": runs.tolist()})
    np.testing.assert_array_equal(plain, runs)
    coded, _ = runs_of({"size": list(size), "counts": text.encode()})
    np.testing.assert_array_equal(coded, runs)


def test_rle_against_pycocotools() -> None:
    peer = pytest.importorskip("pycocotools.mask", reason="pycocotools is not installed")
    for _ in range(20):
        mask = blob(480, 640, float(RANDOM.random()))
        coded = peer.encode(np.asfortranarray(mask.astype(np.uint8)))
        np.testing.assert_array_equal(draw_runs(*runs_of(coded)), mask)
        assert letters(mask).encode() == coded["counts"]


@pytest.mark.parametrize(
    "mask",
    [
        {"size": [4, 4], "counts": "0"}, {"size": [4, 4], "counts": "\x00"}, {"size": [4, 4], "counts": "P"},
        {"size": [4, 4], "counts": [8, 9]}, {"size": [4, 4], "counts": [8, 7]}, {"size": [4, 4], "counts": None},
        {"size": [0, 4], "counts": []}, {"size": [4], "counts": [4]}, {"counts": [16]}, {"size": [4, 4], "counts": ""},
        {"size": [4, 4], "counts": [1.5]}, {"size": ["4", 4], "counts": [16]}, {"size": [4, 4], "counts": "é"},
        [[1, 2, 3, 4]], [[1, 2, 3, 4, 5, 6, 7]], [[1, 2, 3, 4, 5, float("nan")]], [[[1, 2], [3, 4], [5, 6]]],
        [["a"] * 6], [5], [[10**400, 0, 1, 1, 2, 2]], [[True] * 6],
    ],
)  # fmt: skip
def test_rle_and_polygons_that_are_none_are_unusable(mask: object) -> None:
    with pytest.raises(UnusableError, match="mask"):
        draw_mask(mask, facts(4, 4), max_pixels=100, size=(4, 4))


def test_limits_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are counted before they are drawn: one pixel too many, a letter too many, a mask too large."""
    assert runs_of({"size": [4, 4], "counts": letters_of([16])})[0].tolist() == [16]
    for counts in (letters_of([17]), letters_of([8, 9]), letters_of([8, 7])):
        with pytest.raises(UnusableError, match="RLE"):
            runs_of({"size": [4, 4], "counts": counts})
    monkeypatch.setattr(masks, "_LETTERS", 2)
    assert runs_of({"size": [20, 20], "counts": letters_of([400])})[1] == (20, 20)
    with pytest.raises(UnusableError, match="a number of many letters"):
        runs_of({"size": [40, 40], "counts": letters_of([1600])})
    monkeypatch.setattr(masks, "_LARGEST", 16)
    assert runs_of({"size": [4, 4], "counts": [16]})[1] == (4, 4)
    with pytest.raises(UnusableError, match="RLE of 4 x 5 pixels"):
        runs_of({"size": [4, 5], "counts": [20]})


def inside(points: np.ndarray, x: float, y: float) -> bool:
    """Even-odd, an edge at a time."""
    found = False
    for (ax, ay), (bx, by) in zip(points, np.roll(points, -1, 0), strict=True):
        if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
            found = not found
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_pixel_is_in_a_polygon_when_its_middle_is(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(-6, 30, (9, 2))  # crosses itself, and leaves the image
    found = fill_polygons([points.reshape(-1).tolist()], (20, 24))
    slow = [[inside(points, x + 0.5, y + 0.5) for x in range(24)] for y in range(20)]
    np.testing.assert_array_equal(found, slow)


@pytest.mark.parametrize("seed", range(4))
def test_polygons_that_overlap_are_joined_and_have_their_area_undrawn(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rings = [draw.integers(-4, 30, (5, 2)) / 2 for _ in range(4)]  # also borders on the middles of pixels
    coded = [ring.reshape(-1).tolist() for ring in rings]
    found = fill_polygons(coded, (20, 24))
    slow = [[any(inside(ring, x + 0.5, y + 0.5) for ring in rings) for x in range(24)] for y in range(20)]
    np.testing.assert_array_equal(found, slow)
    assert polygon_area(coded, (20, 24)) == found.sum()


def test_polygons_of_many_long_borders_are_unusable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A border of n rows costs n steps; a mask may have as many as take about a second."""
    triangle = [0, 0, 79, 0, 0, 79]
    monkeypatch.setattr(masks, "_CROSSINGS", 3 * 158)
    assert area_of([triangle] * 3, facts(79, 79), max_pixels=10_000) == pytest.approx(0.5, abs=1e-2)
    with pytest.raises(UnusableError, match="too long"):
        area_of([triangle] * 4, facts(79, 79), max_pixels=10_000)


def test_a_mask_of_very_many_polygons_is_unusable() -> None:
    """Half a million of them, 8 MB of a file, took half a minute although they cross nothing."""
    with pytest.raises(UnusableError, match="1,001 polygons"):
        area_of([[0, 0, 9, 0, 9, 9]] * 1001, facts(20, 20), max_pixels=400)
    assert area_of([[0, 0, 20, 0, 20, 20, 0, 20]] * 1000, facts(20, 20), max_pixels=400) == 1.0


def test_polygons_have_their_area_and_are_joined() -> None:
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.stack([100 + 60 * np.cos(angles), 90 + 60 * np.sin(angles)], 1).reshape(-1).tolist()
    assert fill_polygons(circle, (180, 200)).sum() == pytest.approx(np.pi * 60**2, rel=0.002)
    square = [2, 2, 5, 2, 5, 5, 2, 5]
    assert fill_polygons([square, [4, 4, 8, 4, 8, 8, 4, 8]], (10, 10)).sum() == 9 + 16 - 1
    mask = blob(30, 40, 0.4)
    np.testing.assert_array_equal(fill_polygons(rectangles(mask), mask.shape), mask)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "P"])
def test_a_picture_is_a_mask(tmp_path: Path, mode: str) -> None:
    mask = blob(20, 30, 0.4)
    picture = Image.fromarray(mask)
    if mode == "P":
        palette = Image.fromarray(mask.astype(np.uint8), "L").convert("P")
        palette.putpalette([0, 0, 0, 200, 30, 30])
        palette.save(tmp_path / "mask.png")
    else:
        picture.convert(mode).save(tmp_path / "mask.png")
    found = draw_mask(tmp_path / "mask.png", facts(20, 30), max_pixels=10_000, size=(20, 30))
    np.testing.assert_array_equal(found, mask)
    Image.fromarray(mask.astype(np.uint8)).save(tmp_path / "ones.png")  # 0 and 1 rather than 0 and 255
    assert area_of(tmp_path / "ones.png", facts(20, 30), max_pixels=10_000) == pytest.approx(mask.mean())


def test_the_area_of_runs_is_that_of_the_mask() -> None:
    mask = blob(37, 53, 0.3)
    for shape in (rle(mask), rectangles(mask)):
        assert area_of(shape, facts(37, 53), max_pixels=10_000) == pytest.approx(mask.mean())


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (None, "no mask"), ([], "no mask"), ({}, "no mask"), ("text", "cannot be read"), (7, "cannot be read"),
        (rle(np.zeros((8, 6), bool)), "empty"), (rle(np.ones((6, 8), bool)), "another size"),
        ([[20, 20, 30, 20, 30, 30]], "empty"), (Path("no/such.png"), "no mask"),
        ([[1, 2, 3, 4]], "three points"), ([1, 2, 3, 4], "three points"), ([[1, 2], [3, 4]], "three points"),
        ([[], [1, 2]], "three points"),
    ],
)  # fmt: skip
def test_why_a_mask_is_unusable(mask: object, reason: str) -> None:
    for call in (lambda: area_of(mask, facts(8, 6), max_pixels=100),
                 lambda: draw_mask(mask, facts(8, 6), max_pixels=100, size=(8, 6))):  # fmt: skip
        with pytest.raises(UnusableError, match=reason):
            call()


def test_a_mask_of_the_stored_picture_is_turned_with_it() -> None:
    stored = blob(6, 9, 0.4)
    found = draw_mask(rle(stored), facts(9, 6, turn=6), max_pixels=100, size=(9, 6))
    np.testing.assert_array_equal(found, np.rot90(stored, -1))
    np.testing.assert_array_equal(
        draw_mask(rle(found), facts(9, 6, turn=6), max_pixels=100, size=(9, 6)), found
    )  # one of the upright picture stays


def test_a_small_region_does_not_vanish_when_it_is_scaled_down() -> None:
    mask = np.zeros((400, 400), bool)
    mask[200:203, 100:102] = True
    assert draw_mask(rle(mask), facts(400, 400), max_pixels=10**6, size=(40, 40)).sum() == 1
    half = np.zeros((400, 400), bool)
    half[:, :200] = True
    np.testing.assert_array_equal(
        draw_mask(rle(half), facts(400, 400), max_pixels=10**6, size=(40, 40)), half[::10, ::10]
    )


@pytest.mark.parametrize(
    "values", [(0, 1), (0, 255), (200, 300), (0, 200, 300), (40_000, 60_000), (0.0, 0.5), (0.0, 1.0)]
)
def test_a_deep_picture_is_a_mask_in_its_own_depth(tmp_path: Path, values: tuple[float, ...]) -> None:
    """Half of the brightest value is the border, whatever the depth: 200 and 300 are one object."""
    flat = np.resize(np.array(values), 48).reshape(6, 8)
    kinds = [np.float32] if isinstance(values[0], float) else [np.uint16, np.int32, np.float32]
    wanted = flat > max(values) / 2
    assert wanted.any()
    for number, kind in enumerate(kinds):
        path = tmp_path / f"{number}.tiff"
        Image.fromarray(flat.astype(kind)).save(path)
        np.testing.assert_array_equal(draw_mask(path, facts(6, 8), max_pixels=100, size=(6, 8)), wanted)
        assert area_of(path, facts(6, 8), max_pixels=100) == wanted.mean()
    if np.uint16 in kinds:
        Image.fromarray(flat.astype(np.uint16)).save(tmp_path / "m.png")
        np.testing.assert_array_equal(draw_mask(tmp_path / "m.png", facts(6, 8), max_pixels=100, size=(6, 8)), wanted)


def test_a_deep_mask_of_nothing_is_empty(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((6, 8), np.uint16)).save(tmp_path / "m.png")
    with pytest.raises(UnusableError, match="empty"):
        draw_mask(tmp_path / "m.png", facts(6, 8), max_pixels=100, size=(6, 8))


SQUARE = [10, 5, 30, 5, 30, 25, 10, 25]
PAIRS = [[10, 5], [30, 5], [30, 25], [10, 25]]
OTHER = [32, 2, 38, 2, 38, 9, 32, 9]


@pytest.mark.parametrize(
    ("mask", "same"),
    [
        ([SQUARE, [12, 7, 13, 8]], [SQUARE]),
        ([[12, 7], SQUARE, []], [SQUARE]),
        ([SQUARE, [0, 0, 9, 9, 0, 0]], [SQUARE]),
        (PAIRS, [SQUARE]),
        ([PAIRS], [SQUARE]),
        ([PAIRS, OTHER, [[1, 1], [2, 2]]], [SQUARE, OTHER]),
        ([tuple(map(tuple, PAIRS))], [SQUARE]),
    ],
)
def test_polygons_without_area_are_left_out_and_points_may_be_pairs(mask: object, same: object) -> None:
    drawn = draw_mask(mask, facts(40, 40), max_pixels=10**4, size=(40, 40))
    np.testing.assert_array_equal(drawn, draw_mask(same, facts(40, 40), max_pixels=10**4, size=(40, 40)))
    assert drawn.sum() in (400, 442)
    assert area_of(mask, facts(40, 40), max_pixels=10**4) == drawn.mean()


def test_a_list_of_rle_is_joined() -> None:
    one, two = np.zeros((2, 6, 8), np.bool_)
    one[1:3, 1:3], two[2:5, 2:7] = True, True
    parts = [rle(one), {"size": [6, 8], "counts": letters(two)}]
    drawn = draw_mask(parts, facts(6, 8), max_pixels=100, size=(6, 8))
    np.testing.assert_array_equal(drawn, one | two)
    assert area_of(parts, facts(6, 8), max_pixels=100) == (one | two).mean()
    with pytest.raises(UnusableError, match="RLE"):
        draw_mask([rle(one), {"size": [6, 8]}], facts(6, 8), max_pixels=100, size=(6, 8))
