"""Precomputed token embeddings and TMR's own statistics, in TMR's folder layout."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.text import TextFeatures

# Finds and reads TMR's own mean and standard deviation.


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


def find_token_tables(folder: Path) -> list[Path]:
    """Return the ``<model>_slice.npy`` files at or below `folder`/token_embeddings (or `folder` itself)."""
    inner = folder / "token_embeddings"
    return sorted((inner if inner.is_dir() else folder).rglob("*_slice.npy"))


_LIMIT = 64 << 20
"""Bytes of the index; a text takes about 60."""


class TokenFolder:
    """Looks token features up by the exact text.

    Layout: ``<model>.npy`` ``[sum L, F]``, ``<model>_slice.npy`` ``[N, 2]`` (begin, end), ``<model>_index.json``
    (text to row), below ``token_embeddings`` or in `folder` itself.

    Args:
        folder: Where the files are; exactly one model.

    Raises:
        MotionkitError: Files are missing, damaged or do not fit each other.
    """

    def __init__(self, folder: Path) -> None:
        tables = find_token_tables(folder)
        if len(tables) != 1:
            raise MotionkitError(
                f"{folder} holds {len(tables)} tables of token embeddings, one is needed.",
                fix="name the folder of one model, with <model>.npy, <model>_slice.npy and <model>_index.json.",
            )
        stem = tables[0].name.removesuffix("_slice.npy")
        self.name = stem
        self._origin = tables[0].parent / f"{stem}.npy"
        values, slices = weights.read_numbers(self._origin), weights.read_numbers(tables[0])
        index_file = tables[0].parent / f"{stem}_index.json"
        index = read_json(index_file, dict, limit=_LIMIT, fix="copy it again.")
        if not all(type(row) is int for row in index.values()):  # bool is an int
            raise MotionkitError(f"{index_file} is no index of texts.", why="the value of each is the number of a row.")
        fits = values.ndim == 2 and values.dtype.kind == "f"
        if not fits or slices.dtype.kind not in "iu" or slices.shape[1:] != (2,):
            raise MotionkitError(f"{self._origin} and its slices are not a table of token embeddings.")
        inside = slices.size == 0 or (
            slices.min() >= 0 and slices.max() <= len(values) and (slices[:, 0] < slices[:, 1]).all()
        )
        if not inside or any(not 0 <= row < len(slices) for row in index.values()):
            raise MotionkitError(f"the rows of {self._origin} do not fit its slices and index.")
        self.width = int(values.shape[1])
        self.fingerprint = f"tokens-{hashlib.sha256(values.tobytes()).hexdigest()[:16]}"
        self._values = torch.from_numpy(values).float()
        self._rows = {text: (int(slices[row, 0]), int(slices[row, 1])) for text, row in index.items()}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return the stored tokens of `texts`.

        Raises:
            MotionkitError: A text is not in the table.
        """
        rows = [self._lookup(text) for text in texts]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        return TextFeatures(tokens, torch.arange(tokens.shape[1]) < lengths[:, None])

    def _lookup(self, text: str) -> Tensor:
        if text not in self._rows:
            raise MotionkitError(
                f"{text!r} has no precomputed embedding in {self._origin}.",
                why="the table is looked up by the exact text.",
                fix="use one of its texts, or a text model: --reward.text-model distilbert.",
            )
        begin, end = self._rows[text]
        return self._values[begin:end]
