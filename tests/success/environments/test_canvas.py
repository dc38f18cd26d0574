"""Shapes with soft edges, against distances that are computed for every pixel."""

from __future__ import annotations

import numpy as np
import pytest

from motionkit.success.environments.canvas import Canvas

SIZE = 32


def expected(distance: np.ndarray, below: float, colour: float) -> np.ndarray:
    cover = np.clip(0.5 - distance * SIZE / 2, 0, 1)
    return below + cover * (colour - below)


def pixels() -> tuple[np.ndarray, np.ndarray]:
    place = (np.arange(SIZE) + 0.5) / SIZE * 2 - 1
    return np.meshgrid(place, -place)


@pytest.mark.parametrize("middle", [(0.1, -0.3), (0.98, 0.9), (-1.0, 0.0), (0.0, 1.6)])
def test_a_disc_is_painted_and_nothing_else(middle: tuple[float, float]) -> None:
    shapes = Canvas(SIZE)
    canvas = shapes.blank(2, (10, 20, 30))
    shapes.disc(canvas, np.array([middle, (0.3, 0.3)], np.float32), 0.22, (200, 100, 0))
    x, y = pixels()
    distance = np.hypot(x - middle[0], y - middle[1]) - 0.22
    for channel, (below, colour) in enumerate([(10, 200), (20, 100), (30, 0)]):
        assert np.allclose(canvas[0, ..., channel], expected(distance, below, colour), atol=0.01)


@pytest.mark.parametrize("angle", [0.0, 0.4, 2.0, -1.1])
@pytest.mark.parametrize("middle", [(0.1, -0.3), (0.95, -0.95)])
def test_a_square_has_its_sides_where_its_angle_puts_them(middle: tuple[float, float], angle: float) -> None:
    shapes, half = Canvas(SIZE), 0.25
    canvas = shapes.blank(1, (0, 0, 0))
    shapes.square(canvas, np.array([middle], np.float32), np.array([angle], np.float32), half, (100, 100, 100))
    x, y = pixels()
    # Distance to the nearest of many points of the outline, with the sign of the inside.
    side = np.linspace(-half, half, 400)
    outline = np.concatenate([np.stack([side, 0 * side + end], 1) for end in (-half, half)]
                             + [np.stack([0 * side + end, side], 1) for end in (-half, half)])  # fmt: skip
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    outline = outline @ turn.T + middle
    own = np.stack([x - middle[0], y - middle[1]], -1) @ turn
    inside = abs(own).max(-1) < half
    distance = np.sqrt(((np.stack([x, y], -1)[:, :, None] - outline) ** 2).sum(-1)).min(-1) * np.where(inside, -1, 1)
    assert np.allclose(canvas[0, ..., 0], expected(distance, 0, 100), atol=2)


def test_a_segment_is_as_thick_as_its_distance_says() -> None:
    shapes = Canvas(SIZE)
    first, second = np.array([[-0.5, 0.0]], np.float32), np.array([[0.5, 0.0]], np.float32)
    x, y = pixels()
    found = shapes.from_segment(first, second)[0]
    assert np.allclose(found, np.hypot(np.maximum(abs(x) - 0.5, 0), y), atol=1e-5)
