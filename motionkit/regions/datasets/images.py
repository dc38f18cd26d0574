"""Files of region data, which are not trusted: pictures that are opened with limits, and where files are.

A picture is of one of a few formats, its size is checked before a pixel is decoded, and it comes upright and in RGB.
`find_folder` also takes a folder from the hub.
"""

from __future__ import annotations

import io
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.regions.datasets.rows import BAD_IMAGE, LARGE_IMAGE, NO_IMAGE, UnusableError

LARGEST_FILE = 256 << 20
"""Bytes of an encoded picture."""

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded by Pillow alone; PostScript, for example, is a program that would run."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_KNOWN = "HaochenWang/Grasp-Any-Region-Dataset"

_PICTURES = ("images", "train2014", "train2017")
_WHOLE, _ENDS = 2_000_000_000, 1 << 16
"""Bytes of all pictures up to which all of them are hashed; bytes at both ends of each that are hashed otherwise."""


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


def upright(mask: NDArray[np.bool_], turn: int) -> NDArray[np.bool_]:
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
        raise UnusableError(BAD_IMAGE, str(error).partition("\n")[0][:80] or type(error).__name__) from error


def _turn(image: Image.Image) -> int:
    if image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode all of it, to see whether EXIF comes behind the pixels
    turn = image.getexif().get(_ORIENTATION, 1)
    return turn if turn in range(1, 9) else 1


def _rgb(image: Image.Image, ground: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits
        values = np.asarray(image).astype(np.int64)
        return Image.fromarray((values.clip(0, 65_535) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, ground), rgba).convert("RGB")
    return image.convert("RGB")


def given(path: Path | None, name: str, content: str) -> Path:
    """Return the path of a dataset."""
    if path is None:
        raise MotionkitError(f"--dataset {name} needs --dataset.path.", fix=f"give {content}.")
    path = path.expanduser()
    if not path.exists():
        raise MotionkitError(f"{path} does not exist.", fix=f"give {content}.")
    return path


def one_file(
    path: Path,  # file or folder
    patterns: Sequence[str],  # such as ``instances*.json``, the best first
    kind: str,  # what they are, for messages
    *,
    part: str = "",  # text that the name must hold
) -> Path:
    """Return the file itself, or the single file of a folder that matches the first pattern with a match."""
    if path.is_file():
        return path
    for pattern in patterns:
        matches = sorted(file for file in path.glob(pattern) if file.is_file() and part in file.name)
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise MotionkitError(
                f"{path} has several files {pattern}: {_some(file.name for file in matches)}.", fix="give one of them."
            )
    raise MotionkitError(
        f"{path} has no {kind}.", why=f"it holds {_some(file.name for file in sorted(path.iterdir())) or 'nothing'}.",
        fix="docs/region-data.md shows the layout.",
    )  # fmt: skip


def picture_folder(folder: Path, chosen: Path | None, first: str) -> Path:
    """Return the folder of the pictures: the one given, else the first usual one that holds the first picture."""
    if chosen is not None:
        chosen = chosen.expanduser()
        if not chosen.is_dir():
            raise MotionkitError(f"--dataset.images {chosen} is not a folder.", fix="give the folder of the images.")
        return chosen
    usual = [folder / name for name in _PICTURES]
    for place in (*usual, folder):
        if first and (place / first).is_file():
            return place
    return next((place for place in usual if place.is_dir()), folder)


def find_folder(place: Path | None, revision: str, subset: str) -> tuple[Path, str]:
    """Return the folder, and the commit if it is from the hub."""
    if place is None:
        raise MotionkitError("--dataset grasp-any-region needs --dataset.path.", fix=f"give its folder, or {_KNOWN}.")
    folder, path = place.expanduser(), place.as_posix()
    if folder.is_dir():
        return folder, ""
    if folder.exists() or not _HUB_ID.fullmatch(path):
        raise MotionkitError(f"there is no folder {path}.", fix=f"give the folder of the dataset, or {_KNOWN}.")
    return _download(path, revision, subset)


def _download(name: str, revision: str, subset: str) -> tuple[Path, str]:
    from huggingface_hub import snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    prefixes = [first.strip() for first in subset.split(",") if first.strip()]
    patterns = [f"{_letters(first)}*/{kind}" for first in prefixes for kind in ("*.arrow", "*.json")]
    try:
        cached = snapshot_download(
            name, repo_type="dataset", revision=revision or None, local_files_only=offline,
            allow_patterns=patterns or ["*.arrow", "*.json"],
        )  # fmt: skip
    # The hub's client raises errors of its own, of the network and of the disk.
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise MotionkitError(
            f"there is no folder {name}, and the dataset cannot be had from the hub: {first}",
            why="HF_HUB_OFFLINE is set, and the cache does not have it." if offline else "",
            fix=f"hf download {name} --repo-type dataset --local-dir data, then --dataset.path data",
        ) from error
    folder = Path(cached)
    return folder, folder.name


def _letters(first: str) -> str:
    """Return a pattern for a name's first letters in either case."""
    return "".join(
        f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else letter
        for letter in first
        if letter not in "*?[]"
    )


def require_keys(rows: Iterable[Mapping[Any, Any]], needed: Sequence[str], path: Path, *, row: str, none: str) -> None:
    """Refuse a file whose rows all lack a key."""
    keys = {str(key) for table in rows for key in table}
    if missing := [key for key in needed if key not in keys]:
        raise MotionkitError(
            f"no {row} of {path} has {' or '.join(missing)}.",
            why=f"found were {', '.join(sorted(keys)[:8]) or none}; wanted are {', '.join(needed)}.",
            fix=f"docs/region-data.md shows a {row}.",
        )


def fingerprint(documents: Iterable[Path], pictures: Iterable[Path], root: Path) -> str:
    """Return a hash of documents, pictures and the pictures' names.

    Of pictures of more than 2 GB together only sizes and the first and last 64 kB of each are hashed: reading all would
    take minutes.
    """
    mark = sha256()
    for path in documents:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                mark.update(block)
    sizes = {path: _size(path) for path in sorted(set(pictures))}
    fully = sum(sizes.values()) <= _WHOLE
    for path, size in sizes.items():
        name = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        mark.update(f"{name.as_posix()} {size}\n".encode(errors="replace"))
        if size > 0:
            _add_content(mark, path, fully=fully)
    return mark.hexdigest()


def _size(path: Path) -> int:
    """Return the bytes of a plain file; -1 if there is none."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return -1
    return state.st_size if stat.S_ISREG(state.st_mode) else -1


def _add_content(mark: Any, path: Path, *, fully: bool) -> None:
    try:
        with path.open("rb") as file:
            if fully:
                while block := file.read(1 << 20):
                    mark.update(block)
            else:
                mark.update(file.read(_ENDS))
                file.seek(max(0, path.stat().st_size - _ENDS))
                mark.update(file.read())
    except OSError:  # it is left out, with the reason, when its rows are indexed
        mark.update(b"unreadable")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
