"""The data of runs: fingerprints of inputs, equal for equal content at any place, and what a model was trained on.

Evaluations leave out the data that a model was trained on (`TrainedOn`), by their fingerprints. `MappedPages` limits
the memory of data in mapped files.
"""

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
"""Bytes of a file that are hashed at a time."""

TRAINED_ON = "trained-on.json"
"""File of `TrainedOn` in the folder of a model."""

_KIND: Literal["motionkit-trained-on"] = "motionkit-trained-on"
_LIMIT = 64 << 20
"""Bytes of that file."""

_MOST = 1_000_000
"""Fingerprints in it."""

_Mark = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]

_ENOUGH = 8 * 2**20
"""Bytes of mapped files at which `MappedPages` releases them."""

_AROUND = 64 * 2**10
"""Bytes of a mapped file that a system reads at once."""


def fingerprint(*parts: str | Tensor | NDArray[Any]) -> str:
    """Return the fingerprint of texts and arrays in this order: 32 hexadecimal digits.

    Of arrays dtype, shape and values are hashed, at about 1.5 GB/s. Other fingerprints are passed as texts.

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
    """Return the fingerprint of named tensors, such as a state dict, independent of their order and device."""
    return fingerprint(*(part for name in sorted(tensors) for part in (name, tensors[name])))


def fingerprint_files(folder: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files: their names below a folder and their bytes.

    Args:
        folder: Names are relative to it, so that a copy of the folder has the same fingerprint.
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
    """Return the memory of an array as ``[N]`` bytes, without a copy if it is contiguous on the CPU."""
    if isinstance(values, np.ndarray):
        flat = np.ascontiguousarray(values).reshape(-1)
        return flat.view(np.uint8)
    import torch

    array: NDArray[np.uint8] = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return array


class _Document(BaseModel):
    """Content of the file; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    kind: Literal["motionkit-trained-on"]
    complete: bool
    items: Annotated[list[_Mark], Field(max_length=_MOST)]


@dataclass(frozen=True)
class TrainedOn:
    """Fingerprints of the clips, episodes or pictures that a model was trained on; stored with its weights.

    Example:
        >>> kept = TrainedOn.of(["0a" * 16, "0b" * 16]).leave_out(["0b" * 16, "0c" * 16])
        >>> kept.places, kept.sentence("clips")
        ((1,), 'left out 1 of 2 clips that the model was trained on.')
    """

    items: frozenset[str] = frozenset()  # The known fingerprints
    # Whether these are all. They are not if the model, or one that its training began with, was saved before this was
    # recorded or is from elsewhere.
    complete: bool = True

    @classmethod
    def of(cls, items: Iterable[str]) -> Self:
        """Return the training data of a model from scratch."""
        return cls(frozenset(items))

    @classmethod
    def unknown(cls) -> Self:
        """Return the unknown training data of a model from elsewhere."""
        return cls(complete=False)

    @classmethod
    def read(cls, folder: Path | None) -> Self:
        """Read the file of `write` in a model's folder; `unknown` if there is no such file, or no folder."""
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
        """Return the training data of a model that began with another model's weights."""
        return TrainedOn(self.items | other.items, self.complete and other.complete)

    def leave_out(self, marks: Sequence[str]) -> Kept:
        """Return the items that the model was not trained on."""
        places = tuple(place for place, mark in enumerate(marks) if mark not in self.items)
        return Kept(places, len(marks), self.complete)


@dataclass(frozen=True)
class Kept:
    """Items that a model was not trained on."""

    places: tuple[int, ...]  # Their indices among all requested items
    total: int  # Number of requested items
    complete: bool = True  # Whether all of the model's training data are known

    @property
    def left_out(self) -> int:
        """Number of items that the model was trained on."""
        return self.total - len(self.places)

    def sentence(self, what: str) -> str:
        """Return a message for the user; empty if nothing was left out and all is known.

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
        """Refuse to measure a model if all items are training data.

        Args:
            what: Names the items, such as ``clips``.
            where: Names their source, such as ``--data walks``.
            fix: Advice for the error.
        """
        if self.left_out and not self.places:
            raise MotionkitError(
                f"the model was trained on all {self.total} {what} of {where}.",
                why="its figures on them would not show how good it is on others.",
                fix=fix,
            )
        return self


class MappedPages:
    """Releases the pages of mapped files when they are many; the files stay in the system's cache.

    Pages that were read count as the process's memory until they are released: without it a process that reads a large
    file at random finally holds all of it, and may exceed a limit on its memory, such as a container's.

    Args:
        enough: Bytes at which they are released.
    """

    def __init__(self, enough: int = _ENOUGH) -> None:
        self._enough = enough
        self._files: dict[int, np.memmap[Any, Any]] = {}
        self._bytes = 0

    def touched(self, file: np.memmap[Any, Any], rows: int) -> None:
        """Note that rows of a file were read or written."""
        self._files[id(file)] = file
        self._bytes += rows * max(_AROUND, file[:1].nbytes)
        if self._bytes >= self._enough:
            self.let_go()

    def let_go(self) -> None:
        """Release all pages, if the system supports it."""
        for file in self._files.values():
            mapping = getattr(file, "_mmap", None)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                # The mapping is shared: data written to the file are kept.
                mapping.madvise(mmap.MADV_DONTNEED)
        self._files.clear()
        self._bytes = 0
