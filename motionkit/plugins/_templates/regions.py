"""A new dataset of regions."""

from motionkit.plugins.scaffold import package

FILES = package(
    "dataset",
    usage="motionkit sa2va-rl --dataset $name --dataset.root FOLDER",
    light='''\
"""Dataset '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of dataset '$name'; each becomes a flag, such as --dataset.root."""

    root: Path | None = Field(None, description="Folder with NAME.jpg, NAME.mask.png and NAME.txt (required).")


component = Component(
    summary="What dataset '$name' holds, in one line",
    options=Options,
    factory="$module.dataset:$cls",
    gives="regions",
)
''',
    code='''\
"""Dataset '$name': the heavy half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from motionkit.contracts.dataset import Regions, Split
from motionkit.errors import MotionkitError
from numpy.typing import NDArray
from PIL import Image

from $module import Options


class $cls:
    """An example to replace: images with a mask and a caption each; of ten one is for val and one for test."""

    def __init__(self, options: Options) -> None:
        if options.root is None:
            raise MotionkitError("--dataset.root is not given.", fix="--dataset.root FOLDER")
        if not options.root.is_dir():
            raise MotionkitError(f"there is no folder {options.root}.", fix="--dataset.root FOLDER")
        self.name = "$name"
        files = sorted(options.root.glob("*.jpg"))
        if len(files) < 10:
            raise MotionkitError(f"{options.root} has {len(files)} images.", why="at least 10 are needed.")
        self._splits: dict[str, list[Path]] = {"val": files[::10], "test": files[1::10]}
        self._splits["train"] = [file for number, file in enumerate(files) if number % 10 > 1]

    def count(self, split: Split) -> int:
        """Return the number of regions of a split."""
        return len(self._splits[split])

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Return regions by their numbers."""
        files = [self._splits[split][int(number)] for number in index]
        images = [np.asarray(Image.open(file).convert("RGB")) for file in files]
        masks = [np.asarray(Image.open(file.with_suffix(".mask.png")).convert("L")) > 127 for file in files]
        captions = tuple(file.with_suffix(".txt").read_text(encoding="utf-8").strip() for file in files)
        return Regions(images, masks, captions)
''',
    test='''\
"""The contract that every dataset keeps, on a folder of made-up images."""

from pathlib import Path

import numpy as np
from motionkit.testing import check_dataset
from PIL import Image


def test_contract(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(20):
        size = (48, 40 + number, 3)
        Image.fromarray(draw.integers(0, 256, size).astype(np.uint8)).save(tmp_path / f"{number:03d}.jpg")
        mask = np.zeros(size[:2], np.uint8)
        mask[10:30, 5:25] = 255
        Image.fromarray(mask).save(tmp_path / f"{number:03d}.mask.png")
        (tmp_path / f"{number:03d}.txt").write_text(f"thing number {number}")
    check_dataset("$name", options={"root": tmp_path})
''',
)
