"""TMR's own mean and standard deviation, from the places and formats they are kept in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError

_NAMES = (("mean.pt", "std.pt"), ("mean.npy", "std.npy"), ("Mean.npy", "Std.npy"))
_BELOW = ("", "stats", "stats/motion", "stats/humanml3d/guoh3dfeats", "stats/kitml/guoh3dfeats")


def find_stats(folders: Sequence[Path]) -> Path | None:
    """Return the first folder at or below `folders` that holds a mean and a std file."""
    for folder in folders:
        for below in _BELOW:
            candidate = folder / below
            if any((candidate / mean).is_file() and (candidate / std).is_file() for mean, std in _NAMES):
                return candidate
    return None


def read_stats(folder: Path, width: int) -> tuple[Tensor, Tensor]:
    """Read ``[width]`` mean and std (``mean.pt``/``std.pt`` or ``.npy``).

    Raises:
        MotionkitError: No such files, another width, or values that cannot be statistics.
    """
    found = find_stats([folder])
    if found is None:
        raise MotionkitError(
            f"{folder} holds no mean.pt/std.pt and no mean.npy/std.npy.",
            why="TMR's own statistics differ from a generator's by up to 11 times.",
            fix="point --reward.stats at TMR's stats/humanml3d/guoh3dfeats.",
        )
    names = next(pair for pair in _NAMES if (found / pair[0]).is_file() and (found / pair[1]).is_file())
    mean, std = (_vector(weights.read(found / name), found / name, width) for name in names)
    if not bool((std >= 0).all()):
        raise MotionkitError(f"{found / names[1]} holds a negative standard deviation.")
    if "Mean.npy" in names and (found / "Std.npy").is_file() and len(set(std.tolist())) <= width // 8:
        raise MotionkitError(
            f"{found} holds the statistics of a generator, not TMR's.",
            why=f"its {width} values have {len(set(std.tolist()))} distinct standard deviations: "
            "HumanML3D averages them by group, TMR keeps one per feature.",
            fix="point --reward.stats at TMR's own stats/humanml3d/guoh3dfeats.",
        )
    return mean, std


def _vector(value: Any, path: Path, width: int) -> Tensor:
    tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
    if not isinstance(tensor, Tensor) or tensor.numel() != width:
        size = tensor.numel() if isinstance(tensor, Tensor) else type(value).__name__
        raise MotionkitError(
            f"{path} has {size} values, this TMR reads {width} features.",
            fix="point --reward.stats at the statistics of this TMR.",
        )
    if not bool(tensor.isfinite().all()):
        raise MotionkitError(f"{path} holds values that are not finite.")
    return tensor.reshape(width).float()
