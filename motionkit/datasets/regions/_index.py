"""The list of usable regions of a source, made once and kept in the cache."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder
from motionkit.datasets.regions._images import Facts, look, mark_of, read_picture
from motionkit.datasets.regions._masks import area_of
from motionkit.datasets.regions._rows import BY_DESIGN, Record, Source, UnusableError, caption_of
from motionkit.runs import write_bytes_atomic

_log = logging.getLogger("motionkit.datasets.regions")
_VERSION = 2
_SPLITS = ("", "train", "val", "test")
_NAMED, _EVERY = 3, 10.0
_WORTH_KEEPING = 2.0
"""Seconds that a list must have taken to be kept."""


@dataclass
class LeftOut:
    """What is left out: how many by reason, and the names of the first."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, where: str, error: UnusableError) -> None:
        """Count a row or region, and keep its name if it is one of the first."""
        self.counts[error.reason] = self.counts.get(error.reason, 0) + 1
        named = self.first.setdefault(error.reason, [])
        if len(named) < _NAMED:
            named.append(f"{where} ({error.detail})" if error.detail else where)

    @property
    def unusable(self) -> int:
        """How many are at fault."""
        return sum(count for reason, count in self.counts.items() if reason not in BY_DESIGN)

    def said(self) -> str:
        """Return counts and names in words; empty when nothing is left out."""
        parts = []
        for reason, count in sorted(self.counts.items(), key=lambda pair: -pair[1]):
            more = ", ..." if count > len(self.first[reason]) else ""
            parts.append(f"{reason}: {count:,} ({', '.join(self.first[reason])}{more})")
        return "; ".join(parts)


@dataclass(frozen=True)
class Index:
    """The usable regions of a source.

    Attributes:
        record: ``[N]`` int64, number of the record.
        part: ``[N]`` int64, which of its regions.
        image: ``[N]`` int64, mark of the picture.
        area: ``[N]`` float32, share of the picture that is covered.
        named: ``[N]`` int64, split that the file names: 0 none, 1 train, 2 val, 3 test.
        left_out: The others.
    """

    record: NDArray[np.int64]
    part: NDArray[np.int64]
    image: NDArray[np.int64]
    area: NDArray[np.float32]
    named: NDArray[np.int64]
    left_out: LeftOut

    def __len__(self) -> int:
        return len(self.record)


def open_index(source: Source, *, max_pixels: int, verify: bool) -> Index:
    """Return the usable regions, from the cache where they were looked at before.

    Args:
        source: The records.
        max_pixels: Largest picture.
        verify: Whether pictures are decoded.
    """
    key = sha256(json.dumps([_VERSION, type(source).__name__, source.mark, max_pixels, verify]).encode()).hexdigest()[
        :24
    ]
    path = cache_folder() / f"regions-{key}.npz"
    if (found := _from_cache(path)) is not None:
        return found
    begun = time.monotonic()
    index = _make(source, max_pixels=max_pixels, verify=verify)
    if time.monotonic() - begun > _WORTH_KEEPING:
        _into_cache(path, index)
    return index


def _make(source: Source, *, max_pixels: int, verify: bool) -> Index:
    rows: list[tuple[int, int, int, int]] = []
    areas: list[float] = []
    left_out = LeftOut()
    pictures = _Pictures(max_pixels, verify)
    said = time.monotonic()
    for number in range(len(source)):
        if (now := time.monotonic()) - said > _EVERY:
            _log.info("%s: looked at %s of %s rows", source.place, f"{number:,}", f"{len(source):,}")
            said = now
        try:
            record = source.record(number)
            facts = pictures.facts(record)
        except UnusableError as error:
            left_out.add(source.where(number), error)
            continue
        known: dict[int, float] = {}  # several texts may be of one mask
        for place, part in enumerate(record.parts):
            try:
                caption_of(part.caption)
                if (key := id(part.mask)) not in known:
                    known[key] = area_of(part.mask, facts, max_pixels=max_pixels)
                areas.append(known[key])
            except UnusableError as error:
                left_out.add(record.where if len(record.parts) == 1 else f"{record.where}, region {place}", error)
                continue
            rows.append((number, place, facts.mark, _SPLITS.index(record.split)))
    table = np.array(rows, np.int64).reshape(-1, 4)
    numbers, places, image, named = (np.ascontiguousarray(column) for column in table.T)
    return Index(numbers, places, image, np.array(areas, np.float32), named, left_out)


class _Pictures:
    """Looks at each picture once."""

    def __init__(self, max_pixels: int, verify: bool) -> None:
        self._max_pixels, self._verify = max_pixels, verify
        self._known: dict[object, Facts | UnusableError] = {}

    def facts(self, record: Record) -> Facts:
        """Return the facts of a record's picture.

        Raises:
            UnusableError: It is missing or does not open.
        """
        key: object = record.image if isinstance(record.image, Path) else mark_of(record.image)
        if key not in self._known:
            try:
                data = read_picture(record.image)
                self._known[key] = look(data, max_pixels=self._max_pixels, decode=self._verify)
            except UnusableError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, UnusableError):
            raise UnusableError(found.reason, found.detail)
        return found


def _from_cache(path: Path) -> Index | None:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
            said = json.loads(found["left_out"].tobytes())
            left_out = LeftOut(dict(said["counts"]), {name: list(rows) for name, rows in said["first"].items()})
            columns = [found[name] for name in ("record", "part", "image", "area", "named")]
    # A damaged file is made again.
    except Exception:
        return None
    record, part, image, area, named = columns
    return Index(record, part, image, area, named, left_out) if len({len(one) for one in columns}) == 1 else None


def _into_cache(path: Path, index: Index) -> None:
    """Keep a list; a cache that cannot be written is no error."""
    said: Mapping[str, object] = {"counts": index.left_out.counts, "first": index.left_out.first}
    data = io.BytesIO()
    np.savez_compressed(
        data, record=index.record, part=index.part, image=index.image, area=index.area, named=index.named,
        left_out=np.frombuffer(json.dumps(said).encode(), np.uint8),
    )  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, data.getvalue())
    except OSError as error:
        _log.info("the list of regions was not kept: %s", error)
