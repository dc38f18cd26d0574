"""Fingerprints of what a run reads: the same for the same content anywhere, another one where a byte differs."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import open_file, read_json
from motionkit.errors import MotionkitError
from motionkit.runs.atomic import write_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


_SIZE = 32
"""Hexadecimal digits of a fingerprint."""

_PIECE = 1 << 20


def fingerprint(*parts: str | Tensor | NDArray[Any]) -> str:
    """Return the fingerprint of texts and arrays in this order: 32 hexadecimal digits.

    Of an array type, shape and values count, about 1.5 GB/s. Other fingerprints are texts.

    Example:
        >>> fingerprint("walk", "run") == fingerprint("walkrun")
        False
    """
    digest = sha256()
    for part in parts:
        if isinstance(part, str):
            data = part.encode(errors="surrogatepass")
            digest.update(f"text {len(data)}\n".encode())
            digest.update(data)
        else:
            values = _as_bytes(part)
            digest.update(f"{part.dtype} {list(part.shape)}\n".encode())
            digest.update(values.data)
    return digest.hexdigest()[:_SIZE]


def fingerprint_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the fingerprint of named tensors, such as a state dict, in whatever order they come and on any device."""
    return fingerprint(*(part for name in sorted(tensors) for part in (name, tensors[name])))


def fingerprint_files(folder: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files: their names below a folder and their bytes, read piece by piece.

    Args:
        folder: What names are relative to, so that a copy of the folder has the same fingerprint.
        files: The files, in any order.
    """
    digest = sha256()
    for path in sorted(files):
        try:
            inside = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
            with open_file(path) as file:
                digest.update(f"{len(inside.parts)} {'/'.join(inside.parts)}\n".encode(errors="surrogateescape"))
                size = 0
                while data := file.read(_PIECE):
                    digest.update(data)
                    size += len(data)
                digest.update(f"\n{size}\n".encode())
        except OSError as error:
            raise MotionkitError(f"{path} cannot be read.", why=error.strerror or str(error)) from error
    return digest.hexdigest()[:_SIZE]


def _as_bytes(values: Tensor | NDArray[Any]) -> NDArray[np.uint8]:
    """Return the memory of an array as ``[N]`` bytes, without a copy where it lies in one piece on the CPU."""
    import numpy as np

    if isinstance(values, np.ndarray):
        flat = np.ascontiguousarray(values).reshape(-1)
        return flat.view(np.uint8)
    import torch

    array: NDArray[np.uint8] = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return array


# Memory of files that are mapped: what was read of them counts as the process's own until it is let go.

_ENOUGH = 8 * 2**20
_AROUND = 64 * 2**10  # bytes that a system maps in at a time


class MappedPages:
    """Lets the pages of mapped files go before they are many; the files stay in the system's cache.

    Without it a process that reads a large file at random comes to hold all of it, and a limit on its memory, such as a
    container's, is reached with the data.

    Args:
        enough: Bytes from which they go.
    """

    def __init__(self, enough: int = _ENOUGH) -> None:
        self._enough = enough
        self._files: dict[int, np.memmap[Any, Any]] = {}
        self._bytes = 0

    def touched(self, file: np.memmap[Any, Any], rows: int) -> None:
        """Say that rows of a file were read or written."""
        self._files[id(file)] = file
        self._bytes += rows * max(_AROUND, file[:1].nbytes)
        if self._bytes >= self._enough:
            self.let_go()

    def let_go(self) -> None:
        """Let all pages go, where the system can."""
        for file in self._files.values():
            mapping = getattr(file, "_mmap", None)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                # The map is of a file and shared: what was written to it is kept.
                mapping.madvise(mmap.MADV_DONTNEED)
        self._files.clear()
        self._bytes = 0


# What a model was trained on, by content: evaluations leave it out.

TRAINED_ON = "trained-on.json"
"""Name of the file."""

_KIND: Literal["motionkit-trained-on"] = "motionkit-trained-on"
_LIMIT = 64 << 20
_MOST = 1_000_000

_Mark = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]


class _Document(BaseModel):
    """Content of the file; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["motionkit-trained-on"]
    complete: bool
    items: Annotated[list[_Mark], Field(max_length=_MOST)]


@dataclass(frozen=True)
class TrainedOn:
    """Fingerprints of the clips, episodes or pictures that a model was trained on; kept beside its weights.

    Example:
        >>> kept = TrainedOn.of(["0a" * 16, "0b" * 16]).leave_out(["0b" * 16, "0c" * 16])
        >>> kept.places, kept.sentence("clips")
        ((1,), 'left out 1 of 2 clips that the model was trained on.')
    """

    items: frozenset[str] = frozenset()  # The fingerprints that are known
    # Whether these are all: they are not where a model, or one that its training began with, was saved before this was
    # recorded or is from elsewhere.
    complete: bool = True

    @classmethod
    def of(cls, items: Iterable[str]) -> Self:
        """Return what a model from scratch was trained on."""
        return cls(frozenset(items))

    @classmethod
    def unknown(cls) -> Self:
        """Return what is known of a model from elsewhere: nothing."""
        return cls(complete=False)

    @classmethod
    def read(cls, folder: Path | None) -> Self:
        """Read what `write` wrote beside a model's weights; `unknown` where there is no such file, or no folder."""
        if folder is None or not (path := folder / TRAINED_ON).exists():
            return cls.unknown()
        content = read_json(path, dict, limit=_LIMIT, fix="copy the model's folder again.")
        try:
            document = _Document.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise MotionkitError(
                f"{path} is damaged.",
                why=f"{'.'.join(map(str, first['loc'])) or 'its content'}: {first['msg']}.",
                fix="copy the model's folder again; without that file nothing is left out of an evaluation.",
            ) from error
        return cls(frozenset(document.items), document.complete)

    def write(self, folder: Path) -> None:
        """Write it into the folder of a model, renamed into place.

        Raises:
            OSError: The disk is full or not writable.
        """
        items = sorted(self.items)[:_MOST]
        document = {"kind": _KIND, "complete": self.complete and len(items) == len(self.items), "items": items}
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / TRAINED_ON, (json.dumps(document, indent=0) + "\n").encode())

    def __or__(self, other: TrainedOn) -> TrainedOn:
        """Return what a model was trained on that began with another model's weights."""
        return TrainedOn(self.items | other.items, self.complete and other.complete)

    def leave_out(self, marks: Sequence[str]) -> Kept:
        """Return which of some items may be measured on."""
        places = tuple(place for place, mark in enumerate(marks) if mark not in self.items)
        return Kept(places, len(marks), self.complete)


