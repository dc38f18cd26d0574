"""Regions of files: an index of the usable ones, their splits, and reading on demand."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder
from motionkit.errors import MotionkitError
from motionkit.motion.corpus.ids import Split
from motionkit.runs import write_arrays_atomic
from motionkit_regions.datasets.base import RegionDataset, Regions
from motionkit_regions.datasets.formats import Coco, Finetune, Lines
from motionkit_regions.datasets.grasp import Grasp
from motionkit_regions.datasets.images import Facts, fit, load, look, mark_of, read_picture
from motionkit_regions.datasets.masks import area_of, draw_mask
from motionkit_regions.datasets.places import find_folder, given, one_file
from motionkit_regions.datasets.rows import BY_DESIGN, Record, Source, UnusableError, caption_of
from motionkit_regions.datasets.settings import CocoOptions, FinetuneOptions, GraspOptions, JsonlOptions, RegionReading

_log = logging.getLogger("motionkit.region_data")
_VERSION = 2
_SPLITS = ("", "train", "val", "test")
_NAMED, _EVERY = 3, 10.0
_WORTH_KEEPING = 2.0  # indices that took fewer seconds are not cached

SPLITS: tuple[Split, ...] = ("train", "val", "test")
_FEW, _FEWEST = 3, 20

_TRIES = 100


@dataclass
class LeftOut:
    """Counts of rows and regions that are left out, by reason, and the names of the first."""

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

    def describe(self) -> str:
        """Return counts and names in words; empty if nothing is left out."""
        parts = []
        for reason, count in sorted(self.counts.items(), key=lambda pair: -pair[1]):
            more = ", ..." if count > len(self.first[reason]) else ""
            parts.append(f"{reason}: {count:,} ({', '.join(self.first[reason])}{more})")
        return "; ".join(parts)


@dataclass(frozen=True)
class Index:
    """The usable regions of a source."""

    record: NDArray[np.int64]  # [N] int64, number of the record
    part: NDArray[np.int64]  # [N] int64, which of its regions
    image: NDArray[np.int64]  # [N] int64, mark of the picture
    area: NDArray[np.float32]  # [N] float32, share of the picture that is covered
    named: NDArray[np.int64]  # [N] int64, split that the file names: 0 none, 1 train, 2 val, 3 test
    left_out: LeftOut  # the others

    def __len__(self) -> int:
        return len(self.record)


def open_index(source: Source, *, max_pixels: int, verify: bool) -> Index:
    """Return the usable regions, from the cache if they are in it."""
    key = sha256(json.dumps([_VERSION, type(source).__name__, source.mark, max_pixels, verify]).encode()).hexdigest()
    path = cache_folder() / f"regions-{key[:24]}.npz"
    if (cached := _from_cache(path)) is not None:
        return cached
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
    logged = time.monotonic()
    for number in range(len(source)):
        if (now := time.monotonic()) - logged > _EVERY:
            _log.info("%s: looked at %s of %s rows", source.place, f"{number:,}", f"{len(source):,}")
            logged = now
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
    """Reads the facts of each picture once."""

    def __init__(self, max_pixels: int, verify: bool) -> None:
        self._max_pixels, self._verify = max_pixels, verify
        self._known: dict[object, Facts | UnusableError] = {}

    def facts(self, record: Record) -> Facts:
        """Return the facts of a record's picture."""
        key: object = record.image if isinstance(record.image, Path) else mark_of(record.image)
        if key not in self._known:
            try:
                data = read_picture(record.image)
                self._known[key] = look(data, max_pixels=self._max_pixels, decode=self._verify)
            except UnusableError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, UnusableError):
            raise UnusableError(known.reason, known.detail)
        return known


def _from_cache(path: Path) -> Index | None:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            document = json.loads(file["left_out"].tobytes())
            left_out = LeftOut(dict(document["counts"]), {name: list(rows) for name, rows in document["first"].items()})
            columns = [file[name] for name in ("record", "part", "image", "area", "named")]
    # A damaged file is made again.
    except Exception:
        return None
    record, part, image, area, named = columns
    return Index(record, part, image, area, named, left_out) if len({len(column) for column in columns}) == 1 else None


