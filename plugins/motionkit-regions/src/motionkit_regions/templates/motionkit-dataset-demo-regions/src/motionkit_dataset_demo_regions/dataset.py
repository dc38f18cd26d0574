"""Dataset 'demo-regions': the heavy half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from motionkit.contracts.dataset import Split
from motionkit.errors import MotionkitError
from motionkit_dataset_demo_regions import Options
from motionkit_regions.datasets.base import Regions


class DemoRegionsDataset:
    """An example to replace: images with a mask and a caption each; of ten one is for val and one for test."""

    def __init__(self, options: Options) -> None:
        if options.root is None:
            raise MotionkitError("--dataset.root is not given.", fix="--dataset.root FOLDER")
        if not options.root.is_dir():
            raise MotionkitError(f"there is no folder {options.root}.", fix="--dataset.root FOLDER")
        self.name = "demo-regions"
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
