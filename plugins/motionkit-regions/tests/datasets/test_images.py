"""Pictures of files: upright, RGB, never larger than asked for, and refused with a reason."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from motionkit.errors import MotionkitError
from motionkit_regions.datasets.dataset import SPLITS, split_regions
from motionkit_regions.datasets.images import fit, load, look, mark_of, read_picture, upright
from motionkit_regions.datasets.rows import UnusableError

PIXELS = np.random.default_rng(0).integers(0, 256, (10, 16, 3)).astype(np.uint8)


def saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def opened(data: bytes, max_side: int = 0) -> np.ndarray:
    return load(data, max_pixels=10**6, max_side=max_side)


@pytest.mark.parametrize("turn", range(1, 9))
def test_pictures_and_masks_are_turned_upright_alike(turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = turn
    data = saved(Image.fromarray(PIXELS), exif=exif)
    wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(opened(data), wanted)
    facts = look(data, max_pixels=10**6, decode=True)
    assert facts.size == wanted.shape[:2]
    assert facts.stored == (10, 16)
    mask = PIXELS[..., 0] > 100
    np.testing.assert_array_equal(upright(mask, facts.turn), wanted[..., 0] > 100)


def test_every_kind_of_colour_becomes_rgb() -> None:
    rgb = Image.fromarray(PIXELS)
    grey = opened(saved(rgb.convert("L")))
    assert grey.shape == (10, 16, 3)
    assert (grey[..., 0] == grey[..., 2]).all()
    sheet = np.dstack([PIXELS, np.zeros((10, 16), np.uint8)])
    assert (opened(saved(Image.fromarray(sheet, "RGBA"))) == 255).all()  # transparent: white
    sheet[..., 3] = 255
    np.testing.assert_array_equal(opened(saved(Image.fromarray(sheet, "RGBA"))), PIXELS)
    deep = Image.fromarray((PIXELS[..., 0].astype(np.uint16) << 8) + 17)
    np.testing.assert_array_equal(opened(saved(deep))[..., 1], PIXELS[..., 0])
    assert opened(saved(rgb.convert("CMYK"), "JPEG")).shape == (10, 16, 3)
    assert opened(saved(rgb.convert("P"))).shape == (10, 16, 3)


@pytest.mark.parametrize(("bits", "most"), [(8, 255), (10, 1023), (12, 4095), (14, 16_383), (16, 65_535)])
def test_deep_pictures_keep_their_light(bits: int, most: int) -> None:
    """A ramp of a camera of 10, 12 or 14 bits in a file of 16 is a ramp from black to white."""
    ramp = np.linspace(0, most, 160).round().astype(np.uint16).reshape(10, 16)
    for image in (Image.fromarray(ramp), Image.fromarray(ramp.astype(np.int32))):
        shown = opened(saved(image, "TIFF"))
        assert (shown[..., 0] == ramp >> (bits - 8)).all()
        assert (shown.min(), shown.max()) == (0, 255)


def test_pictures_of_floats_are_read_or_refused() -> None:
    ramp = np.linspace(0, 1, 160, dtype=np.float32).reshape(10, 16)
    wanted = (ramp * 255).astype(np.uint8)
    assert (opened(saved(Image.fromarray(ramp), "TIFF"))[..., 1] == wanted).all()
    near = opened(saved(Image.fromarray(ramp * 4095), "TIFF"))[..., 2].astype(int) - wanted
    assert abs(near).max() <= 1


def png16(values: np.ndarray) -> bytes:
    """A PNG of three channels of 16 bits ``[H, W, 3]``, which Pillow reads and does not write."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_colours_of_16_bits_are_read_if_their_upper_byte_shows_them() -> None:
    deep = PIXELS.astype(np.uint16) * 257
    np.testing.assert_array_equal(opened(png16(deep)), PIXELS)


def test_large_pictures_are_scaled_down_and_keep_their_shape() -> None:
    data = saved(Image.new("RGB", (640, 480), "red"))
    assert opened(data, max_side=64).shape == (48, 64, 3)
    assert opened(data, max_side=640).shape == (480, 640, 3)
    assert fit((1, 9000), 100) == (1, 100)
    look(data, max_pixels=640 * 480, decode=True)


