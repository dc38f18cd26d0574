"""All pictures of a video: panels, cameras, titles and captions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch

from motionkit.errors import MotionkitError
from motionkit.player._camera import Camera, fit_distance, panels
from motionkit.player._figure import figure_of
from motionkit.player._page import look
from motionkit.player._track import PlayerTrack
from motionkit.player.video._letters import Letters
from motionkit.player.video._scene import Actor, Brush, draw_scene, mix

MAX_TRACKS = 24
SMOOTH = 3
"""Pictures are drawn this many times larger and averaged, which smooths edges; twice when they are large."""

_LARGE = 1_000_000

_SMALL = 240


class Film:
    """A video that is drawn picture by picture.

    Args:
        tracks: What is shown.
        size: Width and height in pixels.
        fps: Pictures per second.
        title: Heading; empty for none.
        theme: Colours.
    """

    def __init__(
        self,
        tracks: Sequence[PlayerTrack],
        *,
        size: tuple[int, int],
        fps: float,
        title: str,
        theme: Literal["light", "dark"],
    ) -> None:
        if not tracks:
            raise MotionkitError("there is no motion to show.")
        if len(tracks) > MAX_TRACKS:
            raise MotionkitError(
                f"{len(tracks)} motions are too many for one video.",
                fix=f"choose at most {MAX_TRACKS}, or write an .html page, which holds more.",
            )
        self.tracks, self.size, self.fps, self.title = tracks, size, fps, title
        self.look: dict[str, Any] = look()[theme]
        self.actors = []
        for track in tracks:
            figure = figure_of(track)
            path = None if track.path is None else track.path.detach().to("cpu", torch.float64).numpy()
            self.actors.append(Actor(figure, figure.positions.numpy(), figure.follow.numpy(), track.fps, path))
        self.duration = max(track.duration for track in tracks)
        self.smooth = SMOOTH if size[0] * size[1] <= _LARGE else 2
        self.heading = Letters(_letter_size(min(size)))
        self.top = round(self.heading.line * 1.7) if title else 0
        self.bottom = max(round(min(size) / 120), 3)
        self.columns, self.rows = panels(len(tracks), size[0], self._free)
        self.letters = Letters(_letter_size(min(size[0] / self.columns, self._free / self.rows)))

    @property
    def _free(self) -> int:
        return max(self.size[1] - self.top - self.bottom, 1)

    @property
    def frames(self) -> int:
        """Number of pictures."""
        return max(1, math.ceil(self.duration * self.fps - 1e-6))

    def pictures(self) -> Iterator[Any]:
        """Yield every picture, a Pillow image in RGB."""
        for frame in range(self.frames):
            yield self.picture(frame / self.fps)

    def picture(self, time: float) -> Any:
        """Return the picture at a time."""
        from PIL import Image, ImageDraw

        whole = Image.new("RGB", self.size, self.look["stage"])
        width, height = self.size[0] // self.columns, self._free // self.rows
        line = mix(self.look["stage"], self.look["grid"], 0.55)
        pen = ImageDraw.Draw(whole)
        for place, (track, actor) in enumerate(zip(self.tracks, self.actors, strict=True)):
            x, y = place % self.columns * width, self.top + place // self.columns * height
            panel = Image.new("RGB", (width * self.smooth, height * self.smooth), self.look["stage"])
            brush = Brush(ImageDraw.Draw(panel), self.look, look()["near"], self.smooth)
            draw_scene(brush, self.camera(actor, time), actor, time)
            whole.paste(panel.reduce(self.smooth), (x, y))
            if x:
                pen.line([(x, y), (x, y + height)], fill=line)
            if y:
                pen.line([(x, y), (x + width, y)], fill=line)
            self._write(pen, track, (x, y, width, height), time)
        if self.title:
            room = self.size[0] - 2 * self.heading.size
            text = self.heading.cut(self.title, room)
            self.heading.draw(pen, (self.heading.size, round(self.top * 0.66)), text, self.look["text"])
        self._progress(pen, time)
        return whole

    def camera(self, actor: Actor, time: float) -> Camera:
        """Return the view of a panel; all panels have one distance, so that sizes compare."""
        width, height = self.size[0] // self.columns, self._free // self.rows
        above, below = self._margins(height)
        distance = self._distance(width, height, above + below)
        x, z = (float(value) for value in actor.root(time))
        target = x, max(actor.figure.middle for actor in self.actors), z
        view = look()
        size, shift = (width * self.smooth, height * self.smooth), (above - below) / 2 * self.smooth
        return Camera(target, view["yaw"], view["pitch"], distance, *size, view["fov"], shift)

    def _margins(self, height: float) -> tuple[float, float]:
        """Return the pixels of a panel above and below a figure that texts take."""
        above = self.letters.line * 1.6
        below = self.letters.line * 2.4 if any(track.segments for track in self.tracks) else self.letters.size
        return (above, below) if height >= _SMALL else (above, self.letters.size)

    def _distance(self, width: float, height: float, spare: float) -> float:
        tall = max(actor.figure.height for actor in self.actors)
        reach = max(actor.figure.reach for actor in self.actors)
        return fit_distance(width, height, look()["fov"], tall, reach, spare)

    def _write(self, pen: Any, track: PlayerTrack, box: tuple[int, int, int, int], time: float) -> None:
        """Write the title of a panel and the caption of this moment."""
        x, y, width, _ = box
        edge = self.letters.size
        if track.title != self.title:
            ended = " (ended)" if time >= track.duration and track.duration < self.duration else ""
            place = float(x + edge), y + round(self.letters.line * 1.2)
            self.letters.draw(pen, place, self.letters.cut(track.title + ended, width - 2 * edge), self.look["text"])
        self._caption(pen, track, box, time)

    def _caption(self, pen: Any, track: PlayerTrack, box: tuple[int, int, int, int], time: float) -> None:
        x, y, width, height = box
        now = [k for k, (_, start, end) in enumerate(track.segments) if start - 1e-9 <= time < end - 1e-9]
        if not now:
            return
        score = f"{track.scores[now[-1]]:.2f}" if track.scores else ""
        after = self.letters.width("  " + score) if score else 0.0
        room = width - 3 * self.letters.size - after
        lines = self.letters.wrap(track.segments[now[-1]][0], room, 2 if height >= _SMALL else 1)
        for k, line in enumerate(lines):
            last = k == len(lines) - 1
            wide = self.letters.width(line) + (after if last else 0)
            left = x + (width - wide) / 2
            base = y + height - round(self.letters.line * (len(lines) - k - 0.35)) - self.bottom
            self.letters.draw(pen, (left, base), line, self.look["text"])
            if last and score:
                self.letters.draw(pen, (left + wide - self.letters.width(score), base), score, self.look["trail"])

    def _progress(self, pen: Any, time: float) -> None:
        """Draw a bar along the lower edge; with one track it is divided where its segments are."""
        width, height = self.size
        top = height - self.bottom
        pen.rectangle([0, top, width, height], fill=mix(self.look["stage"], self.look["grid"], 0.4))
        done = min((time + 1 / self.fps) / self.duration, 1.0) * width
        pen.rectangle([0, top, max(done - 1, 0), height], fill=self.look["trail"])
        if len(self.tracks) == 1:
            for _, start, _ in self.tracks[0].segments:
                x = start / self.duration * width
                if 1 < x < width:
                    pen.rectangle([x - 1, top, x + 1, height], fill=self.look["stage"])


def _letter_size(side: float) -> int:
    """Return a readable height of letters for a picture whose shorter side has so many pixels."""
    return min(max(round(side / 30), 11 if side < 300 else 13), 30)
