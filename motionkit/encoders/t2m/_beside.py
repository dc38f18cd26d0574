"""Finds and reads what an evaluator needs beside its weights: statistics and word vectors."""

from __future__ import annotations

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
_DATASET_CONTACT = 0.1
"""Standard deviation of the contacts: 0.36 in HumanML3D's Std.npy, which the evaluator's divides by 25."""


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
            for folder in file.resolve().parents[:_ABOVE]
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
    if width == 263 and float(std[-CONTACTS:].mean()) > _DATASET_CONTACT:
        raise MotionkitError(
            f"{std_file} holds the statistics of the dataset, not the evaluator's.",
            why=f"its contacts have a standard deviation of {float(std[-CONTACTS:].mean()):.2f}; the evaluator's "
            "divides root and contacts by 25.",
            fix="name the folder with Comp_v6_KLD01/meta, or with t2m_mean.npy and t2m_std.npy.",
        )
    return mean, torch.where(std > 0, std, torch.ones_like(std))


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
    above = list(file.resolve().parents[:_ABOVE]) if named is None else [named]
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