@dataclass(frozen=True)
class Kept:
    """Items that a model was not trained on."""

    places: tuple[int, ...]  # Their places among all that were asked for
    total: int  # How many were asked for
    complete: bool = True  # Whether all that the model was trained on is known

    @property
    def left_out(self) -> int:
        """How many items the model was trained on."""
        return self.total - len(self.places)

    def sentence(self, what: str) -> str:
        """Return what a person should know; empty where nothing was left out and all is known.

        Args:
            what: Names the items, such as ``clips``.
        """
        parts = []
        if self.left_out:
            parts.append(f"left out {self.left_out} of {self.total} {what} that the model was trained on.")
        if not self.complete:
            begin = "It is not known what else" if parts else "it is not known what"
            parts.append(
                f"{begin} the model was trained on (it was saved before this was recorded, or elsewhere): "
                f"some of these {what} may be among it."
            )
        return " ".join(parts)

    def require(self, what: str, where: str, fix: str) -> Self:
        """Refuse to measure a model on nothing but what it was trained on.

        Args:
            what: Names the items, such as ``clips``.
            where: Names the place that they are from, such as ``--data walks``.
            fix: What to do.
        """
        if self.left_out and not self.places:
            raise MotionkitError(
                f"the model was trained on all {self.total} {what} of {where}.",
                why="its figures on them would not say how good it is on others.",
                fix=fix,
            )
        return self
