"""`push`: contact without penetration, friction that stops the block, falls, success and pictures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from motionkit_success.checks import check_environment
from motionkit_success.environments.canvas import Canvas
from motionkit_success.environments.table import _PARTS, CAMERA, FINGER, HALF, SPREAD, STEP, TABLE, Push, contact, push
from motionkit_success.environments.tasks import PushSettings

FREE = np.zeros(1, bool)


def started(copies: int = 8, first: int = 0, **options: object) -> Push:
    environment = Push(PushSettings.model_validate(options), num_envs=copies)
    environment.reset(np.arange(copies), np.arange(first, first + copies))
    return environment


def pushed(block: tuple[float, float, float], finger: tuple[float, float], way: tuple[float, float], parts: int = 100,
           friction: float = 0.3) -> np.ndarray:  # fmt: skip
    """Move a finger along a way in small parts; return the block."""
    blocks, fingers = np.array([block], float), np.array([finger], float)
    part = np.array([way], float) / parts
    for _ in range(parts):
        blocks = push(blocks, fingers, part, friction, FREE)
        fingers = fingers + part
    return blocks[0]


def test_it_is_an_environment() -> None:
    check_environment("push", steps=30)


def test_a_push_through_the_middle_moves_the_block_and_does_not_turn_it() -> None:
    gap = 0.05
    block = pushed((0, 0, 0), (-HALF - FINGER - gap, 0), (0.25, 0))
    assert block == pytest.approx((0.25 - gap, 0, 0), abs=1e-9)


def test_a_push_off_the_middle_turns_it_as_the_limit_surface_says() -> None:
    # A tiny push along x at height y: f = (fx, fy) with A f = u, and the turn is r x f / c^2.
    y, step, c = 0.1, 1e-6, SPREAD
    block = pushed((0, 0, 0), (-HALF - FINGER, y), (step, 0), parts=1, friction=10.0)
    arm = np.array([-HALF, y])
    matrix = np.eye(2) + np.array([[arm[1] ** 2, -arm[0] * arm[1]], [-arm[0] * arm[1], arm[0] ** 2]]) / c**2
    force = np.linalg.solve(matrix, [step, 0])
    turn = (arm[0] * force[1] - arm[1] * force[0]) / c**2
    assert block == pytest.approx((*force, turn), rel=1e-4)
    # The place of contact goes where the finger goes: it sticks.
    moved = block[:2] + block[2] * np.array([-arm[1], arm[0]])
    assert moved == pytest.approx((step, 0), abs=1e-11)


def test_a_slippery_contact_has_no_force_along_the_side() -> None:
    step = 1e-6
    block = pushed((0, 0, 0), (-HALF - FINGER, 0.05), (step, 3 * step), parts=1, friction=0.0)
    assert block[0] > 0
    assert block[1] == pytest.approx(0, abs=1e-12)
    rough = pushed((0, 0, 0), (-HALF - FINGER, 0.05), (step, 3 * step), parts=1, friction=0.3)
    # On the edge of the friction cone the block's middle moves along the force: fy = 0.3 fx.
    assert rough[1] == pytest.approx(0.3 * rough[0], rel=1e-4)


def test_the_mirror_image_of_a_push_moves_the_mirror_image_of_the_block() -> None:
    block = pushed((0, 0, 0.3), (-0.4, 0.08), (0.4, -0.05))
    mirrored = pushed((0, 0, -0.3), (-0.4, -0.08), (0.4, 0.05))
    assert mirrored == pytest.approx((block[0], -block[1], -block[2]), abs=1e-9)
    turned = pushed((0, 0, 0.3 + np.pi / 2), (-0.4, 0.08), (0.4, -0.05))
    assert turned[:2] == pytest.approx(block[:2], abs=1e-9)


def test_smaller_parts_change_little() -> None:
    coarse, fine = (pushed((0, 0, 0.2), (-0.3, 0.06), (0.2, 0.03), parts=parts) for parts in (_PARTS, 1000))
    assert coarse == pytest.approx(fine, abs=0.02)
    assert abs(fine[2] - 0.2) > 0.02


def test_nothing_is_in_another_whatever_one_does() -> None:
    environment, draw = started(64), np.random.default_rng(0)
    touched = 0
    for _ in range(30):
        before = environment._block.copy()
        environment.step(draw.choice([-1.0, 1.0], (64, 2)) * draw.uniform(0.5, 1, (64, 2)))
        depth = contact(environment._block, environment._finger)[1]
        assert depth[~environment._fallen].max() < 1e-9
        moved = (environment._block != before).any(axis=1)
        touched += int(moved.sum())
        assert (depth[moved] > -STEP * 1.5).all()  # what moved was touched in this step
    assert touched > 100


def test_a_finger_that_starts_inside_a_block_is_pushed_out() -> None:
    blocks = push(np.array([[0.0, 0, 0.4]]), np.array([[0.05, 0.02]]), np.zeros((1, 2)), 0.3, FREE)
    (depth,) = contact(blocks, np.array([[0.05, 0.02]]))[1]
    assert -1e-4 < depth < 1e-9


def test_the_block_moves_no_further_than_what_pushes_it_and_stops_with_it() -> None:
    environment = started(64)
    draw = np.random.default_rng(1)
    for _ in range(30):
        finger, block = environment._finger.copy(), environment._block.copy()
        environment.step(draw.uniform(-1, 1, (64, 2)))
        gone = np.linalg.norm(environment._finger - finger, axis=1)
        # Pushed through the middle a block goes as far; off the middle less, and it turns.
        assert (np.linalg.norm((environment._block - block)[:, :2], axis=1) <= gone + 1e-6).all()
    still = environment._block.copy()
    environment._over[:] = False
    environment.step(np.zeros((64, 2)))
    assert np.array_equal(environment._block, still)


def test_a_block_over_the_edge_has_fallen_for_good() -> None:
    environment = started(1)
    environment._block[0], environment._finger[0] = (TABLE - 0.02, 0, 0), (TABLE - 0.02 - HALF - FINGER, 0)
    environment._goal[0] = (TABLE + 0.05, 0)  # a success, if it lay there
    found = environment.step(np.array([[1.0, 0]]))
    assert found.terminated.all()
    assert not found.success.any()
    assert environment._block[0, 0] > TABLE
    fallen = environment._block.copy()
    environment._over[:] = False
    environment._finger[0] = (0.92, 0.5)
    for action in ([0, -1.0], [0, -1.0], [-1.0, 0], [-1.0, 0]):
        environment._over[:] = False
        assert environment.step(np.array([action])).terminated.all()
    assert np.array_equal(environment._block, fallen)


def test_success_is_the_distance_after_the_step() -> None:
    environment = started(128)
    for _ in range(30):
        found = environment.step(environment.scripted())
        distance = np.linalg.norm(environment._block[:, :2] - environment._goal, axis=1)
        assert np.array_equal(found.success, distance < 0.15)
        assert np.array_equal(found.reward, found.success.astype(np.float32))
    assert found.success.mean() > 0.97
    assert found.truncated.all()


def test_the_state_is_what_is_on_the_table() -> None:
    environment = started(20)
    states = environment.states()
    assert np.allclose(states[:, :2], environment._block[:, :2])
    assert np.allclose(states[:, :2] - states[:, 2:4], environment._finger, atol=1e-6)
    assert np.allclose(states[:, :2] + states[:, 4:6], environment._goal, atol=1e-6)
    environment._block[:, 2] += np.pi / 2
    assert np.allclose(environment.states(), states, atol=1e-5)
    distance = np.linalg.norm(states[:, 4:6], axis=1)
    assert (distance >= 0.2).all()
    assert (distance <= 0.6).all()


def test_the_picture_shows_goal_block_and_finger() -> None:
    environment = started(40)
    pictures = environment.frames()[CAMERA]

    def pixel(places: np.ndarray) -> np.ndarray:
        column, row = ((places[:, 0] + 1) * 32).astype(int), ((1 - places[:, 1]) * 32).astype(int)
        return pictures[np.arange(40), row, column].astype(int)

    assert abs(pixel(environment._finger) - (240, 205, 60)).max() <= 3
    assert abs(pixel(environment._block[:, :2]) - (90, 130, 235)).max() <= 3
    environment._block[:, :2] = (TABLE + 0.05, 0)
    fallen = environment.frames()[CAMERA]
    assert (abs(fallen[:, 32, 63].astype(int) - (40, 52, 84)).max(axis=1) <= 3).mean() > 0.9
    assert (abs(fallen[:, 32, 56].astype(int) - (52, 56, 68)).max(axis=1) <= 3).mean() > 0.5  # below the table


def test_a_picture_shows_nothing_of_the_ones_before() -> None:
    """The goal, and a block that has fallen, are kept from picture to picture; a new environment draws them."""
    first = started(40)
    for number in range(24):
        way = first._block[:, :2] - first._finger  # over the edge, most of them
        first.step((way / np.linalg.norm(way, axis=1, keepdims=True)).astype(np.float32))
        if number % 9 == 8:
            first.reset(np.arange(5), 100 * number + np.arange(5))
        second = started(40, first=7)
        second.set_state(first.get_state())
        assert np.array_equal(first.frames()[CAMERA], second.frames()[CAMERA])
    assert first._fallen.any()


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


@pytest.mark.parametrize("points", [((-0.5, 0.0), (0.5, 0.0), (0.2, 0.7)), ((0.9, -0.95), (0.9, -0.95), (1.4, 0.3))])
def test_lines_are_painted_along_their_segments_and_nothing_else(points: tuple[tuple[float, float], ...]) -> None:
    shapes, half = Canvas(SIZE), 0.07
    canvas = shapes.blank(2, (10, 20, 30))
    others = [(-0.8, -0.8), (-0.8, 0.8), (0.8, 0.8)]  # boxes of one size hold short and long segments
    ends = [np.array(pair, np.float32) for pair in zip(points, others, strict=True)]
    shapes.lines(canvas, ends, half, (200, 100, 0))
    x, y = pixels()
    for number, corners in enumerate((points, others)):
        distance = np.full(x.shape, np.inf)
        for first, second in pairwise(np.array(corners)):
            edge = second - first
            way = (x - first[0]) * edge[0] + (y - first[1]) * edge[1]
            share = np.clip(way / max(edge @ edge, 1e-12), 0, 1)
            nearest = np.hypot(x - first[0] - share * edge[0], y - first[1] - share * edge[1])
            distance = np.minimum(distance, nearest)
        for channel, (below, colour) in enumerate([(10, 200), (20, 100), (30, 0)]):
            wanted = expected(distance - half, below, colour)
            assert np.allclose(canvas[number, ..., channel], wanted, atol=0.01)