RAMP = np.linspace(-1, 0, 160, dtype=np.float32).reshape(10, 16)
RED = saved(Image.new("RGB", (640, 480), "red"))
WHOLE = saved(Image.fromarray(np.random.default_rng(1).integers(0, 256, (90, 90, 3)).astype(np.uint8)))
HALF = WHOLE[: len(WHOLE) // 2]
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"


def looked(data: bytes, max_pixels: int = 10**6, *, decode: bool = False) -> object:
    return look(data, max_pixels=max_pixels, decode=decode)


def test_damage_is_seen_by_decoding_only() -> None:
    assert looked(HALF)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "half, looked at": (lambda folder: looked(HALF, decode=True), "open"),
    "half, opened": (lambda folder: opened(HALF), "open"),
    "empty": (lambda folder: looked(b""), "open"),
    "text": (lambda folder: looked(b"no picture"), "open"),
    "a program": (lambda folder: looked(POSTSCRIPT), "open"),
    "a folder": (lambda folder: read_picture(folder), "open"),
    "no file": (lambda folder: read_picture(folder / "none.png"), "missing"),
    "large, opened": (lambda folder: load(RED, max_pixels=1000, max_side=0), "640 x 480"),
    "large, looked at": (lambda folder: looked(RED, 1000), "640 x 480"),
    "a row too many": (lambda folder: looked(RED, 640 * 480 - 1, decode=True), "640 x 480"),
    "floats below 0": (lambda folder: opened(saved(Image.fromarray(RAMP), "TIFF")), "-1 to 0"),
    "floats that are none": (lambda folder: opened(saved(Image.fromarray(np.log(RAMP[-2:])), "TIFF")), "nan"),
    "16 bits": (lambda folder: opened(png16(PIXELS.astype(np.uint16))), "upper 8"),
}


@pytest.mark.filterwarnings("ignore:invalid value|divide by zero")
@pytest.mark.parametrize(("call", "word"), REFUSED.values(), ids=REFUSED)
def test_pictures_that_cannot_be_used(tmp_path: Path, call: Callable[[Path], object], word: str) -> None:
    with pytest.raises(UnusableError, match=word):
        call(tmp_path)


def test_marks(tmp_path: Path) -> None:
    data = saved(Image.fromarray(PIXELS))
    (tmp_path / "a.png").write_bytes(data)
    assert mark_of(read_picture(tmp_path / "a.png")) == mark_of(data) != mark_of(data + b"0")
    assert 0 <= mark_of(data) < 2**63
    border = np.full((200, 200, 3), 255, np.uint8)
    one, two = border.copy(), border.copy()
    one[90:110, 90:110], two[90:110, 90:110] = 10, 20
    plain = saved(Image.fromarray(one), "BMP"), saved(Image.fromarray(two), "BMP")  # the first 50 kB are the same
    assert mark_of(plain[0]) != mark_of(plain[1])


MARKS = np.random.default_rng(0).integers(0, 2**63, 4000)


def divide(image: np.ndarray, named: np.ndarray | None = None, **changes: object) -> dict[str, np.ndarray]:
    named = np.zeros(len(image), np.int64) if named is None else named
    options = {"held_out": 0.05, "by_hash": False, "place": "here", **changes}
    return split_regions(image, named, **options)  # type: ignore[arg-type,return-value]


def test_no_picture_is_in_two_splits_and_shares_are_as_asked_for() -> None:
    image = MARKS.repeat(3)
    found = divide(image)
    assert sorted(np.concatenate([found[split] for split in SPLITS]).tolist()) == list(range(len(image)))
    pictures = [set(image[found[split]].tolist()) for split in SPLITS]
    assert not any(pictures[a] & pictures[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    for split in ("val", "test"):
        assert len(found[split]) / len(image) == pytest.approx(0.05, abs=0.01)
    assert len(set(image[found["test"][:100]].tolist())) > 70  # the first regions are of many pictures


def test_a_picture_stays_in_its_split_when_others_come_in() -> None:
    few, many = divide(MARKS[:2000]), divide(MARKS)
    for split in SPLITS:
        assert set(MARKS[:2000][few[split]].tolist()) <= set(MARKS[many[split]].tolist())


def test_a_small_set_holds_out_more() -> None:
    for count, wanted in ((40, 8), (100, 20), (200, 20)):
        found = divide(MARKS[:count])
        assert len(found["val"]) >= wanted
        assert wanted <= len(found["test"]) < wanted + 12


@pytest.mark.parametrize("count", [3, 4, 7])
def test_each_split_of_a_few_pictures_has_one(count: int) -> None:
    for seed in range(50):
        found = divide(np.random.default_rng(seed).integers(0, 2**63, count))
        assert min(len(found[split]) for split in SPLITS) >= 1
    with pytest.raises(MotionkitError, match="2 images"):
        divide(MARKS[:2].repeat(9))


def test_the_data_s_own_splits() -> None:
    named = np.array([1, 1, 1, 2, 3, 1, 0])
    image = np.array([10, 11, 12, 13, 14, 14, 15])  # picture 14 is in train and in test
    found = divide(image, named)
    assert {split: sorted(rows.tolist()) for split, rows in found.items()} == {
        "train": [0, 1, 2, 6], "val": [3], "test": [4, 5],
    }  # fmt: skip
    with pytest.raises(MotionkitError) as error:
        divide(image, np.minimum(named, 2))
    assert "--dataset.split hash" in error.value.fix
    by_hash = divide(image)
    for anew in (divide(image, named, by_hash=True), divide(image, np.ones(7, np.int64))):  # train alone says nothing
        assert all((anew[split] == by_hash[split]).all() for split in SPLITS)
