"""Animations of a glTF file: their names, the keys of each node, their values at any time, and the times of frames."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from motionkit.formats.glb.container import Container, Floats
from motionkit.motion.corpus.ids import one_line
from motionkit.motion.motion import RATES, check_size, is_fps

DEFAULT_RATE = 30.0
"""Frames per second where no rate holds every key."""

PATHS = {"translation": 3, "rotation": 4, "scale": 3}
"""Parts of a node's transform that keys may move, and their numbers."""

_NAME = 255
"""Most letters of the name of an animation."""

_SLOWEST = 10.0
"""Keys a second from which even linear keys are frames; fewer are set by hand and drawn as a curve."""

_CURVE_RATES = (24, 25, 30, 60)
"""Frame rates at which curves are sampled; the lowest that holds every key is taken."""

_USUAL_RATES = (*_CURVE_RATES, 12, 15, 20, 48, 50, 72, 75, 90, 100, 120, 144, 180, 200, 240)
"""Frame rates that are tried for linear keys with gaps, the commonest first."""

_OFF = 0.05
"""Part of an interval by which even keys may be away from their places."""

_LONGEST, _BETWEEN = 30_000, 100
"""Frames of an animation (20 minutes at 24 a second), and frames from key to key, that are read in any case. Two keys
that are years apart would fill the memory."""

_HELD = 0.03
"""Part of a frame by which a key that falls on it may be away: times may be rounded to milliseconds. It is below the
0.04 by which the second frame of 25 a second is away from that of 24."""

_ON_KEY = 1e-3
"""A sample is snapped to a key within this part of an interval: times are stored in single precision."""


def targets(file: Container, animation: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int, str]]:
    """Yield each channel of a node's transform with its node and path."""
    count = len(file.items("nodes"))
    for channel in _tables(file, animation, "channels"):
        target = channel.get("target")
        if not isinstance(target, dict):
            raise file.error("a channel of an animation has no target")
        path = target.get("path")
        if "node" in target and isinstance(path, str) and path in PATHS:
            yield channel, file.index(target["node"], count, "nodes"), path


