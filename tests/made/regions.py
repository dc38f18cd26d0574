"""Scenes of the built-in shapes as files of each format, 48 x 48 pixels: what the small policy sees."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from motionkit_regions.datasets.scenes import Shapes
from motionkit_regions.datasets.settings import ShapesOptions

SIDE = 48


def scenes(count: int) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """Images ``[48, 48, 3]``, masks ``[48, 48]`` and captions."""
    found = Shapes(ShapesOptions(scenes="simple")).regions("train", np.arange(count))
    masks = [mask.repeat(2, 0).repeat(2, 1) for mask in found.masks]
    return list(zip(found.images, masks, found.captions, strict=True))


def png(image: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(image).save(data, "PNG")
    return data.getvalue()


def letters(mask: np.ndarray) -> str:
    """Compressed RLE, letter by letter, after the description of the format."""
    flat = mask.T.reshape(-1).astype(int).tolist()
    counts, last, run = [], 0, 0
    for value in flat:
        if value != last:
            counts.append(run)
            run, last = 0, value
        run += 1
    counts.append(run)
    return letters_of(counts)


def letters_of(counts: list[int]) -> str:
    """Lengths of runs as letters."""
    text = ""
    for place, count in enumerate(counts):
        x = count - counts[place - 2] if place > 2 else count
        more = True
        while more:
            five, x = x & 31, x >> 5
            more = not ((x == 0 and not five & 16) or (x == -1 and five & 16))
            text += chr(48 + five + (32 if more else 0))
    return text


def rle(mask: np.ndarray) -> dict[str, Any]:
    return {"size": list(mask.shape), "counts": letters(mask)}


def rectangles(mask: np.ndarray) -> list[list[float]]:
    """Polygons: a rectangle around each run of each row."""
    found = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
        for a, b in edges.reshape(-1, 2).tolist():
            found.append([a, y, b, y, b, y + 1, a, y + 1])
    return found


def write_jsonl(folder: Path, count: int = 40, **first: Any) -> Path:
    """Masks are pictures, RLE and polygons in turn; `first` changes the first line."""
    folder.mkdir(parents=True)
    rows = []
    for number, (image, mask, caption) in enumerate(scenes(count)):
        (folder / f"{number}.png").write_bytes(png(image))
        (folder / f"{number}-mask.png").write_bytes(png(mask))
        shape = (f"{number}-mask.png", rle(mask), rectangles(mask))[number % 3]
        rows.append({"image": f"{number}.png", "mask": shape, "caption": caption})
    rows[0] |= first
    (folder / "regions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_coco(folder: Path, count: int = 40) -> Path:
    """Two sentences of each annotation, splits as RefCOCO names them."""
    (folder / "train2014").mkdir(parents=True)
    content: dict[str, Any] = {"images": [], "annotations": [], "categories": []}
    refs = []
    for number, (image, mask, caption) in enumerate(scenes(count)):
        name = f"COCO_train2014_{number:012d}.png"
        (folder / "train2014" / name).write_bytes(png(image))
        content["images"].append({"id": number, "file_name": name, "height": SIDE, "width": SIDE})
        shape = rectangles(mask) if number % 2 else rle(mask)
        content["annotations"].append({"id": 1000 + number, "image_id": number, "segmentation": shape})
        split = ("val", "testA", "testB")[number] if number < 3 else "train"
        sentences = [{"raw": caption.upper(), "sent": caption}, {"raw": "it", "sent": "it"}]
        refs.append({"ref_id": number, "ann_id": 1000 + number, "split": split, "sentences": sentences})
    (folder / "instances.json").write_text(json.dumps(content))
    (folder / "refs(unc).json").write_text(json.dumps(refs))
    return folder


def write_finetune(folder: Path, count: int = 40) -> Path:
    """Two regions of each image: the object, and everything."""
    (folder / "images").mkdir(parents=True)
    rows = []
    for number, (image, mask, caption) in enumerate(scenes(count)):
        (folder / "images" / f"{number}.png").write_bytes(png(image))
        masks = [rectangles(mask), [[0, 0, SIDE, 0, SIDE, SIDE, 0, SIDE]]]
        rows.append({"image": f"{number}.png", "mask": masks, "text": [caption, "the picture"]})
    (folder / "annotations.json").write_text(json.dumps(rows))
    return folder


def grasp_rows(count: int) -> list[dict[str, Any]]:
    ask = {"from": "human", "value": "Describe <Prompt0>."}
    return [
        {
            "image": {"bytes": png(image), "path": None}, "mask_rle": rle(mask), "catagory": "shape",
            "conversations": [ask, {"from": "gpt", "value": caption}],
        }
        for image, mask, caption in scenes(count)
    ]  # fmt: skip


def write_grasp(
    folder: Path, rows: list[dict[str, Any]], *, part: str = "Fine-Grained-Dataset", files: int = 2
) -> Path:
    """Arrow streams, as ``save_to_disk`` writes them."""
    import pyarrow as pa

    (folder / part).mkdir(parents=True)
    schema = pa.Table.from_pylist(rows).schema
    for number in range(files):
        path = folder / part / f"data-{number:05d}-of-{files:05d}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows[number::files], schema), max_chunksize=3)
    return folder
