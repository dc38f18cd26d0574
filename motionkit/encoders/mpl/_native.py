"""An encoder's folder: encoder.json and model.safetensors, complete in itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from motionkit import weights
from motionkit.documents import read_json, read_model
from motionkit.encoders.mpl._network import EncoderSizes, MotionEncoder
from motionkit.encoders.mpl._scales import Scales
from motionkit.errors import MotionkitError
from motionkit.runs import TENSORS, write_bytes_atomic

KIND, ARTIFACT, DOCUMENT = "mpl-encoder", "encoder", "encoder.json"


class SizesRecord(BaseModel):
    """Shape of an encoder as a document has it; see `EncoderSizes`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    width: int = Field(ge=1, le=65_536)
    layers: int = Field(ge=1, le=64)
    history: int = Field(ge=1, le=64)
    ahead: int = Field(ge=1, le=1000)
    dropout: float = Field(ge=0, lt=1)


class _Document(BaseModel):
    """Content of encoder.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["mpl-encoder"]
    sizes: SizesRecord
    fps: float = Field(gt=0, le=1000)
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=1000)]

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.names)) < len(self.names):
            raise ValueError("two joints have one name")
        return self


def save_encoder(
    folder: Path, encoder: MotionEncoder, *, extra: Mapping[str, object] | None = None, tensors: bool = True
) -> None:
    """Write an encoder: ``encoder.json`` and ``model.safetensors`` (weights and statistics), each renamed into place.

    Args:
        folder: Created when absent.
        encoder: The encoder.
        extra: JSON-able additions to the document, such as the figures that it reached.
        tensors: Write the weights too; a run does so when it ends, until then its checkpoints hold them.
    """
    from safetensors.torch import save

    document = {
        "schema": 1,
        "kind": KIND,
        "sizes": asdict(encoder.sizes),
        "fps": encoder.fps,
        "names": list(encoder.names),
        **dict(extra or {}),
    }
    folder.mkdir(parents=True, exist_ok=True)
    if tensors:
        own = {name: value.detach().cpu().contiguous() for name, value in encoder.state_dict().items()}
        write_bytes_atomic(folder / TENSORS, save(own))
    write_bytes_atomic(folder / DOCUMENT, (json.dumps(document, indent=2) + "\n").encode())


def is_native(folder: Path) -> bool:
    """Whether `folder` was written by `save_encoder`.

    Raises:
        MotionkitError: Its encoder.json is no JSON object.
    """
    if not ((folder / DOCUMENT).is_file() and (folder / TENSORS).is_file()):
        return False
    return read_json(folder / DOCUMENT, dict, fix="copy it again.").get("kind") == KIND


def load_encoder(folder: Path, tensors: Path | None = None) -> MotionEncoder:
    """Load an encoder, in eval mode.

    Args:
        folder: What `save_encoder` wrote.
        tensors: Its weights, where they are not in the folder: those of a run's checkpoint.

    Raises:
        MotionkitError: It is missing, damaged, not finite, or the weights do not fit the document.
    """
    document = _read(folder / DOCUMENT)
    path = tensors or folder / TENSORS
    sizes, joints = EncoderSizes(**document.sizes.model_dump()), len(document.names)
    # The scales are made outside: they are loaded into, and may not be on the meta device.
    neutral = Scales.neutral(joints)
    encoder = weights.build(
        lambda: MotionEncoder(sizes, document.names, document.fps, neutral), weights.read(path), str(path)
    )
    numbers = encoder.state_dict()
    odd = [name for name, values in numbers.items() if not bool(values.isfinite().all())]
    odd += [name for name in ("std", "turn_std") if not bool((numbers[name] > 0).all())]
    if odd:
        raise MotionkitError(f"{path} is damaged.", why=f"{odd[0]} is not finite, or a deviation is not above 0.")
    return encoder.eval()


def _read(path: Path) -> _Document:
    return read_model(path, _Document, KIND, ", no motion encoder")
