"""A film of motions: its pictures, with panels, cameras, titles and captions, and its file.

`write_mp4` encodes it with the ffmpeg of imageio-ffmpeg, `write_gif` with Pillow.
"""

from __future__ import annotations

import io
import itertools
import math
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

import torch

from motionkit.errors import MotionkitError
from motionkit.player._figure import Camera, figure_of, fit_distance, panels
from motionkit.player._page import look
from motionkit.player._track import PlayerTrack
from motionkit.player.video._letters import Letters
from motionkit.player.video._scene import Actor, Brush, draw_scene, mix
from motionkit.runs import write_bytes_atomic
from motionkit.runs.atomic import sync_file, sync_folder, temporary

MAX_TRACKS = 24

SMOOTH = 3
"""Supersampling factor of pictures, which smooths edges; 2 for large ones."""

_LARGE = 1_000_000
"""Pixels of a picture above which it is large."""

_SMALL = 240
"""Height in pixels of a panel below which a caption has one line."""

INSTALL = 'pip install "motionkit[video]"'

_LAST_LINES = 6
"""Lines of ffmpeg's output that an error shows."""

MAX_PIXELS = 600_000_000
"""Most frames times pixels; a GIF is held in memory until it is written."""

FASTEST = 50.0
"""Most pictures per second; browsers slow down pictures of less than two hundredths of a second."""

_SAMPLES, _COLOURS = 6, 255
"""Pictures from which a GIF's palette is made, and its colours."""


class Film:
    """A video that is drawn picture by picture.

    Args:
        tracks: The tracks to show.
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

        image = Image.new("RGB", self.size, self.look["stage"])
        width, height = self.size[0] // self.columns, self._free // self.rows
        line = mix(self.look["stage"], self.look["grid"], 0.55)
        pen = ImageDraw.Draw(image)
        for place, (track, actor) in enumerate(zip(self.tracks, self.actors, strict=True)):
            x, y = place % self.columns * width, self.top + place // self.columns * height
            panel = Image.new("RGB", (width * self.smooth, height * self.smooth), self.look["stage"])
            brush = Brush(ImageDraw.Draw(panel), self.look, look()["near"], self.smooth)
            draw_scene(brush, self.camera(actor, time), actor, time)
            image.paste(panel.reduce(self.smooth), (x, y))
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
        return image

    def camera(self, actor: Actor, time: float) -> Camera:
        """Return the view of a panel; all panels have the same distance, so that sizes are comparable."""
        width, height = self.size[0] // self.columns, self._free // self.rows
        above, below = self._margins(height)
        distance = self._distance(width, height, above + below)
        x, z = (float(value) for value in actor.root(time))
        target = x, max(actor.figure.middle for actor in self.actors), z
        view = look()
        size, shift = (width * self.smooth, height * self.smooth), (above - below) / 2 * self.smooth
        return Camera(target, view["yaw"], view["pitch"], distance, *size, view["fov"], shift)

    def _margins(self, height: float) -> tuple[float, float]:
        """Return the height of the texts above and below a figure in pixels."""
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


def find_ffmpeg() -> str:
    """Return the path of an ffmpeg program."""
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise MotionkitError(
            "an .mp4 needs ffmpeg, which is not here.",
            why=str(error).splitlines()[0] if str(error) else "",
            fix=f"{INSTALL}, or write a .gif, which needs nothing more.",
        ) from error


def write_mp4(path: Path, film: Film, *, progress: Callable[[int], None] | None = None) -> None:
    """Write a film as MP4 (H.264 if ffmpeg has it, else MPEG-4); width and height must be even."""
    program = find_ffmpeg()
    aside = temporary(path, ".mp4")
    try:
        with tempfile.TemporaryFile() as talk:
            _encode(program, aside, film, talk, progress)
        sync_file(aside)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _encode(program: str, out: Path, film: Film, talk: IO[bytes], progress: Callable[[int], None] | None) -> None:
    """Send pictures to ffmpeg one by one, so that few are in memory."""
    with subprocess.Popen(_command(program, out, film), stdin=subprocess.PIPE, stderr=talk) as process:
        assert process.stdin is not None
        try:
            for done, picture in enumerate(film.pictures(), start=1):
                process.stdin.write(picture.tobytes())
                if progress is not None:
                    progress(done)
            process.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg has failed; its exit code and output give the reason
        except BaseException:
            process.kill()
            raise
        code = process.wait()
    if code or not out.is_file():
        talk.seek(0)
        lines = talk.read().decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
        raise MotionkitError(f"ffmpeg stopped with exit code {code}.", why="\n".join(lines), fix="or write a .gif.")


def _command(program: str, out: Path, film: Film) -> list[str]:
    width, height = film.size
    rate = str(Fraction(film.fps).limit_denominator(1001))
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    codec = ["-c:v", "libx264", "-preset", "fast", "-crf", "20"]
    if "libx264" not in _encoders(program):
        codec = ["-c:v", "mpeg4", "-q:v", "3"]
    colours = ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-pix_fmt", "yuv420p", "-colorspace", "bt709"]
    tags = ["-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
    general = ["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]
    output = ["-an", "-r", rate, "-movflags", "+faststart", "-f", "mp4", str(out.absolute())]
    return [program, *general, *source, *codec, *colours, *tags, *output]


@cache
def _encoders(program: str) -> str:
    done = subprocess.run([program, "-hide_banner", "-encoders"], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


def delays(frames: int, fps: float) -> list[int]:
    """Return how long each picture is shown, in milliseconds.

    A GIF counts in hundredths of a second. Ends are rounded, not durations, so 30 pictures a second are shown for 30,
    40, 30, 30, ... ms and the whole is as long as the motion.
    """
    ends = [round(100 * (frame + 1) / fps) for frame in range(frames)]
    return [10 * (end - start) for start, end in itertools.pairwise([0, *ends])]


def write_gif(path: Path, film: Film, *, progress: Callable[[int], None] | None = None) -> None:
    """Write a film as GIF; all pictures share one palette, so that colours do not flicker."""
    width, height = film.size
    if film.frames * width * height > MAX_PIXELS:
        raise MotionkitError(
            f"{film.frames} pictures of {width} x {height} are too many for a GIF.",
            fix="write .mp4, or give fewer pictures per second or a smaller size.",
        )
    palette = _palette(film)

    def pictures() -> Any:
        for done, picture in enumerate(film.pictures(), start=1):
            yield picture.quantize(palette=palette, dither=0)
            if progress is not None:
                progress(done)

    made = pictures()
    data = io.BytesIO()
    next(made).save(
        data,
        format="GIF",
        save_all=True,
        append_images=made,
        duration=delays(film.frames, film.fps),
        loop=0,
        disposal=1,
        palette=bytes(palette.getpalette()),  # one for the whole file, not one per picture
        transparency=_COLOURS,  # unchanged pixels are left out; an index beyond the colours
        optimize=True,
    )
    write_bytes_atomic(path, data.getvalue())


def _palette(film: Film) -> Any:
    """Return 255 colours for the film, from some of its pictures."""
    from PIL import Image

    count = min(film.frames, _SAMPLES)
    times = [k * (film.frames - 1) / max(count - 1, 1) / film.fps for k in range(count)]
    sheet = Image.new("RGB", (film.size[0], film.size[1] * count))
    for place, time in enumerate(times):
        sheet.paste(film.picture(time), (0, place * film.size[1]))
    return sheet.quantize(colors=_COLOURS)
