"""Known frames for an exported motion predictor, of a moving rig or an engine's pose: numpy alone.

`motionkit export --to numpy` and `--to onnx` copy this file beside ``legend.json``, which it reads.

    body = Body.open("folder")
    known = body.of_rig(*read_bvh("walk.bvh"))                         # of bvh_file.py beside it
    known = body.of_pose(rotations, root, fps=60, names=names, axes="unity")
    predicted = predictor.predict(*known, frames=60)                   # predictor.py, of --to numpy
    rows = body.rows(*known)                                           # what the networks of --to onnx read

Inside, metres, right-handed, Y up; a body faces +Z and +X is to its left. Faults are ``ValueError``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Known = tuple[Array, Array, Array, Array]
"""Rotations ``[T, J, 3, 3]``, steps ``[T, 3]``, heights ``[T]`` and contacts ``[T, 2]`` as ``legend.json`` says."""

AXES: Mapping[str, Array] = {
    "y-up": np.eye(3),
    "z-up": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "unity": np.diag([-1.0, 1, 1]),
    "unreal": np.array([[0.0, -1, 0], [0, 0, 1], [1, 0, 0]]),
}
"""Columns: the axes of a source in those used inside. Unity: x right, y up, z forward; Unreal: x forward, y right, z
up; both are left-handed."""

_UNITS = (1.0, 0.1, 0.0254 / 0.45, 0.0254, 0.01, 0.001)
"""Metres per unit of files: m, dm, that of CMU's ASF files, inch, cm, mm."""

_PERSON_LEG = 0.82
_FLAT = 1e-3
"""Horizontal length of the line across a body, below which it lies on its side and its root tells where it faces."""


