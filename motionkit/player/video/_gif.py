"""Animated GIF through Pillow."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.player.video._film import Film
from motionkit.runs import write_bytes_atomic

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
