"""A motion predictor without torch: numpy and safetensors alone. `motionkit export --to numpy` copies this file.

    predictor = Predictor.open("folder")
    rotations, steps, heights, contacts = predictor.predict(rotations, steps, heights, contacts, frames=60)

Conventions: rotations are relative to the parent joint, those of the root (joint 0) to the heading. A step is the way
of the root from the frame before, seen in that frame's heading: metres to its left (x) and ahead (z), and the turn of
the heading in radians. Metres, Y up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Motion = tuple[Array, Array, Array, Array]
"""Rotations ``[T, J, 3, 3]``, steps ``[T, 3]``, heights ``[T]`` and contacts ``[T, 2]``."""

_ROOT, _FEET, _SPEED = 4, 2, 8.0
_AGAIN = 0.1
"""Seconds after which the heads go on from their joined motion, once the first shot is over."""

_HELD, _LEVEL = 0.3, 0.01
"""The part of its way along the ground that a foot which stands is kept from, and by how many metres it must be lower
than the other to count e times as much."""

_NEARER, _LONGER, _CURVE, _MOST = 3.0, 0.25, 0.3, 0.02
"""How the root is brought nearer to a path in each frame: by this share of what it is off per second, at most by this
share of its step, and by at most so many radians for each metre of its step. Feet and path together move a root by at
most so many metres a frame."""

_ASTRAY = 0.5
"""Metres from a path at which feet do not keep the root any more, nearer to it evenly more."""


class Predictor:
    """Predicts the frames that follow, for one motion at a time.

    Args:
        document: Content of policy.json.
        tensors: Content of model.safetensors.

    Attributes:
        names: Joint names.
        fps: Frames per second.
        past: Known frames that it reads at least.
    """

    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
        settings = document["settings"]
        self.names, self.fps = tuple(document["names"]), float(document["fps"])
        lags = tuple(max(1, round(seconds * self.fps)) for seconds in settings["lags"])
        ahead = tuple(max(1, round(seconds * self.fps)) for seconds in settings["ahead"])
        self.past = max(lags) + 1
        self._ahead = np.array(ahead) if settings["command"] != "none" else None
        common = len(self.names), self.fps, lags, int(settings["heads"]), int(settings["window"])
        self._share = float(settings["shot_share"])
        parts = {name: _part(tensors, f"{name}.") for name in ("delta", "shot", "encoder")}
        encoder = _Encoder(parts["encoder"], int(document["encoder"]["history"])) if parts["encoder"] else None
        self._delta = _Delta(parts["delta"], encoder, *common) if parts["delta"] else None
        self._shot = _Shot(parts["shot"], encoder, *common) if parts["shot"] else None
        self.past = max(self.past, 0 if encoder is None else max(2, encoder.history) + 1)
        self._reach = max(self.past, int(settings["window"]))
        feet = document.get("feet")  # none: the joints' names did not tell
        self._standing = None if feet is None else _Standing(document["offsets"], document["parents"], feet)

    @classmethod
    def open(cls, folder: str | Path) -> Predictor:
        """Read policy.json and model.safetensors from a folder."""
        from safetensors.numpy import load_file

        document = json.loads((Path(folder) / "policy.json").read_text(encoding="utf-8"))
        return cls(document, load_file(Path(folder) / "model.safetensors"))

    def predict(
        self,
        rotations: Array,
        steps: Array,
        heights: Array,
        contacts: Array,
        *,
        frames: int,
        path: Array | None = None,
    ) -> Motion:
        """Predict the frames that follow.

        Args:
            rotations: ``[P, J, 3, 3]``, P at least `past`.
            steps: ``[P, 3]``.
            heights: ``[P]``.
            contacts: ``[P, 2]``.
            frames: How many frames to predict.
            path: ``[F, 3]`` steps of the path that the root is asked to follow.
        """
        rows = _pack(rotations, steps, heights, contacts, self.fps)
        rotation = rotations[-1].astype(np.float32)  # in float64 each product would copy its weights to float64 first
        course = None if path is None or self._ahead is None else _Course(path, self._ahead)
        again, made = max(1, round(_AGAIN * self.fps)), 0
        first = again if self._shot is None else self._shot.frames
        parts: list[Motion] = []
        while made < frames:
            part = self._joined(rows, rotation, min(again if made else first, frames - made), course)
            pull = None if self._standing is None or not made else self._standing.pull(rotation, rows[-1], part)
            if course is not None or pull is not None:
                part = (part[0], _steered(part[1], pull, course, self.fps), *part[2:])
            if course is not None:
                course = course.after(part[1])
            made += len(part[0])
            rows, rotation = np.concatenate([rows, _pack(*part, self.fps)])[-self._reach :], part[0][-1]
            parts.append(part)
        return cast(Motion, tuple(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _joined(self, rows: Array, rotation: Array, frames: int, course: _Course | None) -> Motion:
        heads = [head for head in (self._delta, self._shot) if head is not None]
        found = [head.run(rows, rotation, frames, course) for head in heads]
        if len(found) == 1:
            return found[0]
        (turned, *rest), (shot, *others) = found
        six = (turned + self._share * (shot - turned))[..., :2]
        others = [one + self._share * (other - one) for one, other in zip(rest, others, strict=True)]
        return cast(Motion, (_orthonormal(six[..., 0], six[..., 1]), *others))


class _Course:
    """Where a path leads from where the root stands."""

    def __init__(self, path: Array, ahead: NDArray[np.int64]) -> None:
        steps = np.concatenate([path, np.repeat(path[-1:], int(ahead.max()), axis=0)])
        place, yaw = _follow(steps)
        self._place, self._yaw = np.concatenate([np.zeros((1, 2)), place]), np.concatenate([np.zeros(1), yaw])
        self._ahead = ahead
        self._start: tuple[Array, float, int] = np.zeros(2), 0.0, 0

    def after(self, steps: Array) -> _Course:
        """Return the same path for a run that begins after steps of the root, wherever they led."""
        ways, turns = _follow(steps)
        place, yaw = self._from_start(ways[-1], float(turns[-1]))
        later = copy(self)
        later._start = place, yaw, self._start[2] + len(steps)
        return later

    def at(self, place: Array, yaw: float, frame: int) -> Array:
        x, z, turn = self._seen(place, yaw, frame + self._ahead)
        points = np.stack([x, z, np.sin(turn), np.cos(turn)], axis=-1)
        return np.append(points.ravel(), 1.0).astype(np.float32)

    def missed(self, place: Array, yaw: float, frame: int) -> Array:
        """Return the step ``[3]`` from a root to where the path is after `frame` steps."""
        return np.concatenate(self._seen(place, yaw, np.array([frame])))

    def _seen(self, place: Array, yaw: float, frames: Array) -> tuple[Array, Array, Array]:
        place, yaw = self._from_start(place, yaw)
        rows = np.minimum(self._start[2] + frames, len(self._yaw) - 1)
        x, z = (self._place[rows] - place).T
        cos, sin = math.cos(yaw), math.sin(yaw)
        return x * cos - z * sin, z * cos + x * sin, self._yaw[rows] - yaw

    def _from_start(self, place: Array, yaw: float) -> tuple[Array, float]:
        start, facing, _ = self._start
        return start + _turned(place, facing), facing + yaw


class _Standing:
    """Says by how much the steps of a root must change so that the foot that stands slides less."""

    def __init__(self, offsets: Sequence[Sequence[float]], parents: Sequence[int], feet: Sequence[int]) -> None:
        self._legs: list[list[tuple[int, NDArray[np.float32]]]] = []
        for foot in feet:  # from below the root down to the foot: the joint above, and the way to the one below
            leg, joint = [], foot
            while joint > 0:
                leg.append((parents[joint], np.asarray(offsets[joint], np.float32)))
                joint = parents[joint]
            self._legs.append(leg[::-1])

    def pull(self, rotation: Array, row: Array, part: Motion) -> Array:
        """Return what to add to the steps of a part, ``[T, 2]`` metres.

        Args:
            rotation: ``[J, 3, 3]`` of the frame before.
            row: The same frame as `_pack` makes it.
            part: The frames.
        """
        rotations, steps, _, contacts = part
        rotations = np.concatenate([rotation[None], rotations])
        feet = np.stack([self._place(rotations, leg) for leg in self._legs], axis=1)  # [T + 1, 2, 3]
        cos, sin = np.cos(steps[:, 2, None]), np.sin(steps[:, 2, None])
        x, z = feet[1:, :, 0], feet[1:, :, 2]
        # A root that goes this way leaves the foot where it is.
        way = np.stack([feet[:-1, :, 0] - (x * cos + z * sin), feet[:-1, :, 2] - (z * cos - x * sin)], axis=-1)
        heights = feet[1:, :, 1] + feet[:-1, :, 1]
        lower = np.exp((heights.min(-1, keepdims=True) - heights) / (2 * _LEVEL))
        before = np.concatenate([row[None, -_FEET:], contacts[:-1]])
        stands = _HELD * lower / lower.sum(-1, keepdims=True) * np.minimum(contacts, before)
        return cast(Array, (stands[..., None] * (way - steps[:, None, :2])).sum(1))

    def _place(self, rotations: Array, leg: Sequence[tuple[int, NDArray[np.float32]]]) -> Array:
        turned, place = rotations[:, 0], 0.0
        for joint, bone in leg:
            turned = turned if joint == 0 else turned @ rotations[:, joint]
            place = place + turned @ bone
        return cast(Array, place)


class _Encoder:
    """The soft period of the last of some frames."""

    def __init__(self, tensors: Mapping[str, Array], history: int) -> None:
        self._t, self.history = tensors, history
        self._layers = sorted(
            (name.removesuffix(".weight") for name in tensors if name.startswith("body.") and name.endswith(".weight")),
            key=lambda name: int(name.rpartition(".")[2]),
        )

    def period(self, rows: Array, joints: int, fps: float) -> Array:
        """Return ``[4]`` for ``[T, D]`` rows as `_pack` makes them, the newest last."""
        recent = rows[-max(2, self.history) :]
        six = recent[:, : 6 * joints].reshape(len(recent), joints, 2, 3).swapaxes(-1, -2)
        turned = _orthonormal(six[-2:, ..., 0], six[-2:, ..., 1])
        velocity = _log(turned[1] @ turned[0].swapaxes(-1, -2)) * fps
        poses = recent[::-1][: self.history, : 6 * joints]
        at = _FEET + 3 * joints
        mean, std = (
            np.concatenate([values[:at], np.tile(values[at:], self.history)])
            for values in (self._t["mean"], self._t["std"])
        )
        read = np.concatenate([recent[-1, -_FEET:], velocity.ravel(), poses.ravel()])
        hidden = np.clip((read - mean) / std, -10, 10)
        for name in self._layers:
            hidden = _gelu(self._t[f"{name}.weight"] @ hidden + self._t[f"{name}.bias"])
        said: Array = np.tanh(self._t["period_head.weight"] @ hidden + self._t["period_head.bias"])
        return said


class _Head:
    """What both heads read."""

    def __init__(
        self,
        tensors: Mapping[str, Array],
        encoder: _Encoder | None,
        joints: int,
        fps: float,
        lags: Sequence[int],
        heads: int,
        window: int,
    ) -> None:
        self._encoder = encoder
        self._t, self._joints, self._fps, self._heads, self._window = tensors, joints, fps, heads, window
        self._lags = np.array(lags)
        self._weights = (_SPEED * (self._lags / fps * 30.0) ** -0.75).astype(np.float32)[:, None]
        self._six = 6 * joints
        self._layers = [name for name in tensors if name.startswith("trunk.layers.") and name.endswith(".weight")]

    def keys(self, rows: Array) -> tuple[Array, Array] | None:
        if "trunk.attention.key.weight" not in self._t:
            return None
        centred = rows - self._t["mean"]
        return self._linear(centred, "trunk.attention.key"), self._linear(centred, "trunk.attention.value")

    def features(self, rows: Array, memory: tuple[Array, Array] | None, condition: Array | None) -> Array:
        """Return the hidden state after the last of some rows."""
        six, now, mean = self._six, rows[-1], self._t["mean"]
        earlier = rows[-1 - self._lags]
        late = (now[:six] - earlier[:, :six]) * self._weights
        centred, before = now - mean, earlier[len(self._lags) // 2, six:] - mean[six:]
        read = np.concatenate([centred[:six], late.ravel(), 0.5 * centred[six:], 0.5 * before]) / self._t["scale"]
        hidden = _gelu(
            _normed(self._linear(read, "trunk.read"), self._t["trunk.norm.weight"], self._t["trunk.norm.bias"])
        )
        if self._encoder is not None:
            hidden = hidden + self._linear(self._encoder.period(rows, self._joints, self._fps), "trunk.period")
        if memory is not None:
            hidden = hidden + self._attended(hidden, *memory)
        if "trunk.film.linear.weight" in self._t:
            if condition is None:
                condition = np.zeros(self._t["trunk.film.linear.weight"].shape[1], np.float32)
            gain, shift = np.split(np.tanh(self._linear(condition, "trunk.film.linear")), 2)
            hidden = hidden * (1 + 0.5 * gain) + 0.5 * shift
        for layer in range(len(self._layers)):
            hidden = hidden + _gelu(self._linear(hidden, f"trunk.layers.{layer}"))
        return hidden

    def _attended(self, hidden: Array, keys: Array, values: Array) -> Array:
        keys, values = keys[-self._window :], values[-self._window :]
        asked = self._linear(hidden, "trunk.attention.query").reshape(self._heads, -1)
        told = keys.reshape(len(keys), self._heads, -1)
        scores = np.einsum("thd,hd->th", told, asked) / math.sqrt(asked.shape[1])
        scores = scores + self._t["trunk.attention.age"][self._window - len(keys) :]
        weights = np.exp(scores - scores.max(0))
        weights = weights / weights.sum(0)
        read = np.einsum("th,thd->hd", weights, values.reshape(told.shape)).ravel()
        return self._linear(read - values[-1], "trunk.attention.out")

    def _linear(self, values: Array, name: str) -> Array:
        found: Array = values @ self._t[f"{name}.weight"].T + self._t[f"{name}.bias"]
        return found


class _Delta(_Head):
    """Frame by frame."""

    def run(self, rows: Array, rotation: Array, frames: int, course: _Course | None) -> Motion:
        memory = self.keys(rows[-self._window :])
        reach = max(int(self._lags.max()) + 1, 2 if self._encoder is None else self._encoder.history)
        rows = rows[-reach:]
        place, yaw = np.zeros(2), 0.0
        made: list[tuple[Array, Array, Array, Array]] = []
        for frame in range(frames):
            condition = None if course is None else course.at(place, yaw, frame)
            rotation, row = self._next(rows, rotation, memory, condition)
            step = row[self._six : self._six + 3] / self._fps
            made.append((rotation, step, row[self._six + 3], row[-_FEET:]))
            place, yaw = place + _turned(step[:2], yaw), yaw + float(step[2])
            rows = np.concatenate([rows[1:], row[None]])
            if memory is not None and (new := self.keys(row[None])) is not None:
                memory = self._kept(memory[0], new[0]), self._kept(memory[1], new[1])
        return cast(Motion, tuple(np.stack(parts) for parts in zip(*made, strict=True)))

    def _kept(self, old: Array, new: Array) -> Array:
        return np.concatenate([old, new])[-self._window :]

    def _next(
        self, rows: Array, rotation: Array, memory: tuple[Array, Array] | None, condition: Array | None
    ) -> tuple[Array, Array]:
        said = self._linear(self.features(rows, memory, condition), "head")
        six = (said[: self._six] * self._t["turn_std"]).reshape(-1, 6)
        rest = np.array([1, 0, 0, 0, 1, 0], np.float32)
        turn = _orthonormal((six + rest)[:, :3], (six + rest)[:, 3:])
        rotation = turn @ rotation
        now = rows[-1]
        root = now[self._six : self._six + _ROOT] + said[self._six : self._six + _ROOT] * self._t["root_std"]
        contacts = _after(now[-_FEET:], said[-_FEET:])
        return rotation, np.concatenate([_six(rotation), root, contacts])


class _Shot(_Head):
    """All frames at once."""

    def __init__(self, tensors: Mapping[str, Array], encoder: _Encoder | None, *common: Any) -> None:
        super().__init__(tensors, encoder, *common)
        self._few: dict[int, tuple[Array, Array]] = {}

    @property
    def frames(self) -> int:
        """Frames of a shot."""
        return len(self._t["basis"])

    def _head(self, frames: int) -> tuple[Array, Array]:
        """Return the head and the cosines of a few frames in one, ``[F D, width]`` and ``[F D]``; made once."""
        if frames not in self._few:
            scale, basis = self._t["way_std"], self._t["basis"][:frames]
            weight = self._t["head.weight"].reshape(*scale.shape, -1) * scale[..., None]
            bias = self._t["head.bias"].reshape(scale.shape) * scale + self._t["way_mean"]
            whole = np.tensordot(basis, weight, 1).reshape(-1, weight.shape[-1])
            self._few[frames] = whole, (basis @ bias).ravel()
        return self._few[frames]

    def run(self, rows: Array, rotation: Array, frames: int, course: _Course | None) -> Motion:
        condition = None if course is None else course.at(np.zeros(2), 0.0, 0)
        hidden = self.features(rows, self.keys(rows[-self._window :]), condition)
        scale, now = self._t["way_std"], rows[-1]
        if frames < len(scale):  # fewer than there are cosines
            weight, bias = self._head(frames)
            way = (weight @ hidden + bias).reshape(frames, -1)
        else:
            said = self._linear(hidden, "head").reshape(scale.shape) * scale + self._t["way_mean"]
            way = self._t["basis"][:frames] @ said
        six = _six(rotation) + way[:, : self._six]
        six = six.reshape(len(way), -1, 6)
        root = now[self._six : self._six + _ROOT] + way[:, self._six : self._six + _ROOT]
        contacts = _after(now[-_FEET:], way[:, -_FEET:])
        return _orthonormal(six[..., :3], six[..., 3:]), root[:, :3] / self._fps, root[:, 3], contacts


def _part(tensors: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): np.ascontiguousarray(values, np.float32)
        for name, values in tensors.items()
        if name.startswith(prefix)
    }


def _pack(rotations: Array, steps: Array, heights: Array, contacts: Array, fps: float) -> Array:
    six = _six(rotations)
    return np.concatenate([six, steps * fps, heights[:, None], contacts], axis=-1).astype(np.float32)


def _six(rotations: Array) -> Array:
    """Return the first two columns of each joint's matrix, ``[..., 6 J]``."""
    columns = rotations[..., :2].swapaxes(-1, -2)
    return columns.reshape(*rotations.shape[:-3], -1)


