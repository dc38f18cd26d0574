"""Regions of files: which there are, in which split, read and scaled down when they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Regions, Split
from motionkit.datasets.regions import RegionReading
from motionkit.datasets.regions._images import fit, load, look, read_picture
from motionkit.datasets.regions._index import open_index
from motionkit.datasets.regions._masks import draw_mask
from motionkit.datasets.regions._rows import Source, UnusableError, caption_of
from motionkit.datasets.regions._split import SPLITS, split_regions
from motionkit.errors import MotionkitError

_log = logging.getLogger("motionkit.datasets.regions")
_TRIES = 100


class RegionFiles:
    """See `motionkit.datasets.base.RegionDataset`, `HasRegionAreas`, `HasPictureMarks` and `Described`.

    Every row is looked at before the first run: regions that cannot be used are left out, counted and named. One that
    can no longer be read later gives way to the next of its split, with a warning.

    Args:
        name: Registry name.
        source: The records.
        options: How they are read and split.

    Raises:
        MotionkitError: Nothing can be used, or less than `RegionReading.bad_share` allows; the splits do not fit.

    Attributes:
        name: Registry name.
        inputs: Fingerprints for run.json.
        summary: What there is and what was left out.
    """

    def __init__(self, name: str, source: Source, options: RegionReading) -> None:
        self.name, self._source, self._options = name, source, options
        self.inputs: Mapping[str, str] = {"path": source.mark, **source.inputs}
        self._index = open_index(source, max_pixels=options.max_pixels, verify=options.verify)
        self._judge()
        by_hash = options.split == "hash"
        index = self._index
        self._members = split_regions(
            index.image, index.named, held_out=options.held_out, by_hash=by_hash, place=source.place
        )
        counts = ", ".join(f"{len(self._members[split]):,} {split}" for split in SPLITS)
        said = index.left_out.said()
        pictures = len(np.unique(index.image))
        self.summary = f"{counts} regions of {pictures:,} images{f'; left out: {said}' if said else ''}"
        if said:
            _log.warning("%s: left out: %s", source.place, said)
        self._noted: set[int] = set()

    def _judge(self) -> None:
        left_out, usable = self._index.left_out, len(self._index)
        place, bad = self._source.place, left_out.unusable
        if not usable:
            raise MotionkitError(
                f"{place} has no region that can be used.", why=left_out.said() or "it has no rows.",
                fix="docs/region-data.md describes the formats.",
            )  # fmt: skip
        if bad > self._options.bad_share * (bad + usable):
            share = min(0.99, round(bad / (bad + usable) + 0.005, 2))
            raise MotionkitError(
                f"{bad:,} of {bad + usable:,} regions of {place} cannot be used.",
                why=f"{left_out.said()}.",
                fix=f"repair them, or go on with the others: --dataset.bad-share {share:g}",
            )

    def count(self, split: Split) -> int:
        """Return the number of regions of a split."""
        return len(self._members[split])

    def areas(self, split: Split) -> NDArray[np.float32]:
        """See `motionkit.datasets.base.HasRegionAreas`."""
        return self._index.area[self._members[split]]

    def picture_marks(self, split: Split) -> Sequence[str]:
        """See `motionkit.datasets.base.HasPictureMarks`."""
        return [f"{mark:016x}" for mark in self._index.image[self._members[split]].tolist()]

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Read regions.

        Raises:
            MotionkitError: A hundred regions one after the other can no longer be read (exit code 1).
        """
        found = [self._read(split, int(number)) for number in index]
        images, masks, captions = zip(*found, strict=True) if found else ((), (), ())
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
