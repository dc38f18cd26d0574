"""Input and output of a motion predictor: states relative to the heading, and the path that a motion should follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.documents import CsvTable
from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones, rotate_yaw, rotations_above, unwrap, yaw_matrix
from motionkit.metrics import yaw_degrees
from motionkit.motion.motion import Motion


@dataclass(frozen=True)
class MotionState:
    """Motion as a predictor uses it, without place and direction in the world."""

    rotations: Tensor  # ``[..., T, J, 3, 3]`` relative to the parent joint; the root's (joint 0) to the heading
    # ``[..., T, 3]``: the root's step from the frame before, in that frame's heading: metres to its left (x) and ahead
    # (z), and the turn of the heading in radians.
    steps: Tensor
    heights: Tensor  # ``[..., T]`` metres of the root above the floor of its file
    contacts: Tensor  # ``[..., T, 2]`` left and right foot in [0, 1]; 0.5 where they are not known

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return self.heights.shape[-1]

    @classmethod
    def joined(cls, states: Sequence[MotionState]) -> MotionState:
        """Return the frames of states one after another."""
        return cls(
            torch.cat([state.rotations for state in states], dim=-4),
            torch.cat([state.steps for state in states], dim=-2),
            torch.cat([state.heights for state in states], dim=-1),
            torch.cat([state.contacts for state in states], dim=-2),
        )

    def map(self, change: Callable[..., Tensor], *others: MotionState) -> MotionState:
        """Apply `change` to each tensor of the state and of `others`."""
        every = [(state.rotations, state.steps, state.heights, state.contacts) for state in (self, *others)]
        return MotionState(*map(change, *every))

    def part(self, start: int, stop: int | None = None) -> MotionState:
        """Return frames ``start:stop``."""
        span = slice(start, stop)
        return MotionState(
            self.rotations[..., span, :, :, :], self.steps[..., span, :], self.heights[..., span],
            self.contacts[..., span, :],
        )  # fmt: skip

    def then(self, other: MotionState) -> MotionState:
        """Return this state with the frames of another after it."""
        return MotionState.joined([self, other])


def follow(steps: Tensor) -> tuple[Tensor, Tensor]:
    """Add up steps from the origin, facing +Z.

    Args:
        steps: ``[..., T, 3]`` as in `MotionState`.

    Returns:
        ``[..., T, 2]`` metres x and z, and ``[..., T]`` radians, after each step.

    Example:
        >>> place, yaw = follow(torch.tensor([[0.0, 1.0, torch.pi / 2], [0.0, 1.0, 0.0]]))
        >>> place[-1].round(decimals=3).tolist()
        [1.0, 1.0]
    """
    yaw = steps[..., 2].cumsum(-1)
    before = torch.cat([torch.zeros_like(yaw[..., :1]), yaw[..., :-1]], dim=-1)
    moved = torch.stack([steps[..., 0], torch.zeros_like(yaw), steps[..., 1]], dim=-1)
    return rotate_yaw(moved, before).cumsum(-2)[..., ::2], yaw


def steps_of(place: Tensor, yaw: Tensor) -> Tensor:
    """Return the steps ``[T - 1, 3]`` between places ``[T, 2]`` with headings ``[T]``; the inverse of `follow`."""
    moved = place.diff(dim=0)
    flat = torch.stack([moved[:, 0], torch.zeros_like(moved[:, 0]), moved[:, 1]], dim=-1)
    return torch.cat([rotate_yaw(flat, -yaw[:-1])[:, ::2], unwrap(yaw).diff()[:, None]], dim=-1)


def path_points(
    steps: Tensor,  # [..., T, 3] as in `MotionState`
    every: int,  # frames between the K points; the first is that many frames after the start
) -> Tensor:
    """Return K points of a path relative to its start: ``[..., 4 K]``, x, z (metres), sine and cosine of the yaw."""
    place, yaw = follow(steps)
    points = torch.cat([place, yaw.sin()[..., None], yaw.cos()[..., None]], dim=-1)
    return points[..., every - 1 :: every, :].flatten(-2)


def extended(path: Tensor, frames: int) -> Tensor:
    """Pad a path ``[N, F, 3]`` that is shorter than `frames` with its last step."""
    missing = max(0, frames - path.shape[1])
    return torch.cat([path, path[:, -1:].expand(-1, missing, -1)], dim=1)


def state_positions(state: MotionState, offsets: Tensor, parents: Sequence[int], *, pose_only: bool = False) -> Tensor:
    """Return joint positions ``[..., T, J, 3]`` in metres, Y up.

    The frame before the first stands at the origin and faces +Z.

    Args:
        state: The motion.
        offsets: ``[..., J, 3]`` metres from the parent; joint 0 is not used.
        parents: Parent of each joint, -1 for joint 0.
        pose_only: Leave root motion and rotation out: the root is at the origin in every frame.
    """
    rotations = state.rotations
    root = rotations[..., :1, :, :]
    if pose_only:
        root = torch.eye(3).to(root).expand_as(root)
        start = torch.zeros_like(root[..., 0])
    else:
        place, yaw = follow(state.steps)
        root = yaw_matrix(yaw)[..., None, :, :] @ root
        start = torch.stack([place[..., 0], state.heights, place[..., 1]], dim=-1)[..., None, :]
    above = rotations_above(torch.cat([root, rotations[..., 1:, :, :]], dim=-3), parents)
    bones = (above @ offsets[..., None, 1:, :, None]).squeeze(-1)
    return positions_from_bones(torch.cat([start, bones], dim=-2), parents)


def motion_of(
    state: MotionState,  # [T, ...]; the step to the first frame does not count
    *,
    names: Sequence[str],
    parents: Sequence[int],  # parent of each joint, -1 for joint 0
    offsets: Tensor,  # [J, 3] metres from the parent
    fps: float,  # frames per second
) -> Motion:
    """Return the motion in the world; its first frame is at the origin and faces +Z."""
    state = state.map(Tensor.double)
    steps = torch.cat([torch.zeros_like(state.steps[:1]), state.steps[1:]])
    place, yaw = follow(steps)
    rotations = state.rotations.clone()
    rotations[:, 0] = yaw_matrix(yaw) @ rotations[:, 0]
    translations = offsets.double().repeat(state.frames, 1, 1)
    translations[:, 0] = torch.stack([place[:, 0], state.heights, place[:, 1]], dim=-1)
    tracks = {"contacts": state.contacts}
    return Motion(tuple(names), tuple(parents), offsets.double(), rotations, translations, fps, tracks)


def path_errors(steps: Tensor, path: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far a root is from the point of a path at the same time.

    Args:
        steps: ``[..., T, 3]`` of the root, as in `MotionState`.
        path: ``[..., T, 3]`` steps of the path, from the same start.

    Returns:
        ``[..., T]`` metres from the point, and ``[..., T]`` degrees between the headings, 0 to 180.

    Example:
        >>> ahead, nowhere = torch.tensor([[0.0, 0.1, 0.0]] * 30), torch.zeros(30, 3)
        >>> distance, heading = path_errors(nowhere, ahead)
        >>> round(float(distance[-1]), 3), float(heading[-1])
        (3.0, 0.0)
    """
    (place, yaw), (target, facing) = follow(steps), follow(path)
    return (place - target).norm(dim=-1), yaw_degrees(yaw, facing)