class Body:
    """The body that a predictor was trained for: its joints in the order of all arrays, as ``legend.json`` has them.

    `past` known frames are needed at least; all that it reads are `reach`.
    """

    def __init__(self, legend: Mapping[str, Any]) -> None:
        self.names, self.parents = tuple(legend["joints"]), tuple(legend["parents"])
        self.offsets = np.array(legend["offsets"], float)
        self.fps, self.past, self.reach = float(legend["fps"]), int(legend["past"]), int(legend["reach"])
        self._roles = {role: str(joint) for role, joint in legend["roles"].items()}

    @classmethod
    def open(cls, folder: str | Path) -> Body:
        """Read ``legend.json`` from a folder."""
        return cls(json.loads((Path(folder) / "legend.json").read_text(encoding="utf-8")))

    def of_pose(
        self,
        rotations: ArrayLike,
        root: ArrayLike,
        *,
        fps: float,
        names: Sequence[str] | None = None,
        contacts: ArrayLike | None = None,
        offsets: ArrayLike | None = None,
        axes: str = "y-up",
        metres: float = 1.0,
    ) -> Known:
        """Return known frames of a pose over time.

        Args:
            rotations: Of each joint relative to its parent, of the root (the predictor's first joint) in the world:
                ``[T, N, 4]`` quaternions w, x, y, z, ``[T, N, 6]`` first two columns of the matrix, one after the
                other, or ``[T, N, 3, 3]`` matrices; the identity is the pose in which bones are `offsets`.
            root: ``[T, 3]`` its place in the world; the floor is at 0.
            fps: Frames per second; they are brought to the predictor's.
            names: The N joints; those that the predictor does not know are left out. None: the predictor's.
            contacts: ``[T, 2]`` how much left and right foot stand, 0 to 1; None measures them by height and speed.
            offsets: ``[N, 3]`` from the parent joint, of the body that moves; None: of the body that trained.
            axes: A key of `AXES`: those of all that is given.
            metres: Metres per unit of `root` and `offsets`.
        """
        names = self.names if names is None else tuple(names)
        turn, order = _axes(axes), self._order(names)
        values = np.asarray(rotations, float)
        if values.ndim < 3 or values.shape[1] != len(names) or not len(values):
            raise ValueError(f"rotations of shape {values.shape} are not frames of {len(names)} joints")
        local = turn @ _matrices(values[:, order]) @ turn.T
        place = np.asarray(root, float)
        if place.shape != (len(values), 3):
            raise ValueError(f"a root of shape {place.shape} is not a place in each of {len(values)} frames")
        bones = self.offsets
        if offsets is not None:
            given = np.asarray(offsets, float)
            if given.shape != (len(names), 3):
                raise ValueError(f"offsets of shape {given.shape} are not those of {len(names)} joints")
            bones = given[order] @ turn.T * metres
        translations = np.repeat(bones[None], len(values), axis=0)
        translations[:, 0] = place @ turn.T * metres
        stands = None if contacts is None else np.asarray(contacts, float)
        if stands is not None and stands.shape != (len(values), 2):
            raise ValueError(f"contacts of shape {stands.shape} are not two in each of {len(values)} frames")
        return self._known(self.names, self.parents, local, translations, fps, stands)

    def of_rig(
        self,
        names: Sequence[str],  # the N joints, with end sites called ``<parent> End``
        parents: Sequence[int],  # parent of each joint, -1 for the root; a parent comes before its children
        offsets: Array,  # [N, 3] from the parent at rest
        rotations: Array,  # [T, N, 3, 3] relative to the parent, the root's to the world
        translations: Array,  # [T, N, 3] from the parent, the root's from the origin
        fps: float,  # frames per second
        *,
        axes: str = "y-up",  # a key of `AXES`
        metres: float | None = None,  # metres per unit; None: the unit in which the legs are nearest to a person's
    ) -> Known:
        """Return known frames of a moving rig, such as `read_bvh` returns; it may have more joints than needed."""
        order, turn = self._order(names), _axes(axes)
        for joint, parent in zip(order, self.parents, strict=True):
            above = "" if parents[joint] < 0 else names[parents[joint]]
            if above != ("" if parent < 0 else self.names[parent]):
                raise ValueError(f"{names[joint]} hangs on {above or 'nothing'}; the predictor's skeleton is another")
        if metres is None:
            metres = self._unit(names, parents, offsets)
        return self._known(names, parents, turn @ rotations @ turn.T, translations @ turn.T * metres, fps, None)

    def rows(self, rotations: Array, steps: Array, heights: Array, contacts: Array) -> Array:
        """Return frames as rows ``[T, D]`` float32, the columns of ``legend.json``."""
        columns = rotations[..., :2].swapaxes(-1, -2).reshape(len(rotations), -1)
        parts = [columns, steps * self.fps, heights[:, None], contacts]
        return np.concatenate(parts, axis=-1).astype(np.float32)

    def frames(self, rows: Array) -> Known:
        """Undo `rows`."""
        six = 6 * len(self.names)
        rotations = _matrices(rows[:, :six].reshape(len(rows), -1, 6).astype(float))
        return rotations, rows[:, six : six + 3] / self.fps, rows[:, six + 3], rows[:, -2:]

    def _order(self, names: Sequence[str]) -> list[int]:
        if missing := [name for name in self.names if name not in names]:
            raise ValueError(f"joints are missing: {', '.join(missing)}; there are {', '.join(names)}")
        return [list(names).index(name) for name in self.names]

    def _unit(self, names: Sequence[str], parents: Sequence[int], offsets: Array) -> float:
        legs = []
        for side in ("left", "right"):
            if f"{side} hip" in self._roles and f"{side} ankle" in self._roles:
                hip, joint = (names.index(self._roles[f"{side} {role}"]) for role in ("hip", "ankle"))
                leg = 0.0
                while joint not in (hip, -1):
                    leg, joint = leg + float(np.linalg.norm(offsets[joint])), parents[joint]
                legs.append(leg)
        if not legs or min(legs) <= 0:
            raise ValueError("the unit of the file is not known: give metres, such as 0.01 for centimetres")
        leg = sum(legs) / len(legs)
        return min(_UNITS, key=lambda unit: abs(math.log(leg * unit / _PERSON_LEG)))

    def _known(
        self,
        names: Sequence[str],
        parents: Sequence[int],
        rotations: Array,
        translations: Array,
        fps: float,
        contacts: Array | None,
    ) -> Known:
        if not (math.isfinite(fps) and 0.1 <= fps <= 10_000):
            raise ValueError(f"{fps} frames per second: a motion has 0.1 to 10000")
        stands = np.zeros((len(rotations), 0)) if contacts is None else contacts
        for name, values in (("rotations", rotations), ("places", translations), ("contacts", stands)):
            if not np.isfinite(values).all():
                raise ValueError(f"{name} have values that are not finite")
        rotations, translations, stands = _resampled(rotations, translations, stands, fps, self.fps)
        world, places = _forward(parents, rotations, translations)
        yaw = self._facing(names, world, places)
        root, cos, sin = world[:, 0], np.cos(yaw), np.sin(yaw)
        moved = np.diff(places[:, 0], axis=0)
        x, z = moved[:, 0] * cos[:-1] - moved[:, 2] * sin[:-1], moved[:, 2] * cos[:-1] + moved[:, 0] * sin[:-1]
        steps = np.stack([x, z, np.diff(yaw)], axis=-1)
        # The step to the first frame is not known: it is that to the second.
        steps = np.concatenate([steps[:1] if len(steps) else np.zeros((1, 3)), steps])
        local = rotations[:, self._order(names)].copy()
        zero, ones = np.zeros_like(yaw), np.ones_like(yaw)
        back = np.stack([cos, zero, -sin, zero, ones, zero, sin, zero, cos], axis=-1).reshape(-1, 3, 3)
        local[:, 0] = back @ root
        if contacts is None:
            stands = self._contacts(names, parents, places)
        return local, steps, places[:, 0, 1], stands

    def _facing(self, names: Sequence[str], world: Array, places: Array) -> Array:
        """Return the heading ``[T]``: at right angles to the line from right to left hip and shoulder."""
        root = world[:, 0]
        yaw = np.arctan2(root[:, 0, 2] - root[:, 2, 0], root[:, 0, 0] + root[:, 2, 2])
        across = np.zeros_like(places[:, 0])
        for role in ("hip", "shoulder"):
            if f"left {role}" in self._roles and f"right {role}" in self._roles:
                left, right = (places[:, names.index(self._roles[f"{side} {role}"])] for side in ("left", "right"))
                line = left - right
                across += line / np.maximum(np.linalg.norm(line, axis=-1, keepdims=True), 1e-12)
        known = np.hypot(across[:, 0], across[:, 2]) >= _FLAT
        return np.unwrap(np.where(known, np.arctan2(-across[:, 2], across[:, 0]), yaw))

    def _contacts(self, names: Sequence[str], parents: Sequence[int], places: Array) -> Array:
        """Return how much each foot stands ``[T, 2]``: the score of its best joint; 0.5 if no feet are known."""
        feet = []
        for side in ("left", "right"):
            if f"{side} ankle" not in self._roles:
                return np.full((len(places), 2), 0.5)
            ankle = names.index(self._roles[f"{side} ankle"])
            below = [joint for joint, parent in enumerate(parents) if parent == ankle][:1]
            toe = self._roles.get(f"{side} toe")
            feet.append([ankle, *(below if toe is None else [names.index(toe)])])
        joints = min(len(foot) for foot in feet)
        scores = _scores(places[:, [joint for foot in feet for joint in foot[:joints]]], self.fps)
        best: Array = scores.reshape(len(places), 2, joints).max(-1)
        return best


