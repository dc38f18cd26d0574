"""Finds and reads TMR's own mean and standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError

_NAMES = (("mean.pt", "std.pt"), ("mean.npy", "std.npy"), ("Mean.npy", "Std.npy"))
_BELOW = ("", "stats", "stats/motion")
_SETS = ("stats/humanml3d/guoh3dfeats", "stats/kitml/guoh3dfeats")


def find_stats(folders: Sequence[Path], named: str = "") -> Path | None:
    """Return the first folder at or below `folders` that holds a mean and a std file.

    Args:
        folders: Where to look, nearest first.
        named: The place that the weights' own config.json names (``normalizer.base_dir``). Statistics of a dataset
            that it does not name are not taken.

    Raises:
        MotionkitError: There are statistics of several datasets, and `named` does not choose one.
    """
    for folder in folders:
        sets = [below for below in _SETS if not named or Path(below).parts[-2:] == Path(named).parts[-2:]]
        found = [folder / below for below in (*([named] if named else []), *_BELOW) if _holds(folder / below)]
        of_sets = [folder / below for below in sets if _holds(folder / below)]
        if not found and len(of_sets) > 1:
            raise MotionkitError(
                f"{folder} holds the statistics of {len(of_sets)} datasets, and nothing says which belong to this TMR.",
                why="with those of another dataset, scores are meaningless.",
                fix=f"--reward.stats {of_sets[0]} or {of_sets[1]}; or put the run's config.json beside the weights.",
            )
        if found or of_sets:
            return (found or of_sets)[0]
    return None


def _holds(folder: Path) -> bool:
    return any((folder / mean).is_file() and (folder / std).is_file() for mean, std in _NAMES)


def read_stats(folder: Path, width: int, named: str = "") -> tuple[Tensor, Tensor]:
    """Read ``[width]`` mean and std (``mean.pt``/``std.pt`` or ``.npy``) at or below `folder`; see `find_stats`.

    Raises:
        MotionkitError: No such files, another width, or values that cannot be statistics.
    """
    found = find_stats([folder], named)
    if found is None:
        raise MotionkitError(
            f"{folder} holds no mean.pt/std.pt and no mean.npy/std.npy.",
            why="TMR's own statistics differ from a generator's by up to 11 times.",
            fix=f"point --reward.stats at TMR's {named or _SETS[0]}.",
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
    tensor = weights.as_tensor(value)
    if tensor is None or tensor.numel() != width:
        size = type(value).__name__ if tensor is None else tensor.numel()
        raise MotionkitError(
            f"{path} has {size} values, this TMR reads {width} features.",
            fix="point --reward.stats at the statistics of this TMR.",
        )
    if not bool(tensor.isfinite().all()):
        raise MotionkitError(f"{path} holds values that are not finite.")
    return tensor.reshape(width).float()
