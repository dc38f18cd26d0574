"""One file of the guide: ``.npy`` around a pickled table. Nothing in it executes.

A file is ``{"images": {camera: float [T, C, H, W]}, "labels": float [T]}``, in the folder of successes or of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.episodes._records import plain_name
from motionkit.errors import MotionkitError

_LIMIT = 2 << 30
_FIX = "give the folders that hold 000000.npy, ..."


@dataclass(frozen=True)
class Trajectory:
    """What a file holds.

    Attributes:
        images: ``[T, 3, H, W]`` by camera: whole numbers are of 0 to 255, others of 0 to 1 or of 0 to 255.
        labels: ``[T]``.
        called: What the file calls each camera.
    """

    images: Mapping[str, NDArray[Any]]
    labels: NDArray[Any]
    called: Mapping[str, str]

    @property
    def highest(self) -> float | None:
        """The highest value of the pictures whose type does not say their range; None without such."""
        return max((float(values.max()) for values in self.images.values() if values.dtype.kind == "f"), default=None)

    @property
    def fractions(self) -> bool:
        """Whether pictures of floats hold values between whole numbers, as those of 0 to 1 do."""
        floats = (values for values in self.images.values() if values.dtype.kind == "f")
        return any(bool((values != np.floor(values)).any()) for values in floats)

    def pictures(self, name: str, scale: float) -> NDArray[np.uint8]:
        """Return ``[T, H, W, 3]`` uint8 of a camera, given what values that are not whole are multiplied by."""
        values = self.images[name].transpose(0, 2, 3, 1)
        if values.dtype.kind != "f":
            return values.astype(np.uint8)
        found: NDArray[np.uint8] = (values.astype(np.float32) * scale + 0.5).astype(np.uint8)
        return found

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return height and width by camera."""
        return {name: (values.shape[2], values.shape[3]) for name, values in self.images.items()}


def list_files(positive: Path, negative: Path) -> list[tuple[bool, Path]]:
    """Return the files of both folders, each with whether it is of the folder of successes.

    Raises:
        MotionkitError: A folder is missing or empty.
    """
    found: list[tuple[bool, Path]] = []
    for folder, sign in ((positive.expanduser(), True), (negative.expanduser(), False)):
        if not folder.is_dir():
            raise MotionkitError(f"{folder} is no folder.", fix=_FIX)
        own = sorted(path for path in folder.iterdir() if path.suffix == ".npy" and path.is_file())
        if not own:
            raise MotionkitError(f"{folder} holds no .npy file.", fix=_FIX)
        found += [(sign, path) for path in own]
    return found


def read_file(path: Path) -> Trajectory | None:
    """Read a file; None for one that was cut off or damaged on its way.

    Raises:
        MotionkitError: It names code, or it is sound and no trajectory.
    """
    from motionkit.weights import read_array

    size = path.stat().st_size
    try:
        content = read_array(path, limit=min(_LIMIT, max(1 << 20, 64 * size)))
    except MotionkitError as error:
        # What was refused on purpose has no cause; what could not be decoded has the decoder's.
        if error.__cause__ is None and size:
            raise
        return None
    images = content.get("images") if isinstance(content, Mapping) else None
    labels = np.asarray(content.get("labels")) if isinstance(content, Mapping) else np.zeros(0)
    fix = "a trajectory holds {'images': {camera: [T, C, H, W]}, 'labels': [T]}."
    if not isinstance(images, Mapping) or not images or labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise MotionkitError(f"{path} is no trajectory.", fix=fix)
    for name, values in images.items():
        good = isinstance(name, str) and isinstance(values, np.ndarray) and values.dtype.kind in "uif"
        if not good or values.ndim != 4 or values.shape[1] != 3 or len(values) != len(labels) or not values.size:
            shape = getattr(values, "shape", type(values).__name__)
            raise MotionkitError(f"{path} is no trajectory: {name} is {shape}, with {len(labels)} labels.", fix=fix)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 255:
            raise MotionkitError(f"{path}: {name} holds values that are no picture's.", why="0 to 1 or 0 to 255.")
    if not np.isfinite(labels).all():
        raise MotionkitError(f"{path}: a label is not finite.")
    called = {plain_name(name): name for name in images}
    if len(called) < len(images):
        raise MotionkitError(
            f"{path}: cameras cannot be told apart.",
            why=f"{', '.join(map(repr, images))} are all called {', '.join(called)} here, where names are of letters, "
            "digits, '_', '.' and '-'.",
            fix="give them names of these characters.",
        )
    return Trajectory({plain: images[name] for plain, name in called.items()}, labels, called)