def _into_cache(path: Path, index: Index) -> None:
    """Cache an index; a cache that cannot be written is not an error."""
    document: Mapping[str, object] = {"counts": index.left_out.counts, "first": index.left_out.first}
    arrays = {
        "record": index.record, "part": index.part, "image": index.image, "area": index.area, "named": index.named,
        "left_out": np.frombuffer(json.dumps(document).encode(), np.uint8),
    }  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays_atomic(path, arrays)
    except OSError as error:
        _log.info("the list of regions was not kept: %s", error)


def split_regions(
    image: NDArray[np.int64], named: NDArray[np.int64], *, held_out: float, by_hash: bool, place: str
) -> dict[Split, NDArray[np.int64]]:
    """Return the numbers of the regions of each split, in an order that is the same wherever the files lie.

    The data's own splits hold if they name all three; a picture with regions of several of them goes to test before val
    before train. Otherwise the hash of a picture decides; it stays in its split when pictures are added, once there are
    some hundred.

    Args:
        image: ``[N]`` mark of each region's picture, 63 random bits.
        named: ``[N]`` split that the file names: 0 none, 1 train, 2 val, 3 test.
        held_out: Share of the pictures in val, and in test, if marks decide.
        by_hash: Ignore the data's own splits.
        place: Where the data are, for messages.
    """
    pictures, picture_of = np.unique(image, return_inverse=True)
    if len(pictures) < _FEW:
        raise MotionkitError(
            f"{place} has usable regions of {len(pictures)} images.", why="train, val and test need an image each."
        )
    if not by_hash and {2, 3} & set(named.tolist()):
        strongest = np.zeros(len(pictures), np.int64)
        np.maximum.at(strongest, picture_of, named)
        of_picture = np.maximum(strongest, 1)  # a row without a name is for training
        if len(there := sorted(set(of_picture.tolist()))) < len(SPLITS):
            raise MotionkitError(
                f"{place} has the splits {' and '.join(SPLITS[number - 1] for number in there)} only.",
                why="a run trains on train, watches val and is measured on test.",
                fix="name all three, or --dataset.split hash divides the images anew.",
            )
    else:
        of_picture = _by_mark(pictures, held_out)
    order = np.argsort(_mixed(image, np.arange(len(image))), kind="stable")
    of_region = of_picture[picture_of][order]
    return {split: order[of_region == number] for number, split in enumerate(SPLITS, 1)}


