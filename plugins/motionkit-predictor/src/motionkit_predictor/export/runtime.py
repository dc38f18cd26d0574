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
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Motion = tuple[Array, Array, Array, Array]
"""Rotations ``[T, J, 3, 3]``, steps ``[T, 3]``, heights ``[T]`` and contacts ``[T, 2]``."""

_ROOT, _FEET, _SPEED = 4, 2, 8.0
_AGAIN = 0.1  # seconds after which the heads go on from their joined motion, once the first shot is over

_HELD, _LEVEL = 0.3, 0.01
"""The part of its slide that a standing foot is kept from, and the metres by which it must be lower than the other to
count e times as much."""

_NEARER, _LONGER, _CURVE, _MOST = 3.0, 0.25, 0.3, 0.02
"""How the root is brought nearer to a path in each frame: by this share of its distance per second, at most by this
share of its step, and by at most so many radians per metre of its step. Feet and path together move a root by at most
`_MOST` metres a frame."""

_ASTRAY = 0.5  # metres from a path at which feet no longer hold the root; nearer to it their hold rises linearly

_LIVELY, _POWER, _GAIN = 0.9, 2.0, 1.5
"""A run without a path is kept lively: the movement aimed at, as a share of that of the known frames; poses are
extrapolated by its ratio to the newest movement, to this power, at most by this gain."""

_ROOM = 512  # frames that are made before old ones are dropped


class Predictor:
    """Predicts the frames that follow, for one motion at a time, with policy.json and model.safetensors."""

    def __init__(self, document: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
        settings = document["settings"]
        self.names, self.fps = tuple(document["names"]), float(document["fps"])
        lags = tuple(max(1, round(seconds * self.fps)) for seconds in settings["lags"])
        ahead = tuple(max(1, round(seconds * self.fps)) for seconds in settings["ahead"])
        self.past = max(lags) + 1  # known frames that it reads at least
        self._ahead = np.array(ahead) if settings["command"] != "none" else None
        common = len(self.names), self.fps, lags, int(settings["heads"]), int(settings["window"])
        self._share, self._six = float(settings["shot_share"]), 6 * len(self.names)
        parts = {name: _part(tensors, f"{name}.") for name in ("delta", "shot", "encoder")}
        encoder = _Encoder(parts["encoder"], int(document["encoder"]["history"])) if parts["encoder"] else None
        self._delta = _Delta(parts["delta"], encoder, *common) if parts["delta"] else None
        self._shot = _Shot(parts["shot"], encoder, *common) if parts["shot"] else None
        self.past = max(self.past, 0 if encoder is None else max(2, encoder.history) + 1)
        self._reach = max(self.past, int(settings["window"]))
        fastest = document.get("fastest")  # none: it is not known
        self._fastest = None if fastest is None else float(fastest) / self.fps
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
        rotations: Array,  # [P, J, 3, 3], P at least `past`
        steps: Array,  # [P, 3]
        heights: Array,  # [P]
        contacts: Array,  # [P, 2]
        *,
        frames: int,  # how many frames to predict
        path: Array | None = None,  # [F, 3] steps of the path that the root is asked to follow
    ) -> Motion:
        """Predict the frames that follow."""
        heads = [head for head in (self._delta, self._shot) if head is not None]
        again, made = max(1, round(_AGAIN * self.fps)), 0
        first = again if self._shot is None else self._shot.frames
        recent = _Recent(_pack(rotations, steps, heights, contacts, self.fps), heads, self._reach, max(first, again))
        rotation = rotations[-1].astype(np.float32)
        stood: Array = np.asarray(contacts[-1])
        course = None if path is None or self._ahead is None else _Course(path, self._ahead, self._fastest)
        lively = recent.movement(self._six) if course is None and self._shot is not None else None
        parts: list[Motion] = []
        while made < frames:
            part = self._joined(heads, recent, rotation, min(again if made else first, frames - made), course)
            if made and lively is not None:
                part = self._livelier(part, rotation, recent, lively)
            pull = None if self._standing is None or not made else self._standing.pull(rotation, stood, part)
            if course is not None or pull is not None:
                part = (part[0], _steered(part[1], pull, course, self.fps), *part[2:])
            if course is not None:
                course.go(part[1])
            made += len(part[0])
            recent.add(_pack(*part, self.fps))
            rotation, stood = part[0][-1], part[3][-1]
            parts.append(part)
        return cast(Motion, tuple(np.concatenate(values) for values in zip(*parts, strict=True)))

    def _joined(
        self, heads: Sequence[_Head], recent: _Recent, rotation: Array, frames: int, course: _Course | None
    ) -> Motion:
        motions = [head.run(recent, rotation, frames, course) for head in heads]
        if len(motions) == 1:
            return motions[0]
        (turned, *rest), (shot, *others) = motions
        first, second = (_lerp(turned[..., column], shot[..., column], self._share) for column in (0, 1))
        others = [_lerp(value, other, self._share) for value, other in zip(rest, others, strict=True)]
        return cast(Motion, (_orthonormal(np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)), *others))

    def _livelier(self, part: Motion, rotation: Array, recent: _Recent, known: float) -> Motion:
        """Extrapolate the poses of a part from the last one if joints move less than in the known frames."""
        ratio = _LIVELY * known / max(1e-9, recent.movement(self._six))
        gain = min(max(ratio, 1.0) ** _POWER, _GAIN)
        first, second = (_lerp(rotation[..., column], part[0][..., column], gain) for column in (0, 1))
        return _orthonormal(np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)), *part[1:]


