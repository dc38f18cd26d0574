"""The common form of all formats: records of an image with its regions, or the reason why one is unusable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

NO_IMAGE = "the image is missing"
BAD_IMAGE = "the image does not open"
LARGE_IMAGE = "the image is too large"
NO_MASK = "there is no mask"
BAD_MASK = "the mask cannot be read"
MASK_SIZE = "the mask has another size than the image"
EMPTY_MASK = "the mask is empty"
NO_CAPTION = "the caption is empty"
LONG_CAPTION = "the caption is too long"
BAD_ROW = "the row cannot be read"
SEVERAL = "the text is of several regions"

BY_DESIGN = frozenset({SEVERAL})
"""Reasons that are not faults of the data; they do not count as unusable."""

LONGEST_ROW = 8 << 20
"""Bytes of a row without its picture."""

_LONGEST = 10_000


class UnusableError(Exception):
    """A row or region that is left out."""

    def __init__(
        self,
        reason: str,  # one of the reasons above: they are counted by it
        detail: str = "",  # what was found, for the first ones that are named
    ) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Part:
    """One region, not decoded."""

    mask: object  # COCO RLE, polygons or a picture's path; None without one
    caption: object  # its caption, not checked


@dataclass(frozen=True)
class Record:
    """One image with its regions."""

    where: str  # its name for messages
    image: bytes | Path  # the encoded picture, or its path
    parts: tuple[Part, ...]  # its regions
    split: str = ""  # ``train``, ``val``, ``test``, or empty if the file names none


class Source(Protocol):
    """The records of a place, read on demand."""

    place: str  # its name for messages
    mark: str  # fingerprint of its content
    inputs: Mapping[str, str]  # more to be recorded with a run, by option

    def __len__(self) -> int: ...

    def record(self, number: int) -> Record:
        """Return a record."""
        ...

    def where(self, number: int) -> str:
        """Return the name of a record for messages, also of one that cannot be read."""
        ...


def caption_of(text: object) -> str:
    """Return a caption with single spaces."""
    if not isinstance(text, str) or not (words := text.split()):
        raise UnusableError(NO_CAPTION)
    caption = " ".join(words).encode("utf-8", "replace").decode()  # lone surrogates are replaced
    if len(caption) > _LONGEST:
        raise UnusableError(LONG_CAPTION, f"{len(caption):,} letters")
    return caption


def split_of(name: object) -> str:
    """Return ``train``, ``val`` or ``test`` for the name of a split; RefCOCO's testA and testB are ``test``.

    Example:
        >>> split_of("testA"), split_of("validation"), split_of(None)
        ('test', 'val', '')
    """
    text = name.lower() if isinstance(name, str) else ""
    return next((split for split in ("train", "val", "test") if text.startswith(split)), "")