def _by_mark(pictures: NDArray[np.int64], held_out: float) -> NDArray[np.int64]:
    """Return the split of each picture, sorted by their marks: the smallest are test, the next val.

    A small set has 20 pictures in each, but no more than a fifth.
    """
    count = len(pictures)
    share = pictures / 2.0**63
    fewest = max(1, min(_FEWEST, count // 5))
    test = min(max(fewest, int((share < held_out).sum())), count - 2)
    val = min(max(fewest, int(((share >= held_out) & (share < 2 * held_out)).sum())), count - 1 - test)
    return np.repeat([3, 2, 1], [test, val, count - test - val])


def _mixed(image: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return pseudo-random numbers (splitmix64), so that the first regions are of many pictures."""
    value: NDArray[np.uint64] = image.astype(np.uint64) ^ (place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(value ^ (value >> np.uint64(31)))


class RegionFiles(RegionDataset):
    """See `motionkit_regions.datasets.base.RegionDataset`.

    Every row is read before the first run: regions that cannot be used are left out, counted and named. If a region
    cannot be read later, the next of its split takes its place, with a warning.
    """

    def __init__(self, name: str, source: Source, options: RegionReading) -> None:
        self.name, self._source, self._options = name, source, options
        self._index = open_index(source, max_pixels=options.max_pixels, verify=options.verify)
        self._judge()
        by_hash = options.split == "hash"
        index = self._index
        self._members = split_regions(
            index.image, index.named, held_out=options.held_out, by_hash=by_hash, place=source.place
        )
        counts = ", ".join(f"{len(self._members[split]):,} {split}" for split in SPLITS)
        left_out = index.left_out.describe()
        pictures = len(np.unique(index.image))
        self.summary = f"{counts} regions of {pictures:,} images{f'; left out: {left_out}' if left_out else ''}"
        if left_out:
            _log.warning("%s: left out: %s", source.place, left_out)
        self._noted: set[int] = set()

    def _judge(self) -> None:
        left_out, usable = self._index.left_out, len(self._index)
        place, bad = self._source.place, left_out.unusable
        if not usable:
            raise MotionkitError(
                f"{place} has no region that can be used.", why=left_out.describe() or "it has no rows.",
                fix="docs/region-data.md describes the formats.",
            )  # fmt: skip
        if bad > self._options.bad_share * (bad + usable):
            share = min(0.99, round(bad / (bad + usable) + 0.005, 2))
            raise MotionkitError(
                f"{bad:,} of {bad + usable:,} regions of {place} cannot be used.",
                why=f"{left_out.describe()}.",
                fix=f"repair them, or go on with the others: --dataset.bad-share {share:g}",
            )

    @property
    def inputs(self) -> Mapping[str, str]:
        """Fingerprints of its files."""
        return {"path": self._source.mark, **self._source.inputs}

    def count(self, split: Split) -> int:
        """Return the number of regions of a split."""
        return len(self._members[split])

    def areas(self, split: Split) -> NDArray[np.float32]:
        """See `motionkit_regions.datasets.base.RegionDataset.areas`."""
        return self._index.area[self._members[split]]

    def picture_marks(self, split: Split) -> Sequence[str]:
        """See `motionkit_regions.datasets.base.RegionDataset.picture_marks`."""
        return [f"{mark:016x}" for mark in self._index.image[self._members[split]].tolist()]

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Read regions; fails if a hundred in a row can no longer be read."""
        regions = [self._read(split, int(number)) for number in index]
        images, masks, captions = zip(*regions, strict=True) if regions else ((), (), ())
        return Regions(images, masks, captions)

    def _read(self, split: Split, number: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_], str]:
        members = self._members[split]
        problem = ""
        for place in range(_TRIES):
            entry = int(members[(number + place) % len(members)])
            try:
                return self._open(entry)
            except UnusableError as error:
                problem = f"{self._source.where(int(self._index.record[entry]))}: {error}"
                if entry not in self._noted:
                    self._noted.add(entry)
                    _log.warning("%s, another region takes its place.", problem)
        raise MotionkitError(
            f"the regions of {self._source.place} can no longer be read.", why=problem,
            fix="see that the files are still there, then --resume the run.", code=1,
        )  # fmt: skip

    def _open(self, entry: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_], str]:
        options, index = self._options, self._index
        record = self._source.record(int(index.record[entry]))
        part = record.parts[int(index.part[entry])]
        data = read_picture(record.image)
        facts = look(data, max_pixels=options.max_pixels, decode=False)
        image = load(data, max_pixels=options.max_pixels, max_side=options.max_side)
        size = fit(facts.size, options.max_side)
        return image, draw_mask(part.mask, facts, max_pixels=options.max_pixels, size=size), caption_of(part.caption)


def open_grasp(options: GraspOptions) -> RegionFiles:
    """Open Grasp-Any-Region."""
    folder, commit = find_folder(options.path, options.revision, options.subset)
    return RegionFiles("grasp-any-region", Grasp(folder, options.subset, commit), options)


def open_coco(options: CocoOptions) -> RegionFiles:
    """Open referring expressions on COCO images."""
    path = given(options.path, "coco-refexp", "a folder with instances.json and refs.json")
    return RegionFiles("coco-refexp", Coco(path, options.refs, options.images), options)


def open_finetune(options: FinetuneOptions) -> RegionFiles:
    """Open Sa2VA's finetune file."""
    path = given(options.path, "sa2va-finetune", "annotations.json or its folder")
    file = one_file(path, ("annotations.json", "*.json"), "annotations.json")
    return RegionFiles("sa2va-finetune", Finetune(file, options.images), options)


def open_jsonl(options: JsonlOptions) -> RegionFiles:
    """Open a file with a region a line."""
    path = given(options.path, "regions-jsonl", "a .jsonl file, or its folder")
    return RegionFiles("regions-jsonl", Lines(one_file(path, ("regions.jsonl", "*.jsonl"), ".jsonl file")), options)
