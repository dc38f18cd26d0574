"""The trained model in a run folder: a document that describes it and its weights, and what it was trained on.

`write_model` and `find_model` write and find the two files. Evaluations leave out the data that a model was trained on
(`TrainedOn`), by their fingerprints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs._checkpoint import NAME, STATE, last_checkpoint, step_of
from motionkit.runs.atomic import write_bytes

if TYPE_CHECKING:
    from torch import Tensor

TENSORS = "model.safetensors"
"""Name of a model's weights in its folder."""

TRAINED_ON = "trained-on.json"
"""File of `TrainedOn` in the folder of a model."""

_KIND: Literal["motionkit-trained-on"] = "motionkit-trained-on"
_LIMIT = 64 << 20
"""Bytes of that file."""

_MOST = 1_000_000
"""Fingerprints in it."""

_Mark = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]


@dataclass(frozen=True)
class SavedModel:
    """A model's two files."""

    document: Path  # Describes the model: its shape, its text encoder, its frame rate
    tensors: Path  # Its weights, as safetensors
    run: Path | None = None  # Their run folder; None outside of a run
    step: int = 0  # Training steps of the weights; 0 if unknown


def write_model(
    folder: Path, document: str, content: Mapping[str, object], tensors: Mapping[str, Tensor] | None
) -> None:
    """Write a model's two files, each renamed into place; `find_model` finds them.

    Args:
        folder: Made if it is missing.
        document: Name of the document.
        content: The document.
        tensors: The weights; None writes only the document, for a run whose checkpoints hold them.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / document, (json.dumps(content, indent=2) + "\n").encode())
    if tensors is not None:
        cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        write_bytes(folder / TENSORS, save(cpu))


def find_model(path: Path, artifact: str, document: str) -> SavedModel | None:
    """Find a model in its own folder, in a run, or in one of a run's checkpoints.

    A run writes the document into ``RUN/ARTIFACT`` at its start, and the weights next to it at its end. Until then the
    weights are those of its last checkpoint.

    Args:
        path: The folder.
        artifact: Name of the model's folder in a run, such as ``policy``.
        document: Name of the document, such as ``policy.json``.

    Returns:
        The files, or None if `path` is not such a folder.
    """
    if (path / document).is_file():
        inside = path.name == artifact and (path.parent / "run.json").is_file()
        run = path.parent if inside else None
        return SavedModel(path / document, path / TENSORS, run, _steps(run) if run else 0)
    if (path / artifact / document).is_file():
        return _of_run(path, path / artifact / document)
    described = path.parent.parent / artifact / document
    if (path / STATE).is_file() and described.is_file():
        step = step_of(path) if NAME.fullmatch(path.name) else 0
        return SavedModel(described, path / TENSORS, path.parent.parent, step)
    return None


def _of_run(run: Path, document: Path) -> SavedModel:
    if (final := document.parent / TENSORS).is_file():
        return SavedModel(document, final, run, _steps(run))
    last = last_checkpoint(run / "checkpoints")
    if last is None:
        raise MotionkitError(
            f"{run} has no checkpoint yet.",
            why="its checkpoints/last is missing, or names none.",
            fix="wait for its first checkpoint, or name one: RUN/checkpoints/step-NNNNNNNN",
        )
    return SavedModel(document, last / TENSORS, run, step_of(last))


def _steps(run: Path) -> int:
    """Return the step of a run's last checkpoint."""
    last = last_checkpoint(run / "checkpoints")
    return 0 if last is None else step_of(last)


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
