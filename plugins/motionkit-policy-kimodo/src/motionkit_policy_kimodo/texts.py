"""Vectors of texts: Kimodo's cleaning of a text, and tables of what its text encoder, of 17 GB, made of them.

A table has the form of motionkit's (`motionkit.text.read_table`), with float32 vectors: float16 moves them by 2e-4. The
vector of `KNOWN` is in it too, by which another encoder is recognised.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.text import TextFeatures, read_table, write_table
from motionkit_policy_kimodo.skeletons import require_array

COMMAND = "motionkit kimodo-embed PROMPTS OUT"
KNOWN = "A person is walking."
_CLOSE = 1e-3  # relative difference of vectors of one text by one encoder, of several batch sizes or machines
_LIMIT = 64 << 20  # bytes of the list of texts


def clean(text: str) -> str:
    """Return a text as Kimodo cleans it before it is encoded.

    Example:
        >>> clean(" he WALKS;  then he stops ,"), clean("walk. then wave!")
        ('He walks; then he stops.', 'Walk. Then wave!')
    """
    text = " ".join(text.split())
    text = re.sub(r"^[\W_]+", "", text)
    text = re.sub(r"[^\w.!?)]+$", "", text).capitalize()
    if text and text[-1] not in ".!?":
        text += "."
    # A space after the end of a sentence, and a capital.
    text = re.sub(r"\s*([.!?])\s*(?=\S)", r"\1 ", text)
    return re.sub(r"(?<=[.!?] )\w", lambda letter: letter[0].upper(), text)


class TextTable:
    """Stored vectors of texts, a `motionkit.text.TextEncoder`.

    A text without a vector is refused; an empty text is zeros.

    Args:
        path: File written by `write_vectors`.
        width: Width that the model reads; 0 takes any.

    Attributes:
        encoder: Name of the encoder that made the vectors.
        known: ``[E]``, its vector of `KNOWN`.
    """

    name = "kimodo-table"

    def __init__(self, path: Path, width: int = 0) -> None:
        texts, vectors = read_table(path)
        document = read_json(path.with_suffix(".json"), dict, limit=_LIMIT, fix="make it again.")
        if vectors.shape[1] != (width or vectors.shape[1]):
            raise MotionkitError(
                f"{path} holds text vectors of {vectors.shape[1]} numbers, the model reads {width}.",
                why="they are of another text encoder.",
                fix=f"make them with the model's own: {COMMAND}",
            )
        self.vectors = dict(zip(texts, vectors, strict=True))
        if KNOWN not in self.vectors or not isinstance(document.get("encoder"), str):
            raise MotionkitError(f"{path} is no table of Kimodo's text vectors.", fix=f"make one: {COMMAND}")
        self.path, self.width, self.encoder = path, vectors.shape[1], str(document["encoder"])
        self.known = self.vectors[KNOWN]
        self.fingerprint = f"{self.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, E]`` features; the mask is False for empty texts."""
        cleaned = [clean(text) for text in texts]
        if missing := [text for text in dict.fromkeys(cleaned) if text and text not in self.vectors]:
            more = f", nor for {len(missing) - 1} other texts" if len(missing) > 1 else ""
            raise MotionkitError(
                f"{self.path} has no vector for {missing[0][:200]!r}{more}.",
                why="texts are encoded once, by Kimodo's own text encoder.",
                fix=f"add them: {COMMAND}",
            )
        rows = [self.vectors[text] if text else torch.zeros(self.width) for text in cleaned]
        mask = torch.tensor([[bool(text)] for text in cleaned])
        return TextFeatures(torch.stack(rows)[:, None] if rows else torch.zeros(0, 1, self.width), mask.view(-1, 1))

    def require(self, encoder: str, known: Tensor) -> None:
        """Refuse to add vectors of another encoder: another name, or another vector of `KNOWN`."""
        off = (known - self.known).norm() / self.known.norm() if known.shape == self.known.shape else torch.inf
        if encoder != self.encoder or off > _CLOSE:
            raise MotionkitError(
                f"{self.path} holds vectors of the text encoder {self.encoder}, not of this one ({encoder}).",
                why=f"the vector of {KNOWN!r} is {off:.2g} off." if encoder == self.encoder else "",
                fix="choose another OUT.",
            )


def write_vectors(path: Path, vectors: Mapping[str, Tensor], *, encoder: str) -> None:
    """Write a table: ``x.safetensors`` (float32) and ``x.json`` beside it.

    Args:
        path: ``x.safetensors``.
        vectors: ``[E]`` by cleaned text, with that of `KNOWN`.
        encoder: Name of the encoder that made them.
    """
    if KNOWN not in vectors:
        raise ValueError(f"a table needs the vector of {KNOWN!r}")
    rows = torch.stack([vector.float() for vector in vectors.values()])
    write_table(path, list(vectors), rows, encoder=encoder, dtype=torch.float32)


def read_demo_cache(folder: Path, texts: Iterable[str], *, encoder: str = "LLM2VecEncoder") -> dict[str, Tensor]:
    """Return the vectors ``[E]`` that the cache of Kimodo's demo has, by cleaned text.

    Args:
        folder: Of a model in the cache, such as ``~/.cache/kimodo_demo/embeddings/kimodo-soma-rp``.
        texts: Those that are wanted.
        encoder: Class of the encoder, part of the names of the files.
    """
    found = {}
    for text in map(clean, texts):
        key = hashlib.sha256(f"{folder.name}|{encoder}|{text}".encode()).hexdigest()
        if (path := folder / f"{key}.npy").is_file():
            found[text] = one_vector(path)
    return found


def one_vector(path: Path) -> Tensor:
    """Read a text's vector, ``[E]`` float32, from an .npy of ``[1, E]`` as Kimodo stores it."""
    return require_array(torch.from_numpy(weights.read_numbers(path)).float(), (1, -1), str(path), "make it again.")[0]
