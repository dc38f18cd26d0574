"""Text encoders that need no MiniLM: a table of stored embeddings, and a small student with a closed vocabulary.

`StoredEncoder` looks texts up in a table (`write_table`, `read_table`). Other texts go to the model that filled the
table or, if that is not installed, to a `StudentEncoder`, which imitates it.
"""

from __future__ import annotations

import difflib
import hashlib
import heapq
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError, nearest
from motionkit.nn import TransformerEncoder, sinusoidal_table
from motionkit.runs import write_bytes_atomic
from motionkit.text._prompt import TextEncoder, TextFeatures, pad_rows

LONGEST = 32  # words that a sentence may have, commas included
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|,")
_STUDENT_LIMIT = 4 << 20
_SIZES = ("width", "depth", "features")
_LIMIT = 64 << 20  # largest JSON file of a table, in bytes
_COMPARED = 100  # stored texts whose spelling is compared with an unknown one


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
        content = weights.read(path)
        make = partial(StudentNetwork, len(self.vocabulary), *(document[name] for name in _SIZES))
        self._network = weights.build(make, content, str(path)).eval().requires_grad_(False)
        self.width: int = document["features"]
        self.fingerprint = f"{self.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"

    def unknown(self, text: str) -> list[str]:
        """Return the unknown words of a text; a compound is known if its parts are."""
        return [word for word in words_of(text) if not all(part in self._index for part in self._parts(word))]

    def word_vectors(self) -> dict[str, Tensor]:
        """Return the vector ``[F]`` that each word of the vocabulary adds to a sentence's embedding."""
        return {word: self._network.vectors.weight[row].clone() for word, row in self._index.items()}

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features of texts of 1 to `LONGEST` known words."""
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
            names = ", ".join(map(repr, dict.fromkeys(unknown)))
            subject = f"the words {names} are" if len(set(unknown)) > 1 else f"the word {names} is"
            raise MotionkitError(f"{text!r}: {subject} not known.", why=self._spelled_alike(unknown))
        if len(index) > LONGEST:
            raise MotionkitError(
                f"{text[:60]!r}... has {len(index)} words; at most {LONGEST} are read.",
                fix='split it into actions with " | ".',
            )
        out: Tensor = self._network(torch.tensor([index]))
        return out

    def _spelled_alike(self, words: Sequence[str]) -> str:
        """Return a phrase with the nearest words of the vocabulary; empty if nothing is near."""
        near = {word: nearest(word, self.vocabulary, 3) for word in dict.fromkeys(words)}
        return "; ".join(f"spelled like {word!r}: {', '.join(similar)}" for word, similar in near.items() if similar)

    def _parts(self, word: str) -> list[str]:
        return [word] if word in self._index else word.split("-")


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
    document = {
        "schema": 1,
        "teacher": "minilm",
        "features": network.head.out_features,
        "width": network.words.embedding_dim,
        "depth": len(network.layers.layers),
        "words": list(words),
    }
    _write(path, tensors, document)


def _write(path: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, safetensors.torch.save(dict(tensors)))
    text = json.dumps(document, ensure_ascii=False, indent=0) + "\n"
    write_bytes_atomic(path.with_suffix(".json"), text.encode())


def _read_document(path: Path) -> Mapping[str, Any]:
    document = path.with_suffix(".json")
    for file in (document, path):
        if not file.is_file():
            raise MotionkitError(f"there is no student of a text model at {file}.", fix="reinstall motionkit.")
    content = read_json(document, dict, limit=_STUDENT_LIMIT, fix="copy it again.")
    words = content.get("words")
    sizes = [content.get(name) for name in _SIZES]
    sound = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not sound or not all(isinstance(size, int) and 0 < size <= 4096 for size in sizes):
        raise MotionkitError(f"{document} does not describe a student of a text model.", fix="copy it again.")
    return content


class _Table:
    """The texts and vectors of a file, and its fingerprint."""

    def __init__(self, path: Path) -> None:
        texts, self.vectors = read_table(path)
        self.numbers = {text: number for number, text in enumerate(texts)}
        self.fingerprint = "stored-" + hashlib.sha256(path.read_bytes()).hexdigest()[:16]

    def row(self, text: str) -> Tensor:
        """Return the ``[1, F]`` vector of a text."""
        number = self.numbers[text]
        return self.vectors[number : number + 1]

    @cached_property
    def spelled(self) -> Mapping[tuple[str, ...], str]:
        """The text by its words, whose case and punctuation do not matter."""
        return {tuple(words_of(text)): text for text in self.numbers}


def _open_table(path: Path) -> _Table:
    """Return a table, read once for all who open it: `grpo` does for its policy, its reward and its judge."""
    return _table_of(path.absolute(), _state(path), _state(path.with_suffix(".json")))


@lru_cache(maxsize=2)
@torch.inference_mode(False)  # the next caller may compute gradients with it
def _table_of(path: Path, *states: tuple[int, ...]) -> _Table:
    return _Table(path)


def _state(file: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again; nothing if there is none."""
    found = file.stat() if file.is_file() else None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found is not None else ()