def _orthonormal(first: Array, second: Array) -> Array:
    """Return rotations ``[..., 3, 3]`` by Gram-Schmidt of two columns ``[..., 3]``."""
    first = first / np.linalg.norm(first, axis=-1, keepdims=True)
    second = second - (first * second).sum(-1, keepdims=True) * first
    second = second / np.linalg.norm(second, axis=-1, keepdims=True)
    (a, b, c), (u, v, w) = np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)
    found = np.empty((*first.shape, 3), first.dtype)
    found[..., 0], found[..., 1] = first, second
    # np.cross would take as long as all the rest of this function.
    found[..., 0, 2], found[..., 1, 2], found[..., 2, 2] = b * w - c * v, c * u - a * w, a * v - b * u
    return found


def _log(rotations: Array) -> Array:
    """Return rotation vectors ``[..., 3]`` of matrices ``[..., 3, 3]`` that turn by less than half a turn."""
    axis = np.stack([
        rotations[..., 2, 1] - rotations[..., 1, 2],
        rotations[..., 0, 2] - rotations[..., 2, 0],
        rotations[..., 1, 0] - rotations[..., 0, 1],
    ], axis=-1)  # fmt: skip
    sine = np.linalg.norm(axis, axis=-1, keepdims=True)  # twice the sine
    angle = np.arctan2(sine, np.trace(rotations, axis1=-2, axis2=-1)[..., None] - 1)
    found: Array = axis * np.where(sine > 1e-6, angle / np.maximum(sine, 1e-6), 0.5)
    return found


