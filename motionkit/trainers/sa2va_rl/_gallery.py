"""Pictures of held-out regions, with what was said of them before and after."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from motionkit.datasets.base import Regions
from motionkit.runs import write_bytes_atomic
from motionkit.trainers.sa2va_rl._measure import RegionFigures

FOLDER, INDEX = "gallery", "gallery.json"
_SHOWN = 144
"""Pixels that a picture is enlarged to."""

_LARGEST = 288
"""Pixels of the longer side of a photo: twice what a page shows."""

_DIM = 0.35
"""Light of a picture outside of its region."""


def write_gallery(folder: Path, regions: Regions, before: RegionFigures, after: RegionFigures, count: int) -> None:
    """Write a picture of each of the first regions: the region, and the policy's mask of its own caption.

    Args:
        folder: Created when absent.
        regions: The regions.
        before: Captions, masks and scores before training.
        after: Those after it.
        count: Pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for number in range(min(count, len(regions))):
        names = {}
        for name, mask in (("region", regions.masks), ("before", before.masks), ("after", after.masks)):
            names[name] = f"{number}-{name}.png"
            write_bytes_atomic(folder / names[name], _picture(regions.images[number], mask[number]))
        said.append(
            {
                "caption": regions.captions[number],
                "files": names,
                "captions": {"before": before.captions[number], "after": after.captions[number]},
                "cycle_iou": {
                    "before": round(float(before.scores["cycle_iou"][number]), 3),
                    "after": round(float(after.scores["cycle_iou"][number]), 3),
                },
            }
        )
    write_bytes_atomic(folder / INDEX, (json.dumps(said, indent=1) + "\n").encode())


def _picture(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> bytes:
    """Return an image as PNG, dark outside of a mask of any other size; a photo is scaled down, its shape kept."""
    photo = Image.fromarray(image)
    photo.thumbnail((_LARGEST, _LARGEST))
    image = np.asarray(photo)
    height, width = image.shape[:2]
    rows = np.arange(height) * mask.shape[0] // height
    columns = np.arange(width) * mask.shape[1] // width
    light = np.where(mask[rows][:, columns], 1.0, _DIM)[..., None]
    factor = max(1, _SHOWN // max(height, width))
    shown = (image * light).astype(np.uint8).repeat(factor, 0).repeat(factor, 1)
    data = io.BytesIO()
    Image.fromarray(shown).save(data, "PNG", optimize=True)
    return data.getvalue()
