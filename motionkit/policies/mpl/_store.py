"""A predictor's folder: policy.json and model.safetensors, complete in itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from motionkit.documents import read_model
from motionkit.encoders.mpl._native import SizesRecord
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.runs import write_model

KIND, ARTIFACT, DOCUMENT = "mpl", "policy", "policy.json"

Point = tuple[float, float, float]


class PredictorDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mpl"]
    settings: PredictorSettings
    encoder: SizesRecord | None = None
    fps: float = Field(gt=0, le=1000)
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]
    parents: tuple[int, ...]
    offsets: tuple[Point, ...]
    fastest: float | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not len(self.names) == len(self.parents) == len(self.offsets):
            raise ValueError("names, parents and offsets differ in length")
        if self.parents[0] != -1 or any(not 0 <= parent < joint for joint, parent in enumerate(self.parents) if joint):
            raise ValueError("a joint stands before its parent")
        return self


def write_predictor(folder: Path, document: Mapping[str, Any], tensors: Mapping[str, Tensor] | None) -> Path:
    """Write a predictor; with tensors None only policy.json, for a run whose checkpoints hold them."""
    write_model(folder, DOCUMENT, document, tensors)
    return folder


def read_document(path: Path) -> PredictorDocument:
    """Read policy.json.

    Raises:
        MotionkitError: It is missing, damaged, or describes another kind of policy.
    """
    return read_model(path, PredictorDocument, KIND, f" policy, not {KIND}")
