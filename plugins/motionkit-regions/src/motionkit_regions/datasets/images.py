"""Pictures of region data, which are not trusted: they are opened with limits.

A picture is of one of a few formats, its size is checked before a pixel is decoded, and it comes upright and in RGB.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from motionkit.documents import open_file
from motionkit.errors import MotionkitError, first_line
from motionkit_regions.datasets.rows import BAD_IMAGE, LARGE_IMAGE, NO_IMAGE, UnusableError

LARGEST_FILE = 256 << 20
"""Bytes of an encoded picture."""

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded by Pillow alone; PostScript, for example, is a program that would run."""

_BYTE = 255
_DARK = 64  # in the upper 8 of 16 bits: a picture of 8, 10, 12 or 14 bits in a file of 16

_Kind = TypeVar("_Kind", bound=np.generic)

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """Facts of a picture from its header."""

    mark: int  # hash of its bytes
    size: tuple[int, int]  # ``(height, width)`` upright
    stored: tuple[int, int]  # the same as stored, before EXIF's rotation
    turn: int  # EXIF's orientation, 1 to 8; 1 is upright


def read_picture(place: bytes | Path) -> bytes:
    """Return the encoded picture."""
    if isinstance(place, bytes):
        return place
    try:
        with open_file(place, LARGEST_FILE) as file:
            return file.read()
    except (OSError, ValueError) as error:  # a name may be none that a file can have
        raise UnusableError(NO_IMAGE, str(place)[:200]) from error
    except MotionkitError as error:
        raise UnusableError(BAD_IMAGE, error.message) from error


def mark_of(data: bytes) -> int:
    """Return 63 bits of a hash of a picture's bytes."""
    digest = blake2b(data, digest_size=8, salt=len(data).to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") >> 1


def look(data: bytes, *, max_pixels: int, decode: bool) -> Facts:
    """Return the facts of a picture."""
    with _opened(data, max_pixels) as image:
        turn = _turn(image)
        stored = (image.height, image.width)
        if decode:
            image.load()
    return Facts(mark_of(data), stored[::-1] if turn >= 5 else stored, stored, turn)


def load(
    data: bytes,  # the encoded picture
    *,
    max_pixels: int,  # a larger picture is refused
    max_side: int,  # the longer side of a larger picture is scaled down to this length; 0: never
    ground: str = "white",  # colour behind what is transparent
) -> NDArray[np.uint8]:
    """Return ``[H, W, 3]`` RGB, upright."""
    with _opened(data, max_pixels) as image:
        turn = _turn(image)
        shown = _rgb(image, ground)
        if turn in _TURNS:
            shown = shown.transpose(_TURNS[turn])
        height, width = fit((shown.height, shown.width), max_side)
        if (height, width) != (shown.height, shown.width):
            shown = shown.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
        return np.array(shown, np.uint8)


def fit(size: tuple[int, int], most: int) -> tuple[int, int]:
    """Return ``(height, width)`` with the longer side at most `most` pixels; 0 leaves it.

    Example:
        >>> fit((3000, 4000), 1024), fit((48, 48), 1024)
        ((768, 1024), (48, 48))
    """
    longest = max(size)
    if not most or longest <= most:
        return size
    height, width = (max(1, round(side * most / longest)) for side in size)
    return height, width


def upright(mask: NDArray[_Kind], turn: int) -> NDArray[_Kind]:
    """Turn an array ``[H, W]`` by EXIF's orientation."""
    if turn in (5, 6, 7, 8):
        mask = mask.T
    if turn in (2, 3, 6, 7):
        mask = mask[:, ::-1]
    if turn in (3, 4, 7, 8):
        mask = mask[::-1]
    return np.ascontiguousarray(mask)


@contextmanager
def _opened(data: bytes, max_pixels: int) -> Iterator[Image.Image]:
    """Open a picture; any error inside the block makes it unusable."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd headers, and of sizes, which are checked here
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                if image.width * image.height > max_pixels:
                    raise UnusableError(LARGE_IMAGE, f"{image.width:,} x {image.height:,}")
                yield image
    except UnusableError:
        raise
    except UnidentifiedImageError as error:
        raise UnusableError(BAD_IMAGE, f"none of {', '.join(_FORMATS)}") from error
    except Image.DecompressionBombError as error:
        raise UnusableError(LARGE_IMAGE, str(error)) from error
    # A damaged picture can raise nearly any exception.
    except Exception as error:
        raise UnusableError(BAD_IMAGE, first_line(error)[:80]) from error


def _turn(image: Image.Image) -> int:
    if image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode all of it, to see whether EXIF comes behind the pixels
    turn = image.getexif().get(_ORIENTATION, 1)
    return turn if turn in range(1, 9) else 1


def brightness(data: bytes, *, max_pixels: int) -> NDArray[Any]:
    """Return ``[H, W]``, upright: the brightest channel of each pixel in the picture's own depth, from 0 up.

    What is transparent is 0.
    """
    with _opened(data, max_pixels) as image:
        if _is_deep(image):
            return upright(_deep(image), _turn(image))
    brightest: NDArray[np.uint8] = load(data, max_pixels=max_pixels, max_side=0, ground="black").max(-1)
    return brightest


def _is_deep(image: Image.Image) -> bool:
    """Return whether a grey picture has more than 8 bits."""
    return image.mode.startswith("I") or image.mode == "F"


def _deep(image: Image.Image) -> NDArray[np.float64]:
    """Return the values of a grey picture of more than 8 bits."""
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all() or values.min() < 0:
        raise UnusableError(BAD_IMAGE, f"its values are {values.min():g} to {values.max():g}")
    return values


def _rgb(image: Image.Image, ground: str) -> Image.Image:
    if _is_deep(image):
        values = _deep(image)
        brightest = values.max()
        if brightest <= 1 and image.mode == "F":
            values = values * _BYTE
        elif brightest > _BYTE:  # 10, 12, 14, 16, ... bits, as few as hold the brightest value
            bits = int(brightest).bit_length()
            values = values / 2 ** (bits + bits % 2 - 8)
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    # Of several channels of 16 bits Pillow reads the upper 8.
    if ";16" in str(getattr(image, "tile", "")) and int(np.asarray(image).max(initial=0)) < _DARK:
        raise UnusableError(BAD_IMAGE, "channels of 16 bits, of which only the upper 8 are read, and these are dark")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, ground), rgba).convert("RGB")
    return image.convert("RGB")
