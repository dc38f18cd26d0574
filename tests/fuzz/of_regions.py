"""Readers of images with regions."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from motionkit_regions.datasets.base import RegionDataset
from motionkit_regions.datasets.settings import (
    CocoOptions,
    FinetuneOptions,
    GraspOptions,
    JsonlOptions,
    coco,
    finetune,
    grasp,
    jsonl,
)

from ..made.regions import grasp_rows, write_coco, write_finetune, write_grasp, write_jsonl
from .reader import Reader

_COUNT = 6
_SMALL = {"max_pixels": 100_000, "bad_share": 0.3}


def _reading(open_: Callable[[Path], RegionDataset]) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        data = open_(folder)
        for split in ("train", "val", "test"):
            found = data.regions(split, np.arange(data.count(split)))
            for image, mask, caption in zip(found.images, found.masks, found.captions, strict=True):
                assert image.dtype == np.uint8
                assert image.shape == (*mask.shape, 3)
                assert mask.dtype == np.bool_
                assert mask.any()
                assert caption.strip()
                caption.encode()

    return read


READERS = (
    Reader(
        "regions-jsonl", lambda scratch: write_jsonl(scratch / "jsonl", _COUNT),
        _reading(lambda folder: jsonl.build(JsonlOptions(path=folder, **_SMALL))),
    ),
    Reader(
        "regions-coco", lambda scratch: write_coco(scratch / "coco", _COUNT),
        _reading(lambda folder: coco.build(CocoOptions(path=folder, **_SMALL))),
    ),
    Reader(
        "regions-finetune", lambda scratch: write_finetune(scratch / "finetune", _COUNT),
        _reading(lambda folder: finetune.build(FinetuneOptions(path=folder, **_SMALL))),
    ),
    *(
        Reader(
            "regions-arrow", lambda scratch: write_grasp(scratch / "arrow", grasp_rows(_COUNT), files=1),
            _reading(lambda folder: grasp.build(GraspOptions(path=folder, **_SMALL))),
        )
        for _ in filter(find_spec, ["pyarrow"])  # extra `sa2va`
    ),
)  # fmt: skip
