"""A small student of MiniLM over a closed vocabulary, for typed prompts where MiniLM itself is not installed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.errors._near import nearest
from motionkit.nn import TransformerEncoder, sinusoidal_table
from motionkit.text._cache import pad_rows
from motionkit.text._features import TextFeatures

LONGEST = 32
"""Words that a sentence may have, commas included."""

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|,")
_LIMIT = 4 << 20
_SIZES = ("width", "depth", "features")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, commas included; other punctuation is left out.

    Example:
        >>> words_of("A man walks, then does a U-turn.")
        ['a', 'man', 'walks', ',', 'then', 'does', 'a', 'u-turn']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


class StudentNetwork(nn.Module):
    """Words to one sentence embedding: the sum of a vector per word, and a small transformer for their order.

    Args:
        words: Size of the vocabulary; index 0 is padding.
        width: Features per word inside the transformer.
        depth: Layers of the transformer.
        features: F of the teacher's embeddings.
    """

    longest = LONGEST
    """Words of a text that it reads."""

    def __init__(self, words: int, width: int = 96, depth: int = 2, features: int = 384) -> None:
        super().__init__()
        self.vectors = nn.Embedding(words + 1, features, padding_idx=0)
        self.offset = nn.Parameter(torch.zeros(features))
        self.words = nn.Embedding(words + 1, width, padding_idx=0)
        self.norm = nn.LayerNorm(width)
        self.layers = TransformerEncoder(width, 4, 4 * width, depth, 0.0)
        self.head = nn.Linear(width, features, bias=False)
        nn.init.zeros_(self.head.weight)
        self.positions: Tensor
        self.register_buffer("positions", sinusoidal_table(LONGEST, width), persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """Return ``[B, F]`` embeddings of length 1 of ``[B, L]`` int64 word indices, 0 past each sentence's end."""
        mask = index != 0  # [B, L]
        count = mask.sum(1, keepdim=True)  # [B, 1]
        x = self.layers(self.norm(self.words(index) + self.positions[: index.shape[1]]), mask)  # [B, L, width]
        order = (x * mask[..., None]).sum(1) / count  # [B, width], the mean over a sentence's own words
        bag = self.vectors(index).sum(1) * count.rsqrt()  # [B, F]
        return F.normalize(self.offset + bag + self.head(order), dim=-1)


class StudentEncoder:
    """A text encoder that imitates MiniLM for sentences over its own words.

    Args:
        path: File written by `write_student` (``x.safetensors``, with ``x.json`` beside it).

    Raises:
        MotionkitError: A file is missing or damaged.

    Example:
        >>> write_student(Path("small.safetensors"), ["run", "walk"], StudentNetwork(2, width=8, features=4))
        >>> StudentEncoder(Path("small.safetensors")).encode(["Walk!", "run, walk"][:1]).tokens.shape
        torch.Size([1, 1, 4])
    """

    name = "minilm-student"

    def __init__(self, path: Path) -> None:
        document = _read_document(path)
        self.vocabulary: tuple[str, ...] = tuple(document["words"])
        self._index = {word: number for number, word in enumerate(self.vocabulary, start=1)}
        found = weights.read(path)
        make = partial(StudentNetwork, len(self.vocabulary), *(document[name] for name in _SIZES))
        self._network = weights.build(make, found, str(path)).eval().requires_grad_(False)
        self.width: int = document["features"]
        self.fingerprint = f"{self.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that are not in the vocabulary; parts of compounds may be known one by one."""
        return [word for word in words_of(text) if not all(part in self._index for part in self._parts(word))]

    def word_vectors(self) -> dict[str, Tensor]:
        """Return what each word of the vocabulary adds to a sentence's embedding, ``[F]``."""
        return {word: self._network.vectors.weight[row].clone() for word, row in self._index.items()}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features; a row does not depend on the others.

        Raises:
            MotionkitError: A text has no word, unknown words, or more than `LONGEST`.
        """
        return pad_rows([self._encode(text) for text in texts])

    @torch.inference_mode(False)
    @torch.no_grad()
    def _encode(self, text: str) -> Tensor:
        words = [part for word in words_of(text) for part in self._parts(word)]
        index = [self._index[word] for word in words if word in self._index]
        if not words:
            raise MotionkitError(f"{text!r} has no word.", fix="describe a movement in English.")
        unknown = self.unknown(text)
        if len(unknown) == len([word for word in words_of(text) if word != ","]):
            known = f"the built-in text model knows {len(self.vocabulary)} English words"
            near = self._spelled_alike(unknown)
            raise MotionkitError(f"no word of {text!r} is known.", why=f"{known}; {near}" if near else known)
        if unknown:
            raise MotionkitError(f"{text!r}: {_told(unknown)} not known.", why=self._spelled_alike(unknown))
        if len(index) > LONGEST:
            raise MotionkitError(
                f"{text[:60]!r}... has {len(index)} words; at most {LONGEST} are read.",
                fix='split it into actions with " | ".',
            )
        out: Tensor = self._network(torch.tensor([index]))
        return out

    def _spelled_alike(self, words: Sequence[str]) -> str:
        """Return the nearest words of the vocabulary, in words; empty where nothing is near."""
        near = {word: nearest(word, self.vocabulary, 3) for word in dict.fromkeys(words)}
        return "; ".join(f"spelled like {word!r}: {', '.join(found)}" for word, found in near.items() if found)

    def _parts(self, word: str) -> list[str]:
        return [word] if word in self._index else word.split("-")


def _told(words: Sequence[str]) -> str:
    """Return ``the word 'x' is`` or ``the words 'x', 'y' are``."""
    names = ", ".join(map(repr, dict.fromkeys(words)))
    return f"the words {names} are" if len(set(words)) > 1 else f"the word {names} is"


def write_student(path: Path, words: Sequence[str], network: StudentNetwork) -> None:
    """Write a student.

    Args:
        path: ``x.safetensors``, float16; ``x.json`` with the vocabulary is written beside it.
        words: Distinct words, in the order of their indices from 1 on.
        network: The trained network.
    """
    if len(set(words)) != len(words) or network.words.num_embeddings != len(words) + 1:
        raise ValueError("a student needs one embedding per distinct word, and one for padding")
    tensors = {
        name: value.detach().to("cpu", torch.float16).contiguous() for name, value in network.state_dict().items()
    }
    path.write_bytes(safetensors.torch.save(tensors))
    document = {
        "schema": 1,
        "teacher": "minilm",
        "features": network.head.out_features,
        "width": network.words.embedding_dim,
        "depth": len(network.layers.layers),
        "words": list(words),
    }
    path.with_suffix(".json").write_text(json.dumps(document, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def _read_document(path: Path) -> Mapping[str, Any]:
    """Return the vocabulary and the sizes of a student."""
    document = path.with_suffix(".json")
    for file in (document, path):
        if not file.is_file():
            raise MotionkitError(f"there is no student of a text model at {file}.", fix="reinstall motionkit.")
    found = read_json(document, dict, limit=_LIMIT, fix="copy it again.")
    words = found.get("words")
    sizes = [found.get(name) for name in _SIZES]
    sound = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not sound or not all(isinstance(size, int) and 0 < size <= 4096 for size in sizes):
        raise MotionkitError(f"{document} does not describe a student of a text model.", fix="copy it again.")
    return found
