"""Pictures of regions, with a policy's captions and its masks of these."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.motion.corpus.ids import Split
from motionkit.runs import write_bytes_atomic
from motionkit_regions.datasets.base import RegionDataset
from motionkit_regions.evaluation.measure import RegionFigures

GALLERY, INDEX = "gallery", "gallery.json"
SUFFIX = ".webp"
_GROUP = 8  # regions of each group: the first ones, the highest and the lowest
_SCORES = ("cycle_iou", "judge_iou", "unique", "meteor", "cider", "referring_iou")  # scores that are kept of a region

_FIRST, _UP, _DOWN = "first", "up", "down"

_LONGEST, _LEAST = 320, 240
"""Pixels of the longer side: larger images are made smaller, much smaller ones are enlarged by a whole factor."""

_DIM = 0.3  # light of an image outside of the mask
_EDGE = (255, 214, 10)  # colour of the outline of the wanted region
_QUALITY = 82


def write_gallery(
    folder: Path,
    data: RegionDataset,
    split: Split,
    index: NDArray[np.int64],
    after: RegionFigures,
    before: RegionFigures | None = None,
) -> None:
    """Write pictures of some regions: image, region, and the policy's mask of its own caption.

    They are the first regions, and those whose cycle IoU gained and lost most; without `before` those with the highest
    and the lowest.

    Args:
        folder: Created if it is missing; pictures of an earlier gallery are deleted.
        data: The data.
        split: Their split.
        index: ``[R]`` the regions that were measured.
        after: Greedy captions of the policy, and its masks of them.
        before: The same of the policy that it is compared with.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"after": after} if before is None else {"before": before, "after": after}
    chosen = choose(after.scores["cycle_iou"] - (0.0 if before is None else before.scores["cycle_iou"]))
    regions = data.regions(split, index[list(chosen)])
    entries, written = [], set()
    for place, (row, why) in enumerate(chosen.items()):
        image, region = regions.images[place], regions.masks[place]
        pictures = {"image": picture(image), "region": picture(image, region)}
        pictures |= {name: picture(image, side.masks[row], region) for name, side in figures.items()}
        files = {}
        for name, content in pictures.items():
            files[name] = f"{row}-{name}{SUFFIX}"
            write_bytes_atomic(folder / files[name], content)
        written |= set(files.values())
        entries.append(
            {
                "region": int(index[row]), "why": why, "caption": regions.captions[place], "files": files,
                "captions": {name: side.captions[row] for name, side in figures.items()},
                "scores": {name: _scores(side, row) for name, side in figures.items()},
            }
        )  # fmt: skip
    document = {"compared": before is not None, "captions": "greedy", "regions": entries}
    write_bytes_atomic(folder / INDEX, (json.dumps(document, indent=1) + "\n").encode())
    for old in folder.glob(f"*{SUFFIX}"):
        if old.name not in written:
            old.unlink()


def choose(values: NDArray[np.float64], group: int = _GROUP) -> dict[int, str]:
    """Return which regions are shown, and why: ``first``, ``up`` for the highest values, ``down`` for the lowest.

    Args:
        values: ``[R]`` a value of each region.
        group: Regions of each sort.

    Example:
        >>> choose(np.array([0.0, 0.1, -0.3, 0.9, 0.2]), 1)
        {0: 'first', 3: 'up', 2: 'down'}
    """
    chosen = dict.fromkeys(range(min(group, len(values))), _FIRST)
    if len(values) <= 3 * group:
        return dict.fromkeys(range(len(values)), _FIRST)
    order = np.argsort(values, kind="stable")
    for why, places in ((_UP, order[::-1]), (_DOWN, order)):
        fresh = [int(place) for place in places if int(place) not in chosen]
        chosen |= dict.fromkeys(fresh[:group], why)
    return chosen


def _scores(figures: RegionFigures, row: int) -> dict[str, float]:
    return {name: round(float(figures.scores[name][row]), 3) for name in _SCORES if name in figures.scores}


def picture(
    image: NDArray[np.uint8],  # [H, W, 3], any size
    mask: NDArray[np.bool_] | None = None,  # [h, w], of any size as well; None leaves the image as it is
    outline: NDArray[np.bool_] | None = None,  # [h, w], whose outline is drawn
) -> bytes:
    """Return an image as WebP, dark outside of a mask."""
    from PIL import Image

    height, width = image.shape[:2]
    longest = max(height, width)
    scale = _LONGEST / longest if longest > _LONGEST else max(1, -(-_LEAST // longest))
    size = max(1, round(height * scale)), max(1, round(width * scale))
    drawn = Image.fromarray(image)
    how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
    pixels = np.asarray(drawn.resize(size[::-1], how), dtype=np.float64)
    if mask is not None:
        pixels = pixels * np.where(_at(mask, size), 1.0, _DIM)[..., None]
    if outline is not None:
        pixels = np.where(_edge(_at(outline, size))[..., None], _EDGE, pixels)
    data = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(data, "WEBP", lossless=scale >= 1, quality=_QUALITY)
    return data.getvalue()


def _at(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Resize a mask by nearest neighbour."""
    rows = np.arange(size[0]) * mask.shape[0] // size[0]
    columns = np.arange(size[1]) * mask.shape[1] // size[1]
    return np.asarray(mask[rows][:, columns])


def _edge(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the inner border of a mask, two pixels wide (mask minus its erosion)."""
    inner = mask
    for _ in range(2):
        padded = np.pad(inner, 1, mode="edge")
        inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:] & inner
    return mask & ~inner
