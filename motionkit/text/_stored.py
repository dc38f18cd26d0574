"""Looks embeddings up in a table that was computed earlier."""

from __future__ import annotations

import difflib
import hashlib
import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.text._cache import pad_rows
from motionkit.text._features import TextEncoder, TextFeatures
from motionkit.text._student import StudentEncoder, words_of

_LIMIT = 64 << 20
"""Largest JSON file of a table, in bytes."""

_COMPARED = 100  # stored texts whose spelling is compared with an unknown one


class StoredEncoder:
    """Looks texts up in a table; other texts are encoded by the model that filled it.

    Args:
        table: File written by `write_table` (``x.safetensors``, with ``x.json`` beside it).
        fallback: Makes the encoder that filled the table; called at the first unknown text. None = unknown texts are
            errors.
        student: File of a `StudentEncoder` that stands in where `fallback` cannot be opened; then case and punctuation
            do not matter in the table either. Training must not use it: a run would go on differently where the
            model is installed.

    Raises:
        MotionkitError: The table is missing or damaged.

    Example:
        >>> write_table(Path("words.safetensors"), ["walk", "run"], torch.eye(2), encoder="minilm")
        >>> StoredEncoder(Path("words.safetensors")).encode(["run"]).tokens
        tensor([[[0., 1.]]])
    """

    name = "stored"

    def __init__(
        self, table: Path, *, fallback: Callable[[], TextEncoder] | None = None, student: Path | None = None
    ) -> None:
        texts, vectors = read_table(table)
        self.width = vectors.shape[1]
        self.fingerprint = "stored-" + hashlib.sha256(table.read_bytes()).hexdigest()[:16]
        self._rows = {text: vectors[i : i + 1] for i, text in enumerate(texts)}
        self._make_fallback = fallback
        self._student = student
        self._fallback: TextEncoder | None = None

    def __contains__(self, text: str) -> bool:
        return text in self._rows

    @property
    def alone(self) -> bool:
        """Whether nothing is behind the table: then it encodes the texts that it holds, and no other."""
        try:
            self._behind("")
        except MotionkitError:
            return True
        return False

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features.

        Raises:
            MotionkitError: A text is not in the table, and nothing else can encode it.
        """
        return pad_rows([self._rows[text] if text in self._rows else self._ask(text) for text in texts])

    def _ask(self, text: str) -> Tensor:
        """Return the features of a text that is not in the table."""
        return self._behind(text).encode([text]).tokens[0]

    def _behind(self, text: str) -> TextEncoder:
        """Return what encodes texts that are not in the table, such as `text`, opened once."""
        if self._fallback is None:
            fallback = self._open_fallback(text)
            if fallback.width != self.width:
                raise MotionkitError(f"the table has {self.width} features, its encoder {fallback.width}.")
            self._fallback = fallback
        return self._fallback

    def _open_fallback(self, text: str) -> TextEncoder:
        """Open the model behind the table, else its student."""
        if self._make_fallback is None:
            raise MotionkitError(
                f"{text!r} has no stored embedding.", why=self._nearest(text), fix="use one of the table's texts."
            )
        try:
            return self._make_fallback()
        except MotionkitError as error:
            if self._student is None:
                raise MotionkitError(
                    f"{text!r} has no stored embedding, and its encoder cannot be loaded: {error.message}",
                    why=f"{error.why} {self._nearest(text)}".strip(),
                    fix=error.fix,
                ) from error
            return _StandIn(self._rows, StudentEncoder(self._student), error, self._nearest)

    def _nearest(self, text: str) -> str:
        """Return the three stored texts that are nearest in spelling, as a sentence."""
        # Spelling is compared with the texts that share most words; with thousands it takes a third of a second.
        words = set(text.lower().split())
        alike = heapq.nlargest(
            _COMPARED, self._rows, key=lambda stored: len(words.intersection(stored.lower().split()))
        )
        near = difflib.get_close_matches(text, alike, 3, cutoff=0.0)
        return f"nearest stored texts: {'; '.join(near)}"


class _StandIn:
    """Encodes texts where the model behind a table is not installed: stored texts in other spelling, else a student.

    Args:
        rows: The table.
        student: Encodes what is not in it.
        absent: Why the model itself cannot be opened.
        nearest: Returns the nearest stored texts.
    """

    def __init__(
        self, rows: Mapping[str, Tensor], student: StudentEncoder, absent: MotionkitError, nearest: Callable[[str], str]
    ) -> None:
        self.name, self.width, self.fingerprint = student.name, student.width, student.fingerprint
        self._rows = {tuple(words_of(text)): row for text, row in rows.items()}
        self._student = student
        self._absent = absent
        self._nearest = nearest

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features.

        Raises:
            MotionkitError: The student does not know a word; says how to get the model itself.
        """
        return pad_rows([self._encode(text) for text in texts])

    def _encode(self, text: str) -> Tensor:
        row = self._rows.get(tuple(words_of(text)))
        if row is not None:
            return row
        try:
            return self._student.encode([text]).tokens[0]
        except MotionkitError as error:
            strange = not set(words_of(text)) - {",", *self._student.unknown(text)}
            raise MotionkitError(
                error.message,
                why="; ".join(part for part in (error.why, "" if strange else self._nearest(text)) if part),
                fix=error.fix
                or "use other words (motionkit generate --list-prompts prints some), or install the model "
                f"that knows all: {self._absent.fix}",
            ) from error


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