def _axes(name: str) -> Array:
    if name not in AXES:
        raise ValueError(f"there are no axes {name!r}; known: {', '.join(AXES)}")
    return AXES[name]


def _matrices(values: Array) -> Array:
    """Return matrices ``[..., 3, 3]`` of quaternions ``[..., 4]``, 6D rotations ``[..., 6]`` or matrices."""
    if values.shape[-2:] == (3, 3):
        return values
    if values.shape[-1] == 4:
        w, x, y, z = np.moveaxis(values / np.linalg.norm(values, axis=-1, keepdims=True), -1, 0)
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    if values.shape[-1] == 6:
        first = values[..., :3] / np.linalg.norm(values[..., :3], axis=-1, keepdims=True)
        second = values[..., 3:] - (first * values[..., 3:]).sum(-1, keepdims=True) * first
        second = second / np.linalg.norm(second, axis=-1, keepdims=True)
        return np.stack([first, second, np.cross(first, second)], axis=-1)
    raise ValueError(
        f"rotations with {values.shape[-1]} numbers are neither quaternions (4), 6D (6) nor matrices (3, 3)"
    )


def _forward(parents: Sequence[int], rotations: Array, translations: Array) -> tuple[Array, Array]:
    """Return rotations and places of all joints in the world."""
    world, places = rotations.copy(), translations.copy()
    for joint, parent in enumerate(parents):
        if parent >= 0:
            world[:, joint] = world[:, parent] @ rotations[:, joint]
            places[:, joint] = places[:, parent] + np.einsum("tij,tj->ti", world[:, parent], translations[:, joint])
    return world, places


