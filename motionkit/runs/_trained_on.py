"""What a model was trained on, by content: evaluations leave it out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.runs._atomic import write_bytes

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

    Attributes:
        items: The fingerprints that are known.
        complete: Whether these are all: they are not where a model, or one that its training began with, was saved
            before this was recorded or is from elsewhere.

    Example:
        >>> kept = TrainedOn.of(["0a" * 16, "0b" * 16]).leave_out(["0b" * 16, "0c" * 16])
        >>> kept.places, kept.sentence("clips")
        ((1,), 'left out 1 of 2 clips that the model was trained on.')
    """

    items: frozenset[str] = frozenset()
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
        """Read what `write` wrote beside a model's weights; `unknown` where there is no such file, or no folder.

        Raises:
            MotionkitError: The file is damaged or too large.
        """
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
        """Return which of some items may be measured on.

        Args:
            marks: Fingerprints of the items, in their order.
        """
        places = tuple(place for place, mark in enumerate(marks) if mark not in self.items)
        return Kept(places, len(marks), self.complete)


@dataclass(frozen=True)
class Kept:
    """Items that a model was not trained on.

    Attributes:
        places: Their places among all that were asked for.
        total: How many were asked for.
        complete: Whether all that the model was trained on is known.
    """

    places: tuple[int, ...]
    total: int
    complete: bool = True

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

        Raises:
            MotionkitError: No item is left.
        """
        if self.left_out and not self.places:
            raise MotionkitError(
                f"the model was trained on all {self.total} {what} of {where}.",
                why="its figures on them would not say how good it is on others.",
                fix=fix,
            )
        return self
