"""The gallery: which regions, how large, and what is left of an older one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from motionkit_regions.evaluation.gallery import GALLERY, INDEX, _edge, choose, picture, write_gallery
from motionkit_regions.evaluation.measure import RegionFigures
from motionkit_regions.pages import gallery
from tests.made.known_regions import SIZE, Blocks


def figures(values: np.ndarray) -> RegionFigures:
    count = len(values)
    masks = np.zeros((count, *SIZE), bool)
    return RegionFigures({"cycle_iou": values, "meteor": values / 2}, [f"<b>{i}</b>" for i in range(count)], masks)


def test_the_first_the_best_and_the_worst_are_shown(tmp_path: Path) -> None:
    data, count = Blocks(40), 40
    before, after = np.zeros(count), np.zeros(count)
    after[30], before[35] = 0.9, 0.8
    folder = tmp_path / GALLERY
    folder.mkdir()
    (folder / "99-image.webp").write_bytes(b"old")
    write_gallery(folder, data, "val", np.arange(count), figures(after), figures(before))
    said = json.loads((folder / INDEX).read_text())
    why = {one["region"]: one["why"] for one in said["regions"]}
    assert [why.get(number) for number in (0, 7, 30, 35)] == ["first", "first", "up", "down"]
    assert len(why) == 24
    assert not (folder / "99-image.webp").exists()
    page = gallery(folder)
    assert page.count('<div class="strip wide"') == 24
    assert 'data-gain="0.9"' in page
    assert "<b>30</b>" not in page  # what a policy says is text
    assert "gained most" in page
    assert "its caption in its likeliest words" in page
    assert "Uniqueness:" not in page  # blocks do not say what they show
    older = {**said, "captions": "sampled"}
    (folder / INDEX).write_text(json.dumps(older))
    assert "a caption it sampled" in gallery(folder)
    older["regions"][0]["scores"]["after"]["unique"] = 1.0
    (folder / INDEX).write_text(json.dumps(older))
    assert "Uniqueness: 1 if the caption is true" in gallery(folder)
    (folder / "30-after.webp").unlink()
    assert gallery(folder).count('<div class="strip wide"') == 23
    (folder / INDEX).write_text("{")
    assert "cannot be shown" in gallery(folder)
    (folder / INDEX).write_text('{"regions": [3, {"files": {"image": "../../secret.webp"}}]}')
    assert gallery(folder) == ""


def test_few_regions_are_all_shown() -> None:
    assert choose(np.linspace(0, 1, 24)) == dict.fromkeys(range(24), "first")
    assert len(choose(np.linspace(0, 1, 25))) == 24


def test_photos_are_made_smaller_and_their_shape_is_kept() -> None:
    photo = np.random.default_rng(0).integers(0, 255, (480, 640, 3)).astype(np.uint8)
    shown = Image.open(io.BytesIO(picture(photo, np.ones((16, 16), bool), np.zeros((480, 640), bool))))
    assert shown.size == (320, 240)
    tall = Image.open(io.BytesIO(picture(np.zeros((1000, 10, 3), np.uint8))))
    assert tall.size == (3, 320)
    small = np.zeros((48, 48, 3), np.uint8) + 200
    mask = np.zeros((24, 24), bool)
    mask[:12] = True
    drawn = np.asarray(Image.open(io.BytesIO(picture(small, mask))).convert("RGB"))
    assert drawn.shape == (240, 240, 3)
    assert (drawn[:120] == 200).all()
    assert (drawn[120:] == 60).all()


def test_the_line_lies_inside_the_region() -> None:
    mask = np.zeros((20, 20), bool)
    mask[5:15, 5:15] = True
    edge = _edge(mask)
    assert edge[5:7, 5:15].all()
    assert not edge[7:13, 7:13].any()
    assert not (edge & ~mask).any()