class _Recent:
    """The newest frames as rows, and keys and values of each head for them, with room for further frames."""

    def __init__(self, rows: Array, heads: Sequence[_Head], reach: int, most: int) -> None:
        rows = rows[-reach:]
        self.count, self._reach, self._most = len(rows), reach, most
        self.rows = np.empty((reach + most + _ROOM, rows.shape[1]), np.float32)
        self.memories = {head: np.empty((len(self.rows), head.memory_size), np.float32) for head in heads}
        self.rows[: self.count] = rows
        for head, memory in self.memories.items():
            head.remember(rows, memory[: self.count])

    def movement(self, six: int) -> float:
        """Return how much joints move: mean length of a frame's change in 6D, in the first `six` columns."""
        rows = self.rows[max(0, self.count - self._reach) : self.count, :six]
        change = np.diff(rows, axis=0).reshape(-1, 6)
        return float(np.sqrt(np.einsum("ij,ij->i", change, change)).mean())

    def add(self, rows: Array) -> None:
        """Append rows, and make room for the frames that a head writes next."""
        end = self.count + len(rows)
        self.rows[self.count : end] = rows
        for head, memory in self.memories.items():
            head.remember(rows, memory[self.count : end])
        self.count = end
        if end + 2 * self._most > len(self.rows):
            self.count = min(end, self._reach)
            for values in (self.rows, *self.memories.values()):
                values[: self.count] = values[end - self.count : end].copy()


class _Course:
    """A path as seen from the root."""

    def __init__(self, path: Array, ahead: NDArray[np.int64], fastest: float | None) -> None:
        steps = np.concatenate([path, np.repeat(path[-1:], int(ahead.max()), axis=0)]).astype(np.float64)
        place, yaw = _follow(steps)
        place, yaw = np.concatenate([np.zeros((1, 2)), place]), np.concatenate([np.zeros(1), yaw])
        self._points = np.column_stack([place, np.sin(yaw), np.cos(yaw)])
        self._places: list[tuple[float, float, float]] = list(zip(*place.T.tolist(), yaw.tolist(), strict=True))
        self.fastest, self._ahead = fastest, ahead
        self._most = None if fastest is None else fastest * ahead
        self._start: tuple[float, float, float, int] = 0.0, 0.0, 0.0, 0

    def go(self, steps: Array) -> None:
        """Move the start by some steps of the root."""
        here = 0.0, 0.0, 0.0
        for step in steps.tolist():
            here = _stepped(here, step)
        self._start = *self._from_start(here), self._start[3] + len(steps)

    def at(self, here: tuple[float, float, float], frame: int) -> Array:
        """Return the condition ``[4 K + 1]`` of a root at x, z and heading."""
        x, z, yaw = self._from_start(here)
        points = self._points.take(self._ahead + (self._start[3] + frame), 0, mode="clip")
        points -= (x, z, 0.0, 0.0)
        if self._most is not None:  # points out of reach are moved nearer, in their direction
            far = np.hypot(points[:, 0], points[:, 1])
            points[:, :2] *= np.minimum(1.0, self._most / np.maximum(far, 1e-9))[:, None]
        cos, sin = math.cos(yaw), math.sin(yaw)
        condition = np.ones(points.size + 1, np.float32)
        # One rotation turns x and z into the heading's frame, and sine and cosine of the path's heading as well.
        condition[:-1] = (points.reshape(-1, 2) @ np.array([[cos, sin], [-sin, cos]])).ravel()
        return condition

    def missed(self, here: tuple[float, float, float], frame: int) -> tuple[float, float, float]:
        """Return the step from a root to where the path is after `frame` steps."""
        x, z, yaw = self._from_start(here)
        there = self._places[min(self._start[3] + frame, len(self._places) - 1)]
        cos, sin = math.cos(yaw), math.sin(yaw)
        x, z = there[0] - x, there[1] - z
        return x * cos - z * sin, z * cos + x * sin, there[2] - yaw

    def _from_start(self, here: tuple[float, float, float]) -> tuple[float, float, float]:
        return _stepped(self._start[:3], here)


