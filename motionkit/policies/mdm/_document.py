"""policy.json: everything about a policy except its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from motionkit.config import LoraTarget
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.motion import DataRecord
from motionkit.policies.mdm._settings import MDMSettings, Padding, first_problem
from motionkit.text import TextRecord

KIND = "mdm"


class LoraRecord(BaseModel):
    """Adapters that the tensors hold beside their base, as `motionkit.nn.add_adapters` made them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    r: int = Field(ge=1, le=4096)
    alpha: float = Field(gt=0, allow_inf_nan=False)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[LoraTarget, ...]


class PolicyDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: Literal["mdm"]
    settings: MDMSettings
    fps: float = Field(gt=0, le=1000)
    max_length: int = Field(ge=1, le=100_000)
    padding: Padding = "exact"
    guidance: float | None = Field(default=None, ge=0, le=1000, allow_inf_nan=False)
    sampling_steps: int | None = Field(default=None, ge=1)
    text: TextRecord
    trained_on: DataRecord | None = None
    lora: LoraRecord | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        room = (self.settings.pos_embed_max_len - 1) * self.settings.patch_size
        if self.max_length > room and not self.settings.context_len:  # a position per frame, but in DiP of a block
            raise ValueError(f"max_length {self.max_length} is more than the {room} frames that have a position")
        if self.sampling_steps is not None and self.sampling_steps > self.settings.diffusion_steps:
            raise ValueError(f"sampling_steps {self.sampling_steps} of {self.settings.diffusion_steps} diffusion_steps")
        return self


def read_document(path: Path) -> PolicyDocument:
    """Read policy.json.

    Raises:
        MotionkitError: It is missing, damaged, or describes another kind of policy.
    """
    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != KIND:
        raise MotionkitError(f"{path} describes a {str(content.get('kind'))[:40]!r} policy, not {KIND}.")
    try:
        return PolicyDocument.model_validate(content)
    except ValidationError as error:
        raise MotionkitError(
            f"{path} is not a policy description: {first_problem(error)}.", fix="copy the folder again."
        ) from error