class StoredEncoder:
    """Looks texts up in a table; other texts are encoded by the model that filled it.

    Args:
        table: File written by `write_table` (``x.safetensors``, with ``x.json`` beside it).
        fallback: Makes the encoder that filled the table; called at the first unknown text. None = unknown texts are
            errors.
        student: File of a `StudentEncoder`, used if `fallback` cannot be opened; then case and punctuation do not
            matter in the table either. Not for training: a run would continue differently once the model is installed.

    Example:
        >>> write_table(Path("words.safetensors"), ["walk", "run"], torch.eye(2), encoder="minilm")
        >>> StoredEncoder(Path("words.safetensors")).encode(["run"]).tokens
        tensor([[[0., 1.]]])
    """

    name = "stored"

    def __init__(
        self, table: Path, *, fallback: Callable[[], TextEncoder] | None = None, student: Path | None = None
    ) -> None:
        self._table = _open_table(table)
        self.width = self._table.vectors.shape[1]
        self.fingerprint = self._table.fingerprint
        self._make_fallback = fallback
        self._student = student
        self._fallback: TextEncoder | None = None

    def __contains__(self, text: str) -> bool:
        return text in self._table.numbers

    @property
    def alone(self) -> bool:
        """Whether only the table's texts can be encoded, without a model for others."""
        try:
            self._model("")
        except MotionkitError:
            return True
        return False

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features."""
        return pad_rows(
            [self._table.row(text) if text in self else self._model(text).encode([text]).tokens[0] for text in texts]
        )

    def _model(self, text: str) -> TextEncoder:
        """Return the encoder of texts that are not in the table, such as `text`, opened once."""
        if self._fallback is None:
            fallback = self._open_fallback(text)
            if fallback.width != self.width:
                raise MotionkitError(f"the table has {self.width} features, its encoder {fallback.width}.")
            self._fallback = fallback
        return self._fallback

    def _open_fallback(self, text: str) -> TextEncoder:
        """Open the model that filled the table, else its student."""
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
            return _StandIn(self._table, StudentEncoder(self._student), error, self._nearest)

    def _nearest(self, text: str) -> str:
        """Return a phrase with the three stored texts that are nearest in spelling, or that `text` is empty."""
        if not text.strip():
            return "the text is empty."
        # Only texts that share most words are compared: with thousands it takes a third of a second.
        words = set(text.lower().split())
        alike = heapq.nlargest(
            _COMPARED, self._table.numbers, key=lambda stored: len(words.intersection(stored.lower().split()))
        )
        near = difflib.get_close_matches(text, alike, 3, cutoff=0.0)
        return f"nearest stored texts: {'; '.join(near)}"


class _StandIn:
    """Encodes texts if the table's model is not installed: stored texts in other spelling, else by the student."""

    def __init__(
        self, table: _Table, student: StudentEncoder, absent: MotionkitError, nearest: Callable[[str], str]
    ) -> None:
        self.name, self.width, self.fingerprint = student.name, student.width, student.fingerprint
        self._table = table
        self._student = student
        self._absent = absent
        self._nearest = nearest

    def encode(self, texts: Sequence[str]) -> TextFeatures:
        """Return ``[B, 1, F]`` features."""
        return pad_rows([self._encode(text) for text in texts])

    def _encode(self, text: str) -> Tensor:
        stored = self._table.spelled.get(tuple(words_of(text)))
        if stored is not None:
            return self._table.row(stored)
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


def write_table(
    path: Path, texts: Sequence[str], vectors: Tensor, *, encoder: str, dtype: torch.dtype = torch.float16
) -> None:
    """Write a table.

    Args:
        path: ``x.safetensors``; ``x.json`` is written beside it.
        texts: Distinct texts.
        vectors: ``[N, F]``.
        encoder: Name of the encoder that made them.
        dtype: Type in which they are stored; float16 moves numbers by up to 0.05 %.
    """
    if len(set(texts)) != len(texts) or vectors.shape[0] != len(texts):
        raise ValueError("a table needs one row per distinct text")
    rows = vectors.detach().to("cpu", dtype).contiguous()
    _write(path, {"vectors": rows}, {"schema": 1, "encoder": encoder, "texts": list(texts)})


def read_table(path: Path) -> tuple[list[str], Tensor]:
    """Return texts and ``[N, F]`` float32 vectors of a table."""
    document = path.with_suffix(".json")
    for file in (document, path):
        if not file.is_file():
            raise MotionkitError(f"no table of text embeddings at {file}.", fix="check the path.")
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