class _Standing:
    """Corrects the steps of the root so that the foot that stands slides less."""

    def __init__(self, offsets: Sequence[Sequence[float]], parents: Sequence[int], feet: Sequence[int]) -> None:
        self._legs: list[list[tuple[int, NDArray[np.float32]]]] = []
        for foot in feet:  # from below the root down to the foot: the joint above, and the way to the one below
            leg, joint = [], foot
            while joint > 0:
                leg.append((parents[joint], np.asarray(offsets[joint], np.float32)))
                joint = parents[joint]
            self._legs.append(leg[::-1])

    def pull(
        self,
        rotation: Array,  # [J, 3, 3] of the frame before
        stood: Array,  # [2] its contacts
        part: Motion,  # the frames
    ) -> Array:
        """Return the corrections of the steps of a part, ``[T, 2]`` metres."""
        rotations, steps, _, contacts = part
        rotations = np.concatenate([rotation[None], rotations])
        feet = np.stack([self._place(rotations, leg) for leg in self._legs], axis=1)  # [T + 1, 2, 3]
        cos, sin = np.cos(steps[:, 2, None]), np.sin(steps[:, 2, None])
        x, z = feet[1:, :, 0], feet[1:, :, 2]
        # With this step of the root the foot stays in its place.
        way = np.stack([feet[:-1, :, 0] - (x * cos + z * sin), feet[:-1, :, 2] - (z * cos - x * sin)], axis=-1)
        heights = feet[1:, :, 1] + feet[:-1, :, 1]
        lower = np.exp((heights.min(-1, keepdims=True) - heights) / (2 * _LEVEL))
        before = np.concatenate([stood[None], contacts[:-1]])
        stands = _HELD * lower / lower.sum(-1, keepdims=True) * np.minimum(contacts, before)
        return cast(Array, (stands[..., None] * (way - steps[:, None, :2])).sum(1))

    def _place(self, rotations: Array, leg: Sequence[tuple[int, NDArray[np.float32]]]) -> Array:
        turned = rotations[:, 0]
        place: Array = np.zeros(3, np.float32)
        for joint, bone in leg:
            turned = turned if joint == 0 else turned @ rotations[:, joint]
            place = place + turned @ bone
        return place


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
        six = recent[-2:, : 6 * joints].reshape(2, joints, 2, 3).transpose(2, 3, 0, 1)
        turned = _orthonormal(six[0], six[1])
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
            hidden = _gelu(0.5 * (self._t[f"{name}.weight"] @ hidden + self._t[f"{name}.bias"]))
        period: Array = np.tanh(self._t["period_head.weight"] @ hidden + self._t["period_head.bias"])
        return period