def _follow(steps: Array) -> tuple[Array, Array]:
    """Return places ``[T, 2]`` and headings ``[T]`` after each step, from the origin."""
    yaw = steps[:, 2].cumsum()
    before = np.concatenate([[0.0], yaw[:-1]])
    cos, sin = np.cos(before), np.sin(before)
    x, z = steps[:, 0] * cos + steps[:, 1] * sin, steps[:, 1] * cos - steps[:, 0] * sin
    return np.stack([x, z], axis=-1).cumsum(0), yaw


def _steered(steps: Array, pull: Array | None, course: _Course | None, fps: float) -> Array:
    """Return steps ``[T, 3]`` of a root that feet pull, and that comes nearer to its path; see `_HELD`, `_NEARER`."""
    place, yaw, found = np.zeros(2), 0.0, []
    for frame, said in enumerate(steps.astype(np.float64)):
        drawn, step = np.zeros(2) if pull is None else _at_most(pull[frame], _MOST), said
        if course is None:
            step = np.append(said[:2] + drawn, said[2])
        else:
            missed = course.missed(place, yaw, frame + 1)
            off = math.hypot(*(missed - said)[:2])
            kept = said[:2] + max(0.0, 1 - off / _ASTRAY) * drawn
            far = math.hypot(kept[0], kept[1])
            nearer = kept + _at_most(_NEARER / fps * (missed[:2] - kept), _LONGER * far)
            turn = said[2] + min(max(_NEARER / fps * (missed[2] - said[2]), -_CURVE * far), _CURVE * far)
            step = np.append(said[:2] + _at_most(nearer - said[:2], _MOST), turn)
        place, yaw = place + _turned(step[:2], yaw), yaw + float(step[2])
        found.append(step)
    return np.array(found, np.float32)


def _at_most(way: Array, most: float) -> Array:
    """Return a way ``[2]``, shortened if it is longer than `most`."""
    return way * min(1.0, most / max(1e-9, math.hypot(way[0], way[1])))


def _turned(way: Array, yaw: float) -> Array:
    """Return a way ``[2]`` of a root that faces `yaw`, as x and z."""
    cos, sin = math.cos(yaw), math.sin(yaw)
    return np.array([way[0] * cos + way[1] * sin, way[1] * cos - way[0] * sin])


def _after(before: Array, said: Array) -> Array:
    kept = np.clip(before, 0.01, 0.99)
    return cast(Array, 1 / (1 + np.exp(-(np.log(kept / (1 - kept)) + said))))


def _gelu(values: Array) -> Array:
    inner = values * (0.7978845608 + 0.0356774081 * values * values)
    return cast(Array, 0.5 * values * (1 + np.tanh(inner)))


def _normed(values: Array, weight: Array, bias: Array) -> Array:
    centred = values - values.mean()
    return cast(Array, centred / np.sqrt((centred * centred).mean() + 1e-5) * weight + bias)