def _tables(file: Container, animation: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    entries = animation.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise file.error(f"the {name} of an animation are not a list of tables")
    return entries


@dataclass(frozen=True)
class Channel:
    """Keys of one node."""

    times: Floats  # ``[K]`` seconds, rising
    keys: Floats  # ``[K, 3 or 4]``, or three times as many rows with tangents
    interpolation: str  # ``LINEAR``, ``STEP`` or ``CUBICSPLINE``

    @cached_property
    def moves(self) -> bool:
        """Whether its value ever changes."""
        if self.interpolation != "CUBICSPLINE":
            return bool((self.keys != self.keys[0]).any())
        tangents = np.concatenate([self.keys[0::3], self.keys[2::3]])
        return bool((self.keys[1::3] != self.keys[1]).any()) or (len(self.times) > 1 and bool(tangents.any()))


def channels_of(
    file: Container, animation: Mapping[str, Any], nodes: Collection[int]
) -> dict[tuple[int, str], Channel]:
    """Return the channels that move the given nodes; the last one of a node and path counts."""
    samplers = _tables(file, animation, "samplers")
    chosen: dict[tuple[int, str], int] = {}
    for channel, node, path in targets(file, animation):
        if node in nodes:
            chosen[node, path] = file.index(channel.get("sampler"), len(samplers), "samplers")
    checked: dict[int, Floats] = {}  # by accessor, so that channels with the same times share one array
    by_target = {}
    for (node, path), number in chosen.items():
        sampler = samplers[number]
        clock = file.index(sampler.get("input"), len(file.items("accessors")), "accessors")
        times = file.array(clock, 1)[:, 0]
        if clock not in checked:
            if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
                raise file.error("the times of an animation do not rise")
            checked[clock] = times
        times = checked[clock]
        keys = file.array(sampler.get("output"), PATHS[path])
        interpolation = sampler.get("interpolation", "LINEAR")
        if interpolation not in ("LINEAR", "STEP", "CUBICSPLINE"):
            raise file.error(f"keys are joined by {str(interpolation)[:40]!r}, which glTF does not have")
        rows = 3 * len(times) if interpolation == "CUBICSPLINE" else len(times)
        if len(keys) != rows:
            raise file.error(f"an animation has {len(times)} times and {len(keys)} keys, {rows} are needed")
        if "matrix" in file.items("nodes")[node]:
            raise file.error(f"node {node} is animated and has a matrix")
        by_target[node, path] = Channel(times, keys, interpolation)
    return by_target


def sample(channel: Channel, times: Floats, path: str) -> Floats:
    """Return the values of a channel ``[F, 3 or 4]`` at times; outside of its keys it holds the first or last."""
    count = len(channel.times)
    after = np.clip(np.searchsorted(channel.times, times, side="right"), 1, max(count - 1, 1))
    before = after - 1
    after = np.minimum(after, count - 1)
    step = channel.times[after] - channel.times[before]
    part = np.where(step > 0, (times - channel.times[before]) / np.where(step > 0, step, 1.0), 0.0).clip(0.0, 1.0)
    part = np.where(part < _ON_KEY, 0.0, np.where(part > 1 - _ON_KEY, 1.0, part))[:, None]
    keys = channel.keys
    if channel.interpolation == "CUBICSPLINE":
        values = keys[1::3]
        leaving, arriving = keys[2::3][before] * step[:, None], keys[0::3][after] * step[:, None]
        square, cube = part**2, part**3
        start, end = 2 * cube - 3 * square + 1, 3 * square - 2 * cube
        joined: Floats = (
            start * values[before] + (cube - 2 * square + part) * leaving + end * values[after]
            + (cube - square) * arriving
        )  # fmt: skip
        return joined
    if channel.interpolation == "STEP":
        return np.where(part < 1.0, keys[before], keys[after])
    if path == "rotation":
        return _slerp(keys[before], keys[after], part)
    # A key that is not finite must not reach the frames on the other one.
    return np.where(
        part <= 0.0, keys[before], np.where(part >= 1.0, keys[after], (1 - part) * keys[before] + part * keys[after])
    )


def _slerp(start: Floats, end: Floats, part: Floats) -> Floats:
    """Interpolate quaternions along the shorter arc."""
    dot = (start * end).sum(-1, keepdims=True)
    end = np.where(dot < 0, -end, end)
    angle = np.arccos(np.abs(dot).clip(0.0, 1.0))
    sine = np.sin(angle)
    near = ~(sine > 1e-6)
    safe = np.where(near, 1.0, sine)
    first = np.where(near, 1 - part, np.sin((1 - part) * angle) / safe)
    second = np.where(near, part, np.sin(part * angle) / safe)
    return np.where(part <= 0.0, start, np.where(part >= 1.0, end, first * start + second * end))


def labels(animations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of animations, unique, in one line; empty for the only one of a file if it has none."""
    names: dict[str, None] = {}
    for number, animation in enumerate(animations):
        name = animation.get("name")
        plain = one_line(name)[:_NAME].strip() if isinstance(name, str) else ""
        if not plain and len(animations) > 1:
            plain = f"animation {number}"
        unique, again = plain, number
        while unique in names:
            unique, again = f"{plain} {again}", again + 1
        names[unique] = None
    return list(names)


def frames_of(
    file: Container, animation: Mapping[str, Any], channels: Mapping[tuple[int, str], Channel]
) -> tuple[Floats, float]:
    """Return the times of the frames and their rate."""
    fps = _rate(animation, list(channels.values()))
    start = min(float(channel.times[0]) for channel in channels.values())
    stop = max(float(channel.times[-1]) for channel in channels.values())
    count = round_frames((stop - start) * fps)
    keys = max(len(channel.times) for channel in channels.values())
    if count > max(_LONGEST, _BETWEEN * keys):
        hours = (stop - start) / 3600
        raise file.error(f"{keys} keys of an animation are spread over {hours:.3g} hours", why="that is no movement.")
    check_size(count, 1)
    return start + np.arange(count) / fps, fps


def round_frames(steps: float) -> int:
    """Return the number of frames of so many steps, with a tolerance for rounding."""
    return int(min(steps, 1e12) + 1e-3) + 1


def counted_rate(animation: Mapping[str, Any], channels: Sequence[Channel]) -> float:
    """Return the rate of an animation whose keys are frames: the one that the file states, or of dense linear keys.

    Keys that are even and linear, `_SLOWEST` a second or more, are frames. All others are a curve: 0.
    """
    extras = animation.get("extras")
    stated = extras.get("fps") if isinstance(extras, dict) else None
    if isinstance(stated, (int, float)) and not isinstance(stated, bool) and is_fps(float(stated)):
        return float(stated)
    fullest = _fullest(channels)
    even = _even_rate(fullest.times)
    return even if fullest.interpolation == "LINEAR" and even >= _SLOWEST else 0.0


def _moving(channels: Sequence[Channel]) -> Sequence[Channel]:
    return [channel for channel in channels if channel.moves] or channels


def _fullest(channels: Sequence[Channel]) -> Channel:
    return max(_moving(channels), key=lambda channel: (len(channel.times), channel.interpolation == "LINEAR"))


def _rate(animation: Mapping[str, Any], channels: Sequence[Channel]) -> float:
    """Return frames per second: that of keys that are frames (`counted_rate`), else one at which curves show."""
    if rate := counted_rate(animation, channels):
        return rate
    moving = _moving(channels)
    times_of_fullest = _fullest(channels).times
    if len(times_of_fullest) < 2:
        return DEFAULT_RATE
    even = _even_rate(times_of_fullest)
    start = min(float(channel.times[0]) for channel in channels)
    gaps = not even and all(channel.interpolation == "LINEAR" for channel in moving)
    times = {id(channel.times): channel.times for channel in moving}.values()
    for rate in _USUAL_RATES if gaps else _CURVE_RATES:
        places = ((keys - start) * rate for keys in times)
        if all(float(np.abs(place - place.round()).max()) < _HELD for place in places):
            return float(rate)
    return even if even >= _SLOWEST else DEFAULT_RATE


def _even_rate(times: Floats) -> float:
    """Return the rate of keys that are evenly spaced; 0 if they are not."""
    if len(times) < 2:
        return 0.0
    rate = (len(times) - 1) / float(times[-1] - times[0])
    even = times[0] + np.arange(len(times)) / rate
    if not (RATES[0] <= rate <= RATES[1] and float(np.abs(times - even).max()) * rate < _OFF):
        return 0.0
    rounded = float(round(rate))
    return rounded if rounded and abs(rate - rounded) < 5e-4 * rate else rate