class _Head:
    """The layers that both heads share. Constant factors are folded into the weights when they are loaded."""

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
        self._t, self._joints, self._fps, self._window = tensors, joints, fps, window
        self._lags, self._six = -np.array(lags), 6 * joints
        self._reading = self._centred_reading()
        self._norm = 0.5 * tensors["trunk.norm.weight"], 0.5 * tensors["trunk.norm.bias"]
        layers = [name for name in tensors if name.startswith("trunk.layers.") and name.endswith(".weight")]
        self._layers = [self._linear(f"trunk.layers.{layer}", 0.5) for layer in range(len(layers))]
        self._film = self._linear("trunk.film.linear") if "trunk.film.linear.weight" in tensors else None
        self._period = self._linear("trunk.period") if encoder is not None else None
        self.memory_size = 0
        """Numbers that are remembered of a frame: its key and its value."""
        if "trunk.attention.key.weight" in tensors:
            self._attention(heads)

    def run(self, recent: _Recent, rotation: Array, frames: int, course: _Course | None) -> Motion:
        raise NotImplementedError

    def remember(self, rows: Array, memory: Array) -> None:
        """Write keys and values ``[T, memory_size]`` of rows."""
        if self.memory_size:
            np.matmul(rows, self._memory[0], out=memory)
            memory += self._memory[1]

    def features(self, rows: Array, memory: Array, condition: Array | None) -> Array:
        """Return the hidden state after the last of some rows, whose keys and values are given."""
        six, now = self._six, rows[-1]
        earlier = rows[self._lags - 1]
        weight, bias = self._reading
        read = np.empty(len(weight), np.float32)
        pose = now[:six]
        read[:six] = pose
        np.subtract(pose, earlier[:, :six], out=read[six : -2 * (_ROOT + _FEET)].reshape(len(earlier), six))
        root = read[-2 * (_ROOT + _FEET) :].reshape(2, -1)
        root[0], root[1] = now[six:], earlier[len(earlier) // 2, six:]
        hidden: Array = read @ weight
        hidden += bias
        hidden *= 1 / math.sqrt(float(hidden @ hidden) / len(hidden) + 1e-5)
        hidden *= self._norm[0]
        hidden += self._norm[1]
        hidden = _gelu(hidden)
        if self._encoder is not None and self._period is not None:
            hidden += self._encoder.period(rows, self._joints, self._fps) @ self._period[0] + self._period[1]
        if self.memory_size:
            hidden += self._attended(hidden, memory[-self._window :])
        if self._film is not None:
            film = self._film[1] if condition is None else condition @ self._film[0] + self._film[1]
            shift = np.tanh(film)
            shift *= 0.5
            hidden += hidden * shift[: len(hidden)]
            hidden += shift[len(hidden) :]
        for weight, bias in self._layers:
            half: Array = hidden @ weight
            half += bias
            hidden += _gelu(half)
        return hidden

    def _attended(self, hidden: Array, memory: Array) -> Array:
        heads = len(self._age)
        by_head = memory.reshape(len(memory), 2, heads, -1)
        query = (hidden @ self._query[0] + self._query[1]).reshape(heads, -1, 1)
        weights: Array = np.matmul(by_head[:, 0].swapaxes(0, 1), query)[..., 0]
        weights += self._age[:, -len(memory) :]
        weights -= np.maximum.reduce(weights, 1)[:, None]
        np.exp(weights, out=weights)
        weights /= np.add.reduce(weights, 1)[:, None]
        read = np.matmul(weights[:, None], by_head[:, 1].swapaxes(0, 1)).reshape(-1)
        read -= memory[-1, len(read) :]
        attended: Array = read @ self._out[0]
        attended += self._out[1]
        return attended

    def _centred_reading(self) -> tuple[Array, Array]:
        """Return the first layer with means, speeds and scales of its inputs folded in; its outputs have the mean 0."""
        t, six = self._t, self._six
        weight = t["trunk.read.weight"].T / t["scale"].astype(np.float64)
        weight[-2 * (_ROOT + _FEET) :] *= 0.5
        mean = np.concatenate([t["mean"][:six], np.zeros(six * len(self._lags)), np.tile(t["mean"][six:], 2)])
        bias = t["trunk.read.bias"] - mean @ weight
        speeds = _SPEED * (-self._lags / self._fps * 30.0) ** -0.75
        weight[six : -2 * (_ROOT + _FEET)] *= np.repeat(speeds, six)[:, None]
        weight, bias = weight - weight.mean(1, keepdims=True), bias - bias.mean()
        return np.ascontiguousarray(weight, np.float32), bias.astype(np.float32)

    def _attention(self, heads: int) -> None:
        """Prepare key and value as one layer, and the query in its scale."""
        key, value = (self._linear(f"trunk.attention.{name}") for name in ("key", "value"))
        weight, bias = (np.concatenate(parts, axis=-1) for parts in zip(key, value, strict=True))
        self._memory = np.ascontiguousarray(weight), (bias - self._t["mean"] @ weight).astype(np.float32)
        self.memory_size = weight.shape[1]
        width = key[0].shape[1]
        self._query = self._linear("trunk.attention.query", 1 / math.sqrt(width // heads))
        self._out = self._linear("trunk.attention.out")
        self._age = np.ascontiguousarray(self._t["trunk.attention.age"].T)

    def _linear(self, name: str, scale: float = 1.0) -> tuple[Array, Array]:
        """Return weight ``[in, out]`` and bias of a layer."""
        weight = np.ascontiguousarray((scale * self._t[f"{name}.weight"]).T, np.float32)
        return weight, (scale * self._t[f"{name}.bias"]).astype(np.float32)


class _Delta(_Head):
    """Frame by frame."""

    def __init__(self, tensors: Mapping[str, Array], encoder: _Encoder | None, *common: Any) -> None:
        super().__init__(tensors, encoder, *common)
        units = np.concatenate([tensors["turn_std"], tensors["root_std"], np.ones(_FEET)]).astype(np.float32)
        rest = np.concatenate([np.tile([1.0, 0, 0, 0, 1, 0], self._joints), np.zeros(_ROOT + _FEET)])
        weight, bias = self._linear("head")
        self._output = weight * units, (bias * units + rest).astype(np.float32)

    def run(self, recent: _Recent, rotation: Array, frames: int, course: _Course | None) -> Motion:
        begin, six = recent.count, self._six
        rows, memory = recent.rows, recent.memories[self]
        here = 0.0, 0.0, 0.0
        rotations = np.empty((frames, *rotation.shape), np.float32)
        for frame in range(frames):
            end = begin + frame
            condition = None if course is None else course.at(here, frame)
            output: Array = self.features(rows[:end], memory[:end], condition) @ self._output[0]
            output += self._output[1]
            columns = output[:six].reshape(-1, 2, 3).transpose(1, 2, 0)
            rotation = np.matmul(_orthonormal(columns[0], columns[1]), rotation, out=rotations[frame])
            row, before = rows[end], rows[end - 1]
            row[:six].reshape(-1, 2, 3)[:] = rotation[:, :, :2].swapaxes(1, 2)
            np.add(before[six:-_FEET], output[six:-_FEET], out=row[six:-_FEET])
            row[-_FEET:] = _after(before[-_FEET:], output[-_FEET:])
            if frame < frames - 1:
                self.remember(rows[end : end + 1], memory[end : end + 1])
                x, z, turn = row[six : six + 3].tolist()
                here = _stepped(here, (x / self._fps, z / self._fps, turn / self._fps))
        made = rows[begin : begin + frames]
        return rotations, made[:, six : six + 3] / self._fps, made[:, six + 3].copy(), made[:, -_FEET:].copy()


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
        """Return head and cosines of some frames as one layer, ``[width, F D]`` and ``[F, D]``, made once.

        From as many frames as cosines on, the cosines are a second product: ``[width, K D]`` and ``[K, D]``.
        """
        if frames not in self._few:
            scale, basis = self._t["way_std"], self._t["basis"][:frames]
            weight = self._t["head.weight"].reshape(*scale.shape, -1) * scale[..., None]
            bias = self._t["head.bias"].reshape(scale.shape) * scale + self._t["way_mean"]
            if frames < len(scale):
                weight, bias = np.tensordot(basis, weight, 1), basis @ bias
            self._few[frames] = np.ascontiguousarray(weight.reshape(-1, weight.shape[-1]).T, np.float32), bias
        return self._few[frames]

    def run(self, recent: _Recent, rotation: Array, frames: int, course: _Course | None) -> Motion:
        condition = None if course is None else course.at((0.0, 0.0, 0.0), 0)
        rows = recent.rows[: recent.count]
        weight, bias = self._head(frames)
        way = (self.features(rows, recent.memories[self][: recent.count], condition) @ weight).reshape(
            bias.shape
        ) + bias
        if len(way) != frames or frames >= len(self._t["way_std"]):
            way = self._t["basis"][:frames] @ way
        now, six = rows[-1], self._six
        way[:, :six] += _six(rotation)
        way[:, six:-_FEET] += now[six:-_FEET]
        columns = way[:, :six].reshape(frames, -1, 2, 3).transpose(2, 3, 0, 1)
        contacts = [_after(now[-_FEET:], change) for change in way[:, -_FEET:]]
        steps, heights = way[:, six : six + 3] / self._fps, way[:, six + 3]
        return _orthonormal(columns[0], columns[1]), steps, heights, np.array(contacts, np.float32)


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


def _lerp(first: Array, second: Array, share: float) -> Array:
    between: Array = first + share * (second - first)
    return between


def _orthonormal(first: Array, second: Array) -> Array:
    """Return rotations ``[..., 3, 3]`` by Gram-Schmidt of two columns ``[3, ...]``."""
    # One coordinate at a time: np.cross and sums over three numbers would dominate the time of a frame.
    a, b, c = first
    length = np.sqrt(a * a + b * b + c * c)
    a, b, c = a / length, b / length, c / length
    u, v, w = second
    along = a * u + b * v + c * w
    u, v, w = u - along * a, v - along * b, w - along * c
    length = np.sqrt(u * u + v * v + w * w)
    u, v, w = u / length, v / length, w / length
    matrices = np.empty((*a.shape, 3, 3), a.dtype)
    matrices[..., 0, 0], matrices[..., 1, 0], matrices[..., 2, 0] = a, b, c
    matrices[..., 0, 1], matrices[..., 1, 1], matrices[..., 2, 1] = u, v, w
    matrices[..., 0, 2], matrices[..., 1, 2], matrices[..., 2, 2] = b * w - c * v, c * u - a * w, a * v - b * u
    return matrices


def _log(rotations: Array) -> Array:
    """Return rotation vectors ``[..., 3]`` of matrices ``[..., 3, 3]`` that turn by less than half a turn."""
    axis = np.stack([
        rotations[..., 2, 1] - rotations[..., 1, 2],
        rotations[..., 0, 2] - rotations[..., 2, 0],
        rotations[..., 1, 0] - rotations[..., 0, 1],
    ], axis=-1)  # fmt: skip
    sine = np.linalg.norm(axis, axis=-1, keepdims=True)  # twice the sine
    angle = np.arctan2(sine, np.trace(rotations, axis1=-2, axis2=-1)[..., None] - 1)
    vectors: Array = axis * np.where(sine > 1e-6, angle / np.maximum(sine, 1e-6), 0.5)
    return vectors


def _follow(steps: Array) -> tuple[Array, Array]:
    """Return places ``[T, 2]`` and headings ``[T]`` after each step, from the origin."""
    yaw = steps[:, 2].cumsum()
    before = np.concatenate([[0.0], yaw[:-1]])
    cos, sin = np.cos(before), np.sin(before)
    x, z = steps[:, 0] * cos + steps[:, 1] * sin, steps[:, 1] * cos - steps[:, 0] * sin
    return np.stack([x, z], axis=-1).cumsum(0), yaw


def _steered(steps: Array, pull: Array | None, course: _Course | None, fps: float) -> Array:
    """Correct steps ``[T, 3]`` of the root by feet and path; see `_HELD`, `_NEARER`."""
    here, moved = (0.0, 0.0, 0.0), []
    pulls = [[0.0, 0.0]] * len(steps) if pull is None else pull.tolist()
    for frame, (predicted, drawn) in enumerate(zip(steps.tolist(), pulls, strict=True), 1):
        (more_x, more_z), turn = _at_most(drawn[0], drawn[1], _MOST), predicted[2]
        if course is not None:
            missed = course.missed(here, frame)
            kept = max(0.0, 1 - math.hypot(missed[0] - predicted[0], missed[1] - predicted[1]) / _ASTRAY)
            x, z = predicted[0] + kept * more_x, predicted[1] + kept * more_z
            far = math.hypot(x, z)
            left, ahead = _at_most(_NEARER / fps * (missed[0] - x), _NEARER / fps * (missed[1] - z), _LONGER * far)
            more_x, more_z = _at_most(x + left - predicted[0], z + ahead - predicted[1], _MOST)
            turn += min(max(_NEARER / fps * (missed[2] - predicted[2]), -_CURVE * far), _CURVE * far)
        step = predicted[0] + more_x, predicted[1] + more_z, turn
        if course is not None and course.fastest is not None:
            step = *_at_most(step[0], step[1], course.fastest), turn
        here = _stepped(here, step)
        moved.append(step)
    return np.array(moved, np.float32)


def _at_most(x: float, z: float, most: float) -> tuple[float, float]:
    """Shorten a vector that is longer than `most`."""
    share = min(1.0, most / max(1e-9, math.hypot(x, z)))
    return share * x, share * z


def _stepped(here: Sequence[float], step: Sequence[float]) -> tuple[float, float, float]:
    """Return x, z and heading after a step that is seen in the heading before it."""
    x, z, yaw = here
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + step[0] * cos + step[1] * sin, z + step[1] * cos - step[0] * sin, yaw + step[2]


def _after(before: Array, change: Array) -> list[float]:
    """Return the contacts of one frame; there are two, for which plain numbers are faster than arrays."""
    kept = [min(max(share, 0.01), 0.99) for share in before.tolist()]
    return [1 / (1 + (1 - share) / share * math.exp(-more)) for share, more in zip(kept, change.tolist(), strict=True)]


def _gelu(half: Array) -> Array:
    """Return GELU of twice some numbers."""
    values = half * half
    values *= 0.2854192648
    values += 1.5957691216
    values *= half
    np.tanh(values, out=values)
    values += 1
    values *= half
    return values
