"""One picture of a panel, drawn with Pillow as ``scene.js`` and ``figure.js`` draw it in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motionkit.player._figure import Camera, Figure, Floats

_STEPS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 2000.0)
_SHADES, _CHUNKS = 5, 10
_TRAIL_POINTS = 600
_DASH, _DASHED, _DASHES = 0.027, 0.55, 3000
"""Length of a dash and its gap per metre to the camera, the dash's fraction of it, and the most dashes drawn."""
_ARC = np.linspace(0.0, 1.0, 9)


@dataclass(frozen=True)
class Actor:
    """A figure with the values for drawing."""

    figure: Figure
    positions: Floats
    follow: Floats
    fps: float
    path: Floats | None = None
    """``[T, 2]`` x and z that the root should follow."""

    @property
    def duration(self) -> float:
        """Seconds."""
        return len(self.positions) / self.fps

    def pose(self, time: float) -> Floats | None:
        """Return the joints ``[J, 3]`` at a time, None in a gap."""
        before, after, part = self.place(time)
        if not bool(self.figure.shown[before]):
            return None
        if not bool(self.figure.shown[after]):
            part = 0.0
        pose: Floats = self.positions[before] * (1 - part) + self.positions[after] * part
        return pose

    def root(self, time: float) -> Floats:
        """Return x and z that the camera follows."""
        before, after, part = self.place(time)
        place: Floats = self.follow[before] * (1 - part) + self.follow[after] * part
        return place

    def place(self, time: float) -> tuple[int, int, float]:
        """Return the frames before and after a time, and its fraction of the way between them."""
        place = min(max(time * self.fps, 0.0), len(self.positions) - 1)
        before = min(int(place + 1e-6), len(self.positions) - 1)
        return before, min(before + 1, len(self.positions) - 1), max(place - before, 0.0)


@dataclass(frozen=True)
class Part:
    """A projected bone or ball: depth in metres, two discs (x, y, radius) in pixels, colour, with or without a rim."""

    depth: float
    ends: tuple[float, float, float, float, float, float]
    colour: str
    rim: bool = False


@dataclass(frozen=True)
class Brush:
    """A drawing context; `scale` is the supersampling factor."""

    pen: Any
    look: dict[str, Any]
    near: float
    scale: float

    def line(self, axes: Camera, ends: Floats, colour: str, width: float) -> None:
        """Draw lines ``[N, 2, 3]`` in camera space, clipped at the near plane."""
        front = ends[..., 2] >= self.near
        cut = ends.copy()
        for end in (0, 1):
            behind = ~front[:, end] & front[:, 1 - end]
            a, b = ends[behind, end], ends[behind, 1 - end]
            cut[behind, end] = a + (b - a) * ((self.near - a[:, 2]) / (b[:, 2] - a[:, 2]))[:, None]
        for pair in axes.place(cut[front.any(axis=1)]):
            self.pen.line([tuple(pair[0]), tuple(pair[1])], fill=colour, width=max(1, round(width * self.scale)))

    def capsule(self, ends: Sequence[float], colour: str) -> None:
        """Draw the convex hull of two discs (x, y, radius)."""
        x1, y1, r1, x2, y2, r2 = ends
        length = float(np.hypot(x2 - x1, y2 - y1))
        if length <= abs(r1 - r2) + 1e-6:
            x, y, r = (x1, y1, r1) if r1 > r2 else (x2, y2, r2)
            self.pen.ellipse([x - r, y - r, x + r, y + r], fill=colour)
            return
        angle, lean = np.arctan2(y2 - y1, x2 - x1), np.arccos((r1 - r2) / length)
        first = angle + lean + _ARC * (2 * np.pi - 2 * lean)
        second = angle - lean + _ARC * 2 * lean
        xs = np.concatenate([x1 + r1 * np.cos(first), x2 + r2 * np.cos(second)])
        ys = np.concatenate([y1 + r1 * np.sin(first), y2 + r2 * np.sin(second)])
        self.pen.polygon(np.stack([xs, ys], axis=1).ravel().tolist(), fill=colour)


def mix(first: str, second: str, part: float) -> str:
    """Return the ``#rrggbb`` colour at `part` between two colours."""
    a, b = (np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) for colour in (first, second))
    return "#" + "".join(f"{int(value):02x}" for value in np.floor(a + (b - a) * part + 0.5))


