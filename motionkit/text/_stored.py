"""Looks embeddings up in a table that was computed earlier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.text._cache import pad_rows
from motionkit.text._features import TextEncoder, TextFeatures

_LIMIT = 64 << 20
"""Largest JSON file of a table, in bytes."""


class StoredEncoder:
    """Looks texts up in a table and encodes other texts with `fallback`.

    Args:
        table: File written by `write_table` (``x.safetensors``, with ``x.json`` beside it).
        fallback: Makes the encoder that filled the table; called at the first unknown text. None = unknown texts are
            errors.

    Raises:
        MotionkitError: The table is missing or damaged.

    Example:
        >>> write_table(Path("words.safetensors"), ["walk", "run"], torch.eye(2), encoder="minilm")
        >>> StoredEncoder(Path("words.safetensors")).encode(["run"]).tokens
        tensor([[[0., 1.]]])
    """

    name = "stored"

    def __init__(self, table: Path, *, fallback: Callable[[], TextEncoder] | None = None) -> None:
        texts, vectors = read_table(table)
        self.width = vectors.shape[1]
        self.fingerprint = "stored-" + hashlib.sha256(table.read_bytes()).hexdigest()[:16]
        self._rows = {text: vectors[i : i + 1] for i, text in enumerate(texts)}
        self._make_fallback = fallback
        self._fallback: TextEncoder | None = None

    def __contains__(self, text: str) -> bool:
        return text in self._rows

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features.

        Raises:
            MotionkitError: A text is not in the table and there is no fallback.
        """
        return pad_rows([self._rows[text] if text in self._rows else self._ask(text) for text in texts])

    def _ask(self, text: str) -> Tensor:
        if self._fallback is None:
            if self._make_fallback is None:
                raise MotionkitError(f"{text!r} has no stored embedding.", fix="use one of the table's texts.")
            try:
                self._fallback = self._make_fallback()
            except MotionkitError as error:
                raise MotionkitError(
                    f"{text!r} has no stored embedding, and its encoder cannot be loaded: {error.message}",
                    why=error.why,
                    fix=error.fix,
                ) from error
            if self._fallback.width != self.width:
                raise MotionkitError(f"the table has {self.width} features, its encoder {self._fallback.width}.")
        return self._fallback.encode([text]).tokens[0]


def write_table(path: Path, texts: Sequence[str], vectors: Tensor, *, encoder: str) -> None:
    """Write a table.

    Args:
        path: ``x.safetensors``; ``x.json`` is written beside it.
        texts: Distinct texts.
        vectors: ``[N, F]``, stored as float16.
        encoder: Name of the encoder that made them.
    """
    if len(set(texts)) != len(texts) or vectors.shape[0] != len(texts):
        raise ValueError("a table needs one row per distinct text")
    rows = vectors.detach().to("cpu", torch.float16).contiguous()
    path.write_bytes(safetensors.torch.save({"vectors": rows}))
    document = {"schema": 1, "encoder": encoder, "texts": list(texts)}
    path.with_suffix(".json").write_text(json.dumps(document, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def read_table(path: Path) -> tuple[list[str], Tensor]:
    """Return texts and ``[N, F]`` float32 vectors of a table.

    Raises:
        MotionkitError: A file is missing or damaged.
    """
    document = path.with_suffix(".json")
    for file in (document, path):
        if not file.is_file():
            raise MotionkitError(f"no table of text embeddings at {file}.")
    texts = read_json(document, dict, limit=_LIMIT, fix="copy it again.").get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise MotionkitError(f"{document} is not a table of text embeddings: it has no list of texts.")
    try:
        vectors = safetensors.torch.load(path.read_bytes())["vectors"].float()
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise MotionkitError(f"{path} is not a table of text embeddings: {error}") from error
    if vectors.ndim != 2:
        raise MotionkitError(f"{path} is not a table of text embeddings: it has shape {list(vectors.shape)}.")
    if vectors.shape[0] != len(texts):
        raise MotionkitError(f"{path} has {vectors.shape[0]} vectors for {len(texts)} texts.")
    return texts, vectors