_SLOW = 0.05
"""m/s below which a path without headings keeps its last heading."""

_FAR = 1e6
"""Largest number of metres and degrees in a path; an hour of running is 4e4 m."""

_FASTEST = 15.0
"""m/s between two points above which a path jumps; a sprinter reaches 12.4."""

_FASTEST_TURN = 2160.0
"""Degrees per second between two headings above which a path jumps: six turns, the fastest of figure skaters."""

_BYTES = 64 << 20
"""Bytes of a file; an hour at 100 points per second has 10 MB."""

_NEEDED = "seconds", "x", "z"

_FIX = "columns seconds, x, z and, if wanted, yaw: metres to the left and ahead of the start pose, degrees to the left."


def read_path(file: Path, fps: float, *, say: Callable[[str], None] | None = None) -> Tensor:
    """Read a CSV file of points and return steps ``[F, 3]`` as in `MotionState`, from time 0 to the last point.

    Between the points the path is straight; without a column ``yaw`` it faces where it goes. The body stands at the
    file's place at second 0; a file that begins later begins at the origin. A yaw turns the shorter way to the next
    one, as 350 and 10 are 20 degrees apart, unless they differ by 360 or more.

    Args:
        file: The file.
        fps: Frames per second of the steps.
        say: Is given a sentence where the file is not UTF-8 with commas, and one about columns that are not used.
    """
    source = CsvTable(file, limit=_BYTES)
    if not set(_NEEDED) <= set(source.columns):
        found = f"its columns are {', '.join(source.columns)}." if source.columns else "it is empty."
        raise MotionkitError(f"{file} is not a path.", why=found, fix=_FIX)
    used = [name for name in (*_NEEDED, "yaw") if name in source.columns]
    rows, lines = [], []
    for line, row in source.rows(*used):
        rows.append([_value(row[name], f"{file}, line {line}, column {name}") for name in used])
        lines.append(line)
    if not rows:
        raise MotionkitError(f"{file} has no point: it ends after the names of its columns.", fix=_FIX)
    table = dict(zip(used, np.array(rows).T, strict=True))
    if say is not None and source.note:
        say(source.note)
    if say is not None and (idle := [name for name in source.columns if name not in used]):
        say(f"{file}: not used, as a path has no such column: {', '.join(idle[:8])}")
    yaws = np.radians(_turned(table["yaw"])) if "yaw" in table else None
    added = int(table["seconds"][0] > 0)  # the origin, where the file begins later
    times = np.concatenate([[0.0] * added, table["seconds"]])
    lines = [1] * added + lines
    _refuse_times(file, times, lines)
    if times[-1] * fps < 1 or times[-1] > 3600:
        raise MotionkitError(
            f"{file} lasts {times[-1]:g} seconds; one frame to an hour is possible.",
            fix="give it a point for a later second, or fewer of them; points are in seconds.",
        )
    points = np.stack([np.concatenate([[0.0] * added, table[name]]) for name in "xz"], axis=-1)
    _refuse_jumps(file, times, np.hypot(*np.diff(points, axis=0).T), "m", _FASTEST, lines)
    frames = np.arange(math.floor(times[-1] * fps) + 1) / fps
    place = np.stack([np.interp(frames, times, points[:, column]) for column in range(2)], axis=-1)
    if yaws is not None:
        turned = np.concatenate([[0.0] * added, yaws])
        _refuse_jumps(file, times, np.abs(np.degrees(np.diff(turned))), "degrees", _FASTEST_TURN, lines)
        yaw = np.interp(frames, times, turned)
    else:
        yaw = _headings(place, fps)
    return steps_of(torch.from_numpy(place), torch.from_numpy(yaw))


