"""Pictures of files: upright, RGB, never larger than asked for, and refused with a reason."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from motionkit.regions.datasets.images import fit, load, look, mark_of, read_picture, upright
from motionkit.regions.datasets.rows import UnusableError

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


def test_large_pictures_are_scaled_down_and_keep_their_shape() -> None:
    data = saved(Image.new("RGB", (640, 480), "red"))
    assert opened(data, max_side=64).shape == (48, 64, 3)
    assert opened(data, max_side=640).shape == (480, 640, 3)
    assert fit((1, 9000), 100) == (1, 100)
    with pytest.raises(UnusableError, match=r"too large: 640 x 480"):
        load(data, max_pixels=1000, max_side=0)
    with pytest.raises(UnusableError, match="too large"):
        look(data, max_pixels=1000, decode=False)


def test_a_bomb_is_not_decoded() -> None:
    small = bytearray(saved(Image.new("RGB", (4, 4))))
    small[16:24] = (60_000).to_bytes(4, "big") * 2  # what the header says
    with pytest.raises(UnusableError, match="image"):
        look(bytes(small), max_pixels=64_000_000, decode=True)


def test_damage_is_seen_by_decoding_only() -> None:
    whole = saved(Image.fromarray(np.random.default_rng(1).integers(0, 256, (90, 90, 3)).astype(np.uint8)))
    half = whole[: len(whole) // 2]
    look(half, max_pixels=10**6, decode=False)
    for call in (lambda: look(half, max_pixels=10**6, decode=True), lambda: opened(half)):
        with pytest.raises(UnusableError, match="does not open"):
            call()


@pytest.mark.parametrize("data", [b"", b"no picture", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"])
def test_what_is_no_picture(data: bytes) -> None:
    with pytest.raises(UnusableError, match="does not open"):
        look(data, max_pixels=10**6, decode=False)


def test_places_and_marks(tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match="missing"):
        read_picture(tmp_path / "none.png")
    with pytest.raises(UnusableError, match="does not open"):
        read_picture(tmp_path)
    data = saved(Image.fromarray(PIXELS))
    (tmp_path / "a.png").write_bytes(data)
    assert mark_of(read_picture(tmp_path / "a.png")) == mark_of(data) != mark_of(data + b"0")
    assert 0 <= mark_of(data) < 2**63
    border = np.full((200, 200, 3), 255, np.uint8)
    one, two = border.copy(), border.copy()
    one[90:110, 90:110], two[90:110, 90:110] = 10, 20
    plain = saved(Image.fromarray(one), "BMP"), saved(Image.fromarray(two), "BMP")  # the first 50 kB are the same
    assert mark_of(plain[0]) != mark_of(plain[1])
