"""The record of a dataset in a trained model's file, which is compared with the data that the model is used on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from motionkit.documents import read_text
from motionkit.errors import MotionkitError
from motionkit.motion.features.layout import Normalizer

_GENERATED = "starter"
"""A dataset made by code: its statistics depend on how many clips are made, so it is compared by name."""


_LICENCE = re.compile(r"(licen[cs]e|copying)(\.(txt|md))?", re.IGNORECASE)
_LARGEST = 1 << 20  # bytes of a licence that are read


class DataRecord(BaseModel):
    """The dataset that a model was trained on.

    Example:
        >>> mine = DataRecord(name="humanml", root="/data/mocap", statistics="12ab")
        >>> mine.differs(DataRecord(name="humanml", root="/copy/of/mocap", statistics="12ab"))
        False
        >>> mine.differs(DataRecord(name="starter"))
        True
        >>> str(mine)
        'humanml (/data/mocap)'
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Dataset that the clips come from, such as ``humanml``; of a composite set that of its single clips.
    name: str = Field("", max_length=200)
    root: str = Field("", max_length=4096)  # Its folder, absolute; empty for data without one
    # First line of the file LICENSE in its folder (LICENCE or COPYING, also .txt or .md); empty if there is none.
    licence: str = Field("", max_length=200)
    # Fingerprint of its Mean and Std; independent of the folder. Empty if it has none.
    statistics: str = Field("", max_length=64)

    @classmethod
    def of(cls, name: str, root: Path | str | None = None, normalizer: Normalizer | None = None) -> Self:
        """Describe a dataset by its name, its folder, and its Mean and Std."""
        folder = None if root is None else Path(root).expanduser().resolve()
        return cls(
            name=str(name),
            root="" if folder is None else str(folder),
            licence="" if folder is None else _licence(folder),
            statistics="" if normalizer is None else _fingerprint(normalizer),
        )

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Self | None:
        """Return the record in a model's config.json: ``trained_on``, else the ``dataset`` of its training settings.

        None if it has neither, or something else under that name.
        """
        training = config.get("training")
        older: Any = training.get("dataset") if isinstance(training, Mapping) else None
        try:
            record = cls.model_validate(config.get("trained_on") or {"name": older["name"]})
        except (ValidationError, KeyError, TypeError):
            return None
        return record if record.name else None

    def after(self, start: DataRecord | None) -> Self:
        """Return the record of a model that began with another one: the licences of both count."""
        licences = dict.fromkeys(filter(None, (start.licence if start is not None else "", self.licence)))
        return self.model_copy(update={"licence": "; ".join(licences)[:200]})

    def differs(self, other: DataRecord) -> bool:
        """Whether the two are different data, by statistics if both have them, else by name."""
        if self.statistics and other.statistics and not self.name == other.name == _GENERATED:
            return self.statistics != other.statistics
        return self.name != other.name

    def __str__(self) -> str:
        """Return name and folder."""
        return f"{self.name} ({self.root})" if self.root else self.name


def _licence(folder: Path) -> str:
    """Return the first line of the licence that lies in a folder; empty if there is none that can be read."""
    try:
        files = sorted(file for file in folder.iterdir() if file.is_file() and _LICENCE.fullmatch(file.name))
        lines = [line.strip(" \t#*=") for file in files[:1] for line in read_text(file, limit=_LARGEST).splitlines()]
    except (OSError, MotionkitError):
        return ""
    return next((" ".join(line.split())[:200] for line in lines if line), "")


def _fingerprint(normalizer: Normalizer) -> str:
    values = b"".join(part.detach().float().cpu().numpy().tobytes() for part in (normalizer.mean, normalizer.std))
    return hashlib.sha256(values).hexdigest()[:16]