def _value(cell: str, location: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise MotionkitError(f"{location}: {cell[:40]!r} is not a number.", fix=_FIX) from error
    if not abs(value) <= _FAR:
        raise MotionkitError(f"{location}: {value:g} is not a number from -{_FAR:g} to {_FAR:g}.", fix=_FIX)
    return value


def _refuse_times(file: Path, times: NDArray[np.float64], lines: Sequence[int]) -> None:
    """Refuse times that do not rise from 0; `lines` are those of the file."""
    if times[0] < 0:
        raise MotionkitError(
            f"{file}, line {lines[0]}: {times[0]:g} seconds is before the start.",
            fix="second 0 is where the body stands.",
        )
    if (back := np.diff(times) <= 0).any():
        place = int(back.argmax())
        before, after = times[place : place + 2]
        raise MotionkitError(
            f"{file}, line {lines[place + 1]}: seconds "
            + (f"go back from {before:g} to {after:g}." if after < before else f"are {after:g} for the second time."),
            fix="a row for each time, the earliest first.",
        )


def _refuse_jumps(
    file: Path,
    times: NDArray[np.float64],
    far: NDArray[np.float64],
    unit: str,
    fastest: float,
    lines: Sequence[int],
) -> None:
    """Refuse a path whose points lie too far apart, `far` in `unit`; `lines` are those of the file."""
    speeds = far / np.diff(times)
    place = int(speeds.argmax())
    if speeds[place] > fastest:
        raise MotionkitError(
            f"{file}: the path jumps before line {lines[place + 1]}.",
            why=f"it {'goes' if unit == 'm' else 'turns by'} {far[place]:.3g} {unit} in "
            f"{times[place + 1] - times[place]:.3g} s, {speeds[place]:.3g} {unit}/s; up to {fastest:g} is possible.",
            fix="points in metres, headings in degrees, seconds in seconds, and none left out.",
        )


def _turned(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return headings without wraps: the shorter way from one to the next, unless they are a full turn apart."""
    turns = np.diff(degrees)
    shorter = np.remainder(turns + 180.0, 360.0) - 180.0
    turns = np.where(np.abs(turns) < 360.0, shorter, turns)
    turned: NDArray[np.float64] = np.cumsum(np.concatenate([degrees[:1], turns]))
    return turned


def _headings(place: NDArray[np.float64], fps: float) -> NDArray[np.float64]:
    """Return the heading of each frame of a path towards the next; the first frame faces ahead."""
    moved = np.diff(place, axis=0)
    yaw = np.zeros(len(place))
    for frame, (x, z) in enumerate(moved):
        yaw[frame + 1] = math.atan2(x, z) if math.hypot(x, z) * fps > _SLOW else yaw[frame]
    return np.unwrap(yaw)
