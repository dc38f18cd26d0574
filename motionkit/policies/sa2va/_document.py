"""A trained Sa2VA's folder: policy.json, which names the model that it was trained from, and the trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor

from motionkit.documents import read_model
from motionkit.errors import MotionkitError
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.runs import write_model

DOCUMENT, KIND = "policy.json", "sa2va"
_KEPT = ("lora_rank", "lora_alpha", "max_tiles", "max_words", "question", "seed")
"""Options that belong to the trained weights."""


@dataclass(frozen=True)
class Base:
    """Where a model came from.

    Attributes:
        place: Folder or hub id.
        revision: Commit on the hub; empty for a folder.
        mark: Hash of its configuration, tokenizer and code, and of the names and sizes of its weights.
        code: Hash of the code that ran; empty where none did.
    """

    place: str
    revision: str
    mark: str
    code: str = ""


class Sa2vaDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["sa2va"]
    base: Base
    options: dict[str, Any]


def write_document(folder: Path, base: Base, options: Sa2vaOptions, tensors: Mapping[str, Tensor] | None) -> None:
    """Write the folder; with `tensors` None only policy.json."""
    kept = {name: getattr(options, name) for name in _KEPT}
    document = {"kind": KIND, "base": asdict(base), "options": kept}
    write_model(folder, DOCUMENT, document, tensors)


def read_document(path: Path) -> Sa2vaDocument:
    """Read policy.json.

    Raises:
        MotionkitError: It is missing, damaged, or describes another kind of policy.
    """
    found = read_model(path, Sa2vaDocument, KIND, f" policy, not {KIND}")
    try:
        Sa2vaOptions.model_validate({"checkpoint": found.base.place, **found.options})
        if wrong := found.options.keys() - set(_KEPT):
            raise MotionkitError(f"{path} is damaged.", why=f"options.{min(wrong)} is unknown.")
        return found
    except ValidationError as error:
        first = error.errors()[0]
        raise MotionkitError(
            f"{path} is damaged.", why=f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from error