def _resampled(
    rotations: Array, translations: Array, contacts: Array, source: float, target: float
) -> tuple[Array, Array, Array]:
    """Return frames at another rate: rotations along the shortest arc, everything else linearly."""
    if source == target:
        return rotations, translations, contacts
    frames = len(rotations)
    place = np.arange(int((frames - 1) * target / source + 1e-6) + 1) * (source / target)
    before = np.minimum(np.floor(place + 1e-6).astype(int), frames - 1)
    part = place - before
    part[np.abs(part) < 1e-6] = 0.0
    after = np.minimum(before + 1, frames - 1)
    start = rotations[before]
    turn = start.swapaxes(-1, -2) @ rotations[after]
    rotations = start @ _part_of(turn, part[:, None])
    share = part[:, None, None]
    translations = translations[before] * (1 - share) + translations[after] * share
    contacts = contacts[before] * (1 - share[..., 0]) + contacts[after] * share[..., 0]
    return rotations, translations, contacts


def _part_of(turns: Array, part: Array) -> Array:
    """Return a part ``[...]`` of turns ``[..., 3, 3]`` about their own axes (Rodrigues)."""
    skew = turns - turns.swapaxes(-1, -2)
    axis = np.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], axis=-1)
    sine = np.linalg.norm(axis, axis=-1)  # twice the sine
    angle = np.arctan2(sine, np.trace(turns, axis1=-2, axis2=-1) - 1) * part
    cross = skew / np.maximum(sine, 1e-12)[..., None, None]
    small = np.sin(angle)[..., None, None] * cross + (1 - np.cos(angle))[..., None, None] * (cross @ cross)
    return cast(Array, np.eye(3) + small)


def _scores(points: Array, fps: float) -> Array:
    """Return how much points ``[T, 2 P, 3]`` of two feet stand, the geometric mean of three logistic functions."""
    frames = len(points)
    reach, place = max(1, round(fps / 60)), np.arange(frames)
    before, after = np.maximum(place - reach, 0), np.minimum(place + reach, frames - 1)
    seconds = np.maximum((after - before) / fps, 1e-9)
    velocity = (points[after] - points[before]) / seconds[:, None, None]
    distance = np.maximum(points[..., 1] - _ground(points[..., 1], np.linalg.norm(velocity, axis=-1), fps), 0.0)
    horizontal = np.hypot(velocity[..., 0], velocity[..., 2])
    logs = -np.logaddexp(0, -2.0 * (0.5 - 100 * distance))
    logs -= np.logaddexp(0, -0.5 * (40.0 - 100 * np.abs(velocity[..., 1])))
    logs -= np.logaddexp(0, -0.2 * (96.2 - 100 * horizontal))
    return cast(Array, np.exp(logs / 3))


def _ground(heights: Array, speeds: Array, fps: float) -> Array:
    """Return the height at which each point stands ``[T, 2 P]``: within a second around, or in the whole motion."""
    still, half = speeds < 0.962 / 4, heights.shape[1] // 2
    lowest = np.array([_standing(heights[:, k], still[:, k]) for k in range(heights.shape[1])])
    other = np.roll(lowest, half)
    lowest = np.where(lowest > other + 0.05, other, lowest)
    step, reach = max(1, round(fps / 10)), max(1, round(fps))
    around = np.full_like(heights, np.nan)
    for point in range(heights.shape[1]):
        known = np.where(still[:, point], heights[:, point], np.nan)
        for first in range(0, len(heights), step):
            near = known[max(0, first - reach) : first + reach + 1]
            near = near[~np.isnan(near)]
            if len(near):
                around[first : first + step, point] = _level(near)
    return np.where(around < lowest + 0.06, around, lowest)  # NaN: not below


def _standing(height: Array, still: Array) -> float:
    return _level(height[still] if still.sum() >= 0.05 * len(height) else height)


def _level(height: Array) -> float:
    """Return the 80th percentile of the heights up to 3 cm above the 10th percentile."""
    return float(np.quantile(height[height <= np.quantile(height, 0.1) + 0.03], 0.8))
