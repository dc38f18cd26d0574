"""States of a motion relative to its heading, and paths that a motion should follow."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw
from motionkit_predictor.states import MotionState, follow, motion_of, path_points, read_path, state_positions, steps_of


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "path.csv"
    path.write_text(text)
    return path


def test_steps_are_the_inverse_of_following_them() -> None:
    steps = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double() * 0.2
    place, yaw = follow(steps)
    start = torch.zeros(1, 2, dtype=torch.float64)
    back = steps_of(torch.cat([start, place]), torch.cat([start[:, 0], yaw]))
    assert torch.allclose(back, steps, atol=1e-9)


def test_a_straight_path_and_a_turn(tmp_path: Path) -> None:
    """One metre ahead in a second, then one to the left in another: it faces where it goes."""
    steps = read_path(written(tmp_path, "seconds,x,z\n1,0,1\n2,1,1\n"), 10.0)
    place, yaw = follow(steps)
    assert len(steps) == 20
    assert place[9].tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert place[-1].tolist() == pytest.approx([1.0, 1.0], abs=1e-9)
    assert float(yaw[-1]) == pytest.approx(math.pi / 2)


def test_headings_of_the_file_win(tmp_path: Path) -> None:
    steps = read_path(written(tmp_path, "seconds,x,z,yaw\n0,0,0,0\n1,0,1,170\n2,0,2,190\n"), 10.0)
    _, yaw = follow(steps)
    assert float(yaw[9]) == pytest.approx(math.radians(170))
    assert float(yaw[-1]) == pytest.approx(math.radians(190))
    assert float(yaw.diff().abs().max()) < math.radians(20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,x,z\n0,0,0\n", "not a path"),
        ("", "not a path"),
        ("seconds,x,z\n0,0,zero\n", "line 2, column z: 'zero'"),
        ("seconds,x,z\n0,0\n", "line 2 has no 'z'"),
        ("seconds,x,z\n0,0,nan\n1,0,1\n", "line 2, column z: nan"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,nan\n", "line 3, column yaw: nan"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,inf\n", "line 3, column yaw: inf"),
        ("seconds,x,z\n0,0,0\n1,1e300,1\n", "line 3, column x: 1e[+]300"),
        (f"seconds,x,z\n0,0,{'1' * 200_000}\n", "not a CSV file: line 2"),
        ("seconds,x,z\n1,0,0\n1,0,1\n", "line 3: seconds are 1"),
        ("seconds,x,z\n0,0,0\n1,0,1\n0.5,0,2\n", "line 4: seconds"),
        ("seconds,x,z\n2,0,0\n1,0,1\n3,0,1\n", "line 3: seconds"),
        ("seconds,x,z\n0,0,0\n", "0 seconds"),
        ("seconds,x,z\n0,0,0\n1,0,1\n1.1,3,1\n2,3,2\n", "before line 4"),
        ("seconds,x,z\n0.1,3,0\n", "before line 2"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,0\n1.1,0,1.1,3600\n", "before line 4"),
        ("seconds,x,z,yaw\n0.05,0,0,150\n", "before line 2"),
    ],
)
def test_what_is_no_path_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MotionkitError, match=said):
        read_path(written(tmp_path, text), 30.0)


def test_a_file_begins_where_the_body_stands(tmp_path: Path) -> None:
    text = "seconds,x,z\n0,{0},{0}\n1,{0},{1}\n"
    place, _ = follow(read_path(written(tmp_path, text.format(1000, 1001)), 30.0))
    assert place[-1].tolist() == pytest.approx([0.0, 1.0])


def test_a_jump_says_in_what(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError) as caught:
        read_path(written(tmp_path, "seconds,x,z,yaw\n0,0,0,0\n0.1,0,0,360\n"), 30.0)
    assert caught.value.why == "it turns by 360 degrees in 0.1 s, 3.6e+03 degrees/s; up to 2160 is possible."
    with pytest.raises(MotionkitError) as caught:
        read_path(written(tmp_path, "seconds,x,z\n0,0,0\n"), 30.0)
    assert "a point for a later second" in caught.value.fix


def test_ten_metres_a_second_and_one_point_are_paths(tmp_path: Path) -> None:
    place, _ = follow(read_path(written(tmp_path, "seconds,x,z\n2,0,20\n"), 30.0))
    assert place[-1].tolist() == pytest.approx([0.0, 20.0])


@pytest.mark.parametrize(
    ("yaws", "turn"),
    [
        ("0,350,10", 10.0),  # wrapped: it turns 10 to the right and 20 to the left
        ("170,-170,-150", 40.0),
        ("0,180,360", 360.0),
        ("0,360,720", 720.0),  # as written: a full circle in each second
        ("0,-360,-360", -360.0),
    ],
)
def test_a_heading_turns_by_a_full_circle_where_it_says_so(tmp_path: Path, yaws: str, turn: float) -> None:
    first, second, third = yaws.split(",")
    text = f"seconds,x,z,yaw\n0,0,0,{first}\n1,0,1,{second}\n2,0,2,{third}\n"
    _, yaw = follow(read_path(written(tmp_path, text), 30.0))
    assert abs(float(yaw[-1])) == pytest.approx(math.radians(abs(turn)), abs=1e-6)


def test_a_state_as_a_motion_begins_at_the_origin() -> None:
    state = MotionState(
        torch.eye(3).expand(4, 2, 3, 3), torch.tensor([0.0, 0.5, 0.0]).expand(4, 3), torch.ones(4), torch.zeros(4, 2)
    )
    offsets = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.3, 0.0]])
    motion = motion_of(state, names=("hips", "head"), parents=(-1, 0), offsets=offsets, fps=30.0)
    joints = motion.positions()
    assert joints[0, 0].tolist() == [0.0, 1.0, 0.0]
    assert joints[3, 0].tolist() == pytest.approx([0.0, 1.0, 1.5])
    assert joints[3, 1].tolist() == pytest.approx([0.0, 1.3, 1.5])


def random_steps(frames: int) -> torch.Tensor:
    return torch.randn(frames, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_steps_add_up_one_by_one() -> None:
    steps = random_steps(12)
    place, yaw = torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    places, yaws = follow(steps)
    for number, (x, z, turn) in enumerate(steps):
        place = place + rotate_yaw(torch.stack([x, torch.zeros_like(x), z]), yaw)
        yaw = yaw + turn
        torch.testing.assert_close(places[number], place[[0, 2]])
        torch.testing.assert_close(yaws[number], yaw)


def test_points_of_a_path_are_seen_from_its_start() -> None:
    steps = random_steps(12)
    points = path_points(steps, 5).view(2, 4)
    places, yaws = follow(steps)
    for row, frame in zip(points, (4, 9), strict=True):
        torch.testing.assert_close(row[:2], places[frame])
        assert math.remainder(math.atan2(float(row[2]), float(row[3])) - float(yaws[frame]), 2 * math.pi) == (
            pytest.approx(0.0, abs=1e-9)
        )


def test_positions_are_those_of_a_chain_walked_along() -> None:
    rotations = roma.random_rotmat(2 * 3, dtype=torch.float64).view(2, 3, 3, 3)
    steps = torch.tensor([[0.0, 1.0, math.pi / 2], [0.0, 2.0, 0.0]], dtype=torch.float64)
    state = MotionState(rotations, steps, torch.tensor([0.9, 1.0], dtype=torch.float64), torch.zeros(2, 2))
    offsets = torch.tensor([[9.0, 9, 9], [0, 0.5, 0], [0, 0.25, 0]], dtype=torch.float64)
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, math.pi / 2, 0], dtype=torch.float64))
    root = [torch.tensor([0.0, 0.9, 1.0]).double(), torch.tensor([2.0, 1.0, 1.0]).double()]
    found = state_positions(state, offsets, (-1, 0, 1))
    for frame in (0, 1):
        hips = turn @ rotations[frame, 0]
        middle = root[frame] + hips @ offsets[1]
        end = middle + hips @ rotations[frame, 1] @ offsets[2]
        torch.testing.assert_close(found[frame], torch.stack([root[frame], middle, end]))
    posed = state_positions(state, offsets, (-1, 0, 1), pose_only=True)
    torch.testing.assert_close(posed[0, 2], offsets[1] + rotations[0, 1] @ offsets[2])
