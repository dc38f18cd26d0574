"""The contract that every dataset keeps, on a folder of made-up images."""

from pathlib import Path

import numpy as np
from PIL import Image

from motionkit.testing import check_dataset


def test_contract(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(20):
        size = (48, 40 + number, 3)
        Image.fromarray(draw.integers(0, 256, size).astype(np.uint8)).save(tmp_path / f"{number:03d}.jpg")
        mask = np.zeros(size[:2], np.uint8)
        mask[10:30, 5:25] = 255
        Image.fromarray(mask).save(tmp_path / f"{number:03d}.mask.png")
        (tmp_path / f"{number:03d}.txt").write_text(f"thing number {number}")
    check_dataset("demo-regions", options={"root": tmp_path})
