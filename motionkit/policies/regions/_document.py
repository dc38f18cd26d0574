"""A region policy's folder: policy.json and model.safetensors, complete in itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from motionkit.documents import read_model
from motionkit.policies.regions._settings import RegionSettings
from motionkit.runs import write_model

DOCUMENT, KIND = "policy.json", "regions"

_Word = Annotated[str, Field(pattern=r"^[a-z]{1,40}$")]


class RegionDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["regions"]
    settings: RegionSettings
    words: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=65_536)]


def read_regions(path: Path) -> RegionDocument:
    """Read policy.json.

    Raises:
        MotionkitError: It is missing, damaged, or describes another kind of policy.
    """
    return read_model(path, RegionDocument, KIND, f" policy, not {KIND}")


def write_regions(
    folder: Path, settings: RegionSettings, words: Sequence[str], tensors: Mapping[str, Tensor] | None
) -> None:
    """Write the folder; with `tensors` None only policy.json."""
    document = {"kind": KIND, "settings": settings.model_dump(mode="json"), "words": list(words)}
    write_model(folder, DOCUMENT, document, tensors)