def draw_scene(brush: Brush, camera: Camera, actor: Actor, time: float) -> None:
    """Draw the floor, the shadow, the path and the figure at a time."""
    pose = actor.pose(time)
    if pose is not None:
        _shadow(brush, camera, actor, pose)
    _floor(brush, camera)
    _trail(brush, camera, actor, time)
    if actor.path is not None:
        _wanted(brush, camera, actor.path, actor.place(time)[0])
    parts = [] if pose is None else _parts(brush, camera, actor, pose)
    for part in sorted(parts, key=lambda part: -part.depth):
        if part.rim:
            _rim(brush, part.ends)
        x1, y1, r1, x2, y2, r2 = part.ends
        least = 0.9 * brush.scale
        brush.capsule((x1, y1, max(r1, least), x2, y2, max(r2, least)), part.colour)


def _floor(brush: Brush, camera: Camera) -> None:
    """Draw the grid in a circle around the target, fading out."""
    step = next((size for size in _STEPS if camera.distance / size < 9), 5000.0)
    reach = max(camera.distance * 0.9, step * 4)
    count = int(np.ceil(reach / step))
    centre = camera.target[0], camera.target[2]
    for along in (0, 1):
        fixed = (np.round(centre[1 - along] / step) + np.arange(-count, count + 1)) * step
        off = fixed - centre[1 - along]
        half = np.sqrt(np.maximum(reach**2 - off**2, 0.0))
        cuts = centre[along] + half[:, None] * (2 * np.arange(_CHUNKS + 1) / _CHUNKS - 1)
        points = np.zeros((len(fixed), _CHUNKS + 1, 3))
        points[..., 2 * along] = cuts
        points[..., 2 - 2 * along] = fixed[:, None]
        seen = camera.see(points)
        middle = (cuts[:, 1:] + cuts[:, :-1]) / 2 - centre[along]
        shade = np.floor((1 - np.hypot(middle, off[:, None]) / reach) * _SHADES)
        shade[half == 0] = -1
        ends = np.stack([seen[:, :-1], seen[:, 1:]], axis=2)
        for level in range(_SHADES):
            colour = mix(brush.look["stage"], brush.look["grid"], 0.75 * (level + 0.6) / _SHADES)
            brush.line(camera, ends[shade == level], colour, 1.0)


