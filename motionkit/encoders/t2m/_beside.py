"""Finds and reads what an evaluator needs beside its weights: statistics and word vectors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.encoders.t2m._network import CONTACTS
from motionkit.encoders.t2m._words import WordTable
from motionkit.errors import MotionkitError

_STEMS = {263: "t2m_", 251: "kit_"}
_META = "Comp_v6_KLD*/meta"
_VOCABULARY = ("our_vab_data.npy", "our_vab_words.pkl", "our_vab_idx.pkl")
_ABOVE = 5
_DATASET_SPREAD = 0.45
"""Standard deviation of the contacts over sqrt(p (1 - p)) of their mean p: 1 in a dataset's statistics, 0.04 in the
released evaluators', whose feat_bias of 5 was applied twice (0.2 once)."""


def read_stats(named: Path | None, file: Path, width: int) -> tuple[Tensor, Tensor]:
    """Return the evaluator's own mean and std ``[width]``.

    Args:
        named: Folder that the user names; ``mean.npy`` and ``std.npy``, or ``t2m_mean.npy`` and ``t2m_std.npy``
            (``kit_...``), are in it or in its ``meta``.
        file: The checkpoint; ``Comp_v6_KLD01/meta`` and ``dataset/t2m_mean.npy`` are looked for above it when `named`
            is None.
        width: Features per frame.

    Raises:
        MotionkitError: No such files, another width, or values that cannot be the evaluator's.
    """
    stem = _STEMS.get(width, "")
    if named is not None:
        places = [named, named / "meta", *sorted(named.glob(_META))]
    else:
        # KLD01 is the one of t2m; sorted() puts KLD005, kit's, before it, and only one of them is in a release.
        places = [
            place
            for folder in _above(file)
            for place in (*sorted(folder.glob(_META), reverse=True), folder, folder / "dataset")
        ]
    for place in places:
        for prefix in ("", stem):
            pair = place / f"{prefix}mean.npy", place / f"{prefix}std.npy"
            if all(part.is_file() for part in pair) and (named is not None or prefix or place.name == "meta"):
                return _checked(*pair, width)
    where = f"in {named}" if named is not None else f"beside {file}"
    raise MotionkitError(
        f"no mean and std of the evaluator {where}.",
        why="it normalises motions with statistics of its own; with the dataset's, its figures mean nothing.",
        fix="name the folder with Comp_v6_KLD01/meta/mean.npy and std.npy of the evaluator's download, or with "
        "t2m_mean.npy and t2m_std.npy of MDM's dataset folder: --reward.stats DIR (eval: --evaluator-stats DIR).",
    )


def _checked(mean_file: Path, std_file: Path, width: int) -> tuple[Tensor, Tensor]:
    mean, std = (_vector(path, width) for path in (mean_file, std_file))
    if not bool((std[:-CONTACTS] > 0).all()):
        raise MotionkitError(f"{std_file} holds a standard deviation that is not positive.", fix="copy it again.")
    # A contact is 0 or 1, so that its mean p tells its standard deviation; the four of them share one, of the mean.
    share = mean[-CONTACTS:].double().clamp(0.0, 1.0)
    binary = float((share * (1 - share)).sqrt().mean())
    found = float(std[-CONTACTS:].mean())
    if binary and found / binary > _DATASET_SPREAD:
        stem = _STEMS.get(width, "")
        raise MotionkitError(
            f"{std_file} holds the statistics of the dataset, not the evaluator's.",
            why=f"its contacts have a standard deviation of {found:.2g}, which is that of contacts as they are; the "
            "evaluator's divides root and contacts by 25.",
            fix=f"name the folder with the evaluator's own meta, or with {stem}mean.npy and {stem}std.npy.",
        )
    return mean, torch.where(std > 0, std, torch.ones_like(std))


def _above(file: Path) -> list[Path]:
    """Return the folders above a checkpoint; of a link first those above the link, then those above its file."""
    places = Path(os.path.abspath(file)), file.resolve()  # noqa: PTH100 (Path.absolute keeps "..")
    return list(dict.fromkeys(folder for place in places for folder in place.parents[:_ABOVE]))


def _vector(path: Path, width: int) -> Tensor:
    values = torch.from_numpy(weights.cast(weights.read_numbers(path, limit=1 << 20), np.float64))
    if values.numel() != width:
        raise MotionkitError(
            f"{path} has {values.numel()} values, this evaluator reads {width} features.",
            why="HumanML3D has 263 features, KIT-ML has 251.",
            fix="use the statistics that belong to this evaluator.",
        )
    if not bool(values.isfinite().all()):
        raise MotionkitError(f"{path} holds values that are not finite.", fix="copy it again.")
    return values.reshape(width).float()


def read_words(named: Path | None, file: Path) -> WordTable:
    """Read the vocabulary of the released evaluators: ``our_vab_data.npy``, ``our_vab_words.pkl``, ``our_vab_idx.pkl``.

    Args:
        named: Folder that the user names; the files are in it or in its ``glove``.
        file: The checkpoint; a folder ``glove`` is looked for above it when `named` is None.

    Raises:
        MotionkitError: The three files are not there, are damaged or do not fit each other.
    """
    above = _above(file) if named is None else [named]
    places = [place for folder in above for place in (folder, folder / "glove")]
    found = [place for place in places if any((place / name).is_file() for name in _VOCABULARY)]
    folder = found[0] if found else places[0]
    missing = [name for name in _VOCABULARY if not (folder / name).is_file()]
    if missing:
        where = f"beside {file}" if named is None else f"in {named}"
        raise MotionkitError(
            f"the word vectors of the evaluator are not {where}: {', '.join(missing)} missing.",
            why="it reads captions as GloVe vectors, from our_vab_data.npy, our_vab_words.pkl and our_vab_idx.pkl.",
            fix="unpack glove.zip, which is published with the evaluator, and name its folder: --reward.glove DIR "
            "(eval: --glove DIR).",
        )
    data = weights.read_numbers(folder / _VOCABULARY[0])
    words, rows = (weights.read(folder / name) for name in _VOCABULARY[1:])
    if not isinstance(words, list) or not isinstance(rows, Mapping) or data.ndim != 2:
        raise MotionkitError(
            f"the files our_vab_* in {folder} are no vocabulary.",
            why="a table, a list of words and their rows were expected.",
            fix="unpack glove.zip again.",
        )
    try:
        index = {str(word): _row(rows[word]) for word in words}
    except (KeyError, TypeError) as error:
        raise MotionkitError(
            f"{folder / _VOCABULARY[2]} does not fit {_VOCABULARY[1]}.", why=str(error), fix="unpack glove.zip again."
        ) from error
    return WordTable(torch.from_numpy(weights.cast(data, np.float32)), index, str(folder))


def _row(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{value!r} is no row.")
    return int(value)
