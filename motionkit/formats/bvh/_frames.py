"""The MOTION section of a BVH file: how many frames, how long, and their values."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from motionkit.errors import MotionkitError
from motionkit.formats.bvh._hierarchy import COMMAS, Hierarchy, parse_number
from motionkit.motion._motion import check_size

Values = npt.NDArray[np.float64]

_WORD = re.compile(r":|[^\s:]+")
_PLAIN_WORD = re.compile(r"\S+")
_BLANK = re.compile(r"\s*\Z")
_SECONDS = 1e-4, 10.0
"""Seconds per frame that a motion may have. Others are mistakes, or would fill the memory once resampled."""

_USUAL_RATES = (30, 60, 120, 24, 25, 50, 100, 20, 15, 10, 12.5, 12, 48, 72, 75, 90, 144, 180, 200, 240, 250)
"""Frame rates of cameras and screens, the commonest first; 12.5 is KIT's."""

_COARSE, _FINEST, _EXACT = 5, 6, 10
"""Decimals: of rounded seconds, at most; of a rate that is looked for, at most; of exact seconds, at least."""


def parse_frames(text: str, start: int, tree: Hierarchy) -> tuple[float, Values]:
    """Parse everything after the word MOTION.

    Args:
        text: The whole file.
        start: Where the section begins.
        tree: The joints whose channels the values are.

    Returns:
        Frames per second, and ``[T, channels]`` values; NaN for each that is not finite.

    Raises:
        MotionkitError: Numbers are missing, too many or no numbers, or every frame has one that is not finite.
    """
    frames, rate, start = _header(text, start)
    width = tree.width
    if not width:
        raise MotionkitError("there is no motion in it.", why="no joint has channels.")
    # A value takes a digit and a blank; what cannot be there is refused before memory is taken for it.
    if frames * width > (len(text) - start + 1) // 2:
        raise MotionkitError(
            f"expected {frames} frames x {width} values, found only {len(text) - start} characters.",
            fix="the file is cut short, or its number of frames is wrong: export it again.",
        )
    check_size(frames, len(tree.names))
    if _BLANK.match(text, start):
        raise _miscount(frames, width, 0)
    try:
        values: Values = np.loadtxt(_lines(text, start), dtype=np.float64, comments=None, ndmin=2)
    except ValueError:
        values = _word_by_word(text, start, frames, tree)
    if values.shape != (frames, width):
        if values.size != frames * width:
            raise _miscount(frames, width, values.size)
        values = values.reshape(frames, width)
    finite = np.isfinite(values)
    if not finite.all():
        if not finite.all(axis=1).any():
            first = tree.channel(int(np.argwhere(~finite)[0, 1]))
            raise MotionkitError(
                f"every frame has a value that is not finite (NaN or infinite); the first is at {first}.",
                fix="the file is damaged: export it again.",
            )
        values[~finite] = np.nan
    return rate, values


def parse_first_frame(text: str, start: int, tree: Hierarchy) -> tuple[float, Values]:
    """Parse the first frame of a text that may end after it; as `parse_frames`, with ``[1, channels]`` values."""
    _, rate, start = _header(text, start)
    words = text[start:].split(maxsplit=tree.width)[: tree.width]
    values = [parse_number(word) for word in words]
    if not values or len(values) < tree.width or None in values:
        raise MotionkitError("its first frame is not whole.", fix="the file is cut short or damaged: export it again.")
    return rate, np.array([values], dtype=np.float64)


def _lines(text: str, start: int) -> Iterator[str]:
    """Yield lines one by one: a list of them would double the memory that a large file takes."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _header(text: str, start: int) -> tuple[int, float, int]:
    """Return the number of frames, their rate, and where the values begin."""
    found = [match for _, match in zip(range(7), _WORD.finditer(text, start), strict=False)]
    words = [match[0] for match in found if match[0] != ":"][:5]
    if len(words) < 5 or [words[place].lower() for place in (0, 2, 3)] != ["frames", "frame", "time"]:
        raise MotionkitError(
            "its MOTION section does not begin with 'Frames: ...' and 'Frame Time: ...'.",
            fix="the file is cut short or damaged: export it again.",
        )
    if not re.fullmatch(r"[0-9]{1,18}", words[1]) or int(words[1]) < 1:
        raise MotionkitError(f"'Frames: {words[1][:40]}' is no number of frames.", fix="export the file again.")
    seconds = parse_number(words[4])
    if seconds is None or not _SECONDS[0] <= seconds <= _SECONDS[1]:
        why, fix = COMMAS if "," in words[4] else (f"{_SECONDS[0]} to {_SECONDS[1]:g} s are read.", "export it again.")
        raise MotionkitError(f"'Frame Time: {words[4][:40]}' is no number of seconds per frame.", why=why, fix=fix)
    end = next(match.end() for match in reversed(found) if match[0] == words[4])
    return int(words[1]), frame_rate(words[4]), end


def frame_rate(seconds: str) -> float:
    """Return frames per second from seconds per frame as written, without their rounding.

    ``0.0333333``, ``0.033`` and ``0.0330000`` are 30, ``0.008330`` is 120, ``0.0333667`` is 29.97: a whole rate is
    taken when it is within 1e-4, or a usual one that few digits cannot tell from what is written; else the shortest
    one that many digits would be written for. Zeros at the end count as digits only where there are `_EXACT`
    decimals, as motionkit writes them: programs that round to milliseconds fill up with zeros to six or seven.
    """
    time = float(seconds)
    rate = 1.0 / time
    if round(rate) > 0 and abs(rate - round(rate)) < 1e-4 * rate:
        return float(round(rate))
    mantissa, _, exponent = seconds.lower().partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if digits < _EXACT:
        digits = len(mantissa.partition(".")[2].rstrip("0")) - int(exponent or 0)
    last = 10.0**-digits
    if digits <= _COARSE:
        # Rounded or cut off: the true time is at most half a last digit less, and less than one more.
        low, high = 1.0 / (time + last), 1.0 / max(time - 0.5 * last, 1e-12)
        return float(next((usual for usual in _USUAL_RATES if low < usual <= high), rate))
    short = (round(rate, places) for places in range(_FINEST + 1))
    return next((value for value in short if value > 0 and abs(1.0 / value - time) <= 0.5 * last), rate)


def _word_by_word(text: str, start: int, frames: int, tree: Hierarchy) -> Values:
    """Parse values that are not one frame per line, or find the word that is no number."""
    wanted = frames * tree.width
    values = array("d")
    found = 0
    for match in _PLAIN_WORD.finditer(text, start):
        value = parse_number(match[0])
        if value is None:
            frame, column = divmod(found, tree.width)
            where = f"in frame {frame}, at {tree.channel(column)}" if frame < frames else "after the last frame"
            why, fix = COMMAS if "," in match[0] else ("", "the file is damaged: export it again.")
            raise MotionkitError(f"{match[0][:40]!r} is no number, {where}.", why=why, fix=fix)
        found += 1
        if found <= wanted:
            values.append(value)
    if found != wanted:
        raise _miscount(frames, tree.width, found)
    return np.frombuffer(values, dtype=np.float64)


def _miscount(frames: int, width: int, found: int) -> MotionkitError:
    whole, rest = divmod(found, width)
    return MotionkitError(
        f"expected {frames} frames x {width} values = {frames * width}, found {found}"
        f"{f' (frame {whole + 1} is incomplete)' if rest else f' ({whole} frames)'}.",
        fix="the file is cut short, or its number of frames or CHANNELS is wrong: export it again"
        + (f", or write 'Frames: {whole}' if these are all." if whole and not rest else "."),
    )