def _trail(brush: Brush, camera: Camera, actor: Actor, time: float) -> None:
    """Draw the root's path on the floor with a dot for each second; the future is faint."""
    frames = len(actor.positions)
    stride = max(1, -(-frames // _TRAIL_POINTS))
    picks = np.append(np.arange(0, frames - 1, stride), frames - 1)
    points = actor.positions[picks, actor.figure.root] * np.array([1.0, 0.0, 1.0])
    seen = camera.see(points)
    ends = np.stack([seen[:-1], seen[1:]], axis=1)
    shown = actor.figure.shown.numpy()[picks]
    good = shown[:-1] & shown[1:]
    past = picks[:-1] < time * actor.fps
    stage, colour = brush.look["stage"], brush.look["trail"]
    brush.line(camera, ends[good & ~past], mix(stage, colour, 0.25), 2.0)
    brush.line(camera, ends[good & past], mix(stage, colour, 0.85), 2.0)
    apart = max(1, int(np.ceil(actor.duration / 60)))
    for second in range(0, int(np.ceil(actor.duration)), apart):
        frame = round(second * actor.fps)
        if frame >= frames or not bool(actor.figure.shown[frame]):
            continue
        spot = camera.see(actor.positions[frame, actor.figure.root] * np.array([1.0, 0.0, 1.0]))
        if spot[2] > brush.near:
            x, y = camera.place(spot)
            radius = 2.6 * brush.scale
            part = 0.85 if second <= time else 0.3
            brush.capsule((x, y, radius, x, y, radius), mix(stage, colour, part))


def _wanted(brush: Brush, camera: Camera, path: Floats, frame: int) -> None:
    """Draw the path that the root should follow: dashed, with a ring at its current target."""
    colour = mix(brush.look["stage"], brush.look["quiet"], 0.7)
    brush.line(camera, camera.see(dashes(path, camera.distance)), colour, 2.0)
    spot = camera.see(np.array([path[frame, 0], 0.0, path[frame, 1]]))
    if spot[2] > brush.near:
        x, y = camera.place(spot)
        radius, width = 5 * brush.scale, max(1, round(2 * brush.scale))
        brush.pen.ellipse([x - radius, y - radius, x + radius, y + radius], outline=colour, width=width)


def dashes(path: Floats, distance: float) -> Floats:
    """Return dashes ``[N, 2, 3]`` along a path ``[T, 2]`` on the floor, in proportion to the camera's distance."""
    along = np.append(0.0, np.linalg.norm(np.diff(path, axis=0), axis=1).cumsum())
    every = max(_DASH * distance, along[-1] / _DASHES)
    starts = np.arange(0.0, along[-1], every)
    at = np.stack([starts, np.minimum(starts + _DASHED * every, along[-1])], axis=1)
    x, z = (np.interp(at, along, path[:, axis]) for axis in (0, 1))
    return np.stack([x, np.zeros_like(x), z], axis=-1)


def _shadow(brush: Brush, camera: Camera, actor: Actor, pose: Floats) -> None:
    """Draw every bone's shadow under vertical light."""
    seen = camera.see(pose * np.array([1.0, 0.0, 1.0]))
    colour = mix(brush.look["stage"], brush.look["shadow"], brush.look["shadowPart"])
    for start, end in actor.figure.bones:
        if min(seen[start, 2], seen[end, 2]) < brush.near:
            continue
        (x1, y1), (x2, y2) = camera.place(seen[start]), camera.place(seen[end])
        r = camera.focal * actor.figure.radii[end] * 0.85
        brush.capsule((x1, y1, r / seen[start, 2], x2, y2, r / seen[end, 2]), colour)


def _parts(brush: Brush, camera: Camera, actor: Actor, pose: Floats) -> list[Part]:
    """Return bones and head; the far side of a body is paler. The trunk has no rims, which would cut it."""
    figure = actor.figure
    sided = any(side != "-" for side in figure.sides)
    seen = camera.see(pose)
    parts: list[Part] = []
    for start, end in figure.bones:
        a, b = seen[start], seen[end]
        if min(a[2], b[2]) < brush.near:
            continue
        (x1, y1), (x2, y2) = camera.place(a), camera.place(b)
        same = figure.sides[start] == figure.sides[end]
        thick = figure.radii[start] if same else 0.55 * figure.radii[end]
        r1, r2 = camera.focal * thick / a[2], camera.focal * figure.radii[end] / b[2]
        colour = _colour(brush.look, figure.sides[end])
        rim = not sided or figure.sides[end] != "-"
        parts.append(Part((a[2] + b[2]) / 2, (x1, y1, r1, x2, y2, r2), colour, rim))
    for joint in figure.lone:
        if seen[joint, 2] >= brush.near:
            x, y = camera.place(seen[joint])
            r = camera.focal * figure.radii[joint] / seen[joint, 2]
            colour = _colour(brush.look, figure.sides[joint])
            parts.append(Part(seen[joint, 2], (x, y, r, x, y, r), colour))
    if figure.head is not None:
        along = pose[figure.head.at] - pose[figure.head.origin]
        ball = pose[figure.head.at] + along / (float(np.linalg.norm(along)) or 1.0) * figure.head.reach
        middle = camera.see(ball)
        if middle[2] > brush.near:
            x, y = camera.place(middle)
            r = camera.focal * figure.head.radius / middle[2]
            parts.append(Part(middle[2], (x, y, r, x, y, r), _colour(brush.look, "-")))
    middle, stage = seen[figure.root, 2], brush.look["stage"]
    pale = [min(max((part.depth - middle) / (2.2 * figure.reach) + 0.25, 0.0), 1.0) * 0.5 for part in parts]
    return [replace(part, colour=mix(part.colour, stage, far)) for part, far in zip(parts, pale, strict=True)]


def _colour(look: dict[str, Any], side: str) -> str:
    return str({"L": look["left"], "R": look["right"]}.get(side, look["centre"]))


def _rim(brush: Brush, ends: Sequence[float]) -> None:
    """Draw a rim in the background colour around a bone, to separate crossing limbs; it ends before the joints."""
    x1, y1, r1, x2, y2, r2 = ends
    length = float(np.hypot(x2 - x1, y2 - y1))
    if length <= (r1 + r2) * 1.7:
        return
    inset = (r1 + r2) * 0.8 / length
    dx, dy = (x2 - x1) * inset, (y2 - y1) * inset
    width = max(1, round(r1 + r2 + 3 * brush.scale))
    brush.pen.line([(x1 + dx, y1 + dy), (x2 - dx, y2 - dy)], fill=brush.look["stage"], width=width)
