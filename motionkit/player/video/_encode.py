"""Writing a film as MP4 (through the ffmpeg of imageio-ffmpeg) or as animated GIF (through Pillow)."""

from __future__ import annotations

import io
import itertools
import subprocess
import tempfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import IO, Any

from motionkit.errors import MotionkitError
from motionkit.player.video._film import Film
from motionkit.runs import write_bytes_atomic
from motionkit.runs._atomic import sync_file, sync_folder, temporary

INSTALL = 'pip install "motionkit[video]"'

_LAST_LINES = 6


def find_ffmpeg() -> str:
    """Return the path of an ffmpeg program.

    Raises:
        MotionkitError: The extra ``video`` is not installed, or has no program for this system.
    """
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
    """Write a film as MP4 (H.264 where ffmpeg has it, else MPEG-4); width and height must be even.

    Raises:
        MotionkitError: There is no ffmpeg, or it failed; the message has its last lines.
    """
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
    """Send pictures to ffmpeg one after the other; it never holds more than a few."""
    with subprocess.Popen(_command(program, out, film), stdin=subprocess.PIPE, stderr=talk) as process:
        assert process.stdin is not None
        try:
            for done, picture in enumerate(film.pictures(), start=1):
                process.stdin.write(picture.tobytes())
                if progress is not None:
                    progress(done)
            process.stdin.close()
        except BrokenPipeError:
            pass  # ffmpeg has given up; its exit code and last words say why
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
    rest = ["-an", "-r", rate, "-movflags", "+faststart", "-f", "mp4", str(out.absolute())]
    return [program, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *source, *codec, *colours, *tags, *rest]


@cache
def _encoders(program: str) -> str:
    done = subprocess.run([program, "-hide_banner", "-encoders"], capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


MAX_PIXELS = 600_000_000
"""Frames times pixels; a GIF is held in memory until it is written."""

FASTEST = 50.0
"""Pictures per second; browsers slow down what is shown for less than two hundredths of a second."""

_SAMPLES = 6
_COLOURS = 255


def delays(frames: int, fps: float) -> list[int]:
    """Return how long each picture is shown, in milliseconds.

    A GIF counts in hundredths of a second. Ends are rounded, not durations, so 30 pictures a second are shown for 30,
    40, 30, 30, ... ms and the whole is as long as the motion.
    """
    ends = [round(100 * (frame + 1) / fps) for frame in range(frames)]
    return [10 * (end - start) for start, end in itertools.pairwise([0, *ends])]


def write_gif(path: Path, film: Film, *, progress: Callable[[int], None] | None = None) -> None:
    """Write a film as GIF; all pictures share one palette, so that colours do not flicker.

    Raises:
        MotionkitError: It is too long for a GIF.
    """
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
        transparency=_COLOURS,  # what did not change is left out; a number that no colour has
        optimize=True,
    )
    write_bytes_atomic(path, data.getvalue())


def _palette(film: Film) -> Any:
    """Return 255 colours that some of the film's pictures need most."""
    from PIL import Image

    count = min(film.frames, _SAMPLES)
    times = [k * (film.frames - 1) / max(count - 1, 1) / film.fps for k in range(count)]
    sheet = Image.new("RGB", (film.size[0], film.size[1] * count))
    for place, time in enumerate(times):
        sheet.paste(film.picture(time), (0, place * film.size[1]))
    return sheet.quantize(colors=_COLOURS)
