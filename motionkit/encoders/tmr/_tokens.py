"""Precomputed token embeddings in TMR's folder layout, as a text encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.text import TextFeatures


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
