"""A region policy's folder: policy.json and model.safetensors, complete in itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from motionkit import weights
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.policies.regions import RegionOptions
from motionkit.policies.regions._network import RegionNetwork
from motionkit.policies.regions._policy import ShapesPolicy
from motionkit.policies.regions._settings import RegionSettings
from motionkit.policies.regions._words import SPECIAL
from motionkit.runs import TENSORS, find_model, write_bytes_atomic

ARTIFACT, DOCUMENT, KIND = "policy", "policy.json", "regions"
STARTER = Path(__file__).parents[2] / "starter" / "weights" / "regions"

_Word = Annotated[str, Field(pattern=r"^[a-z]{1,40}$")]


class RegionDocument(BaseModel):
    """Content of policy.json; unknown keys (of later versions) are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    kind: Literal["regions"]
    settings: RegionSettings
    words: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[a-z]{1,40}$")], ...], Field(min_length=1, max_length=65_536)
    ]


def open_regions(options: RegionOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> ShapesPolicy:
    """Open the policy that `options` names.

    Raises:
        MotionkitError: It is missing, damaged, or another kind of policy.
    """
    place = STARTER if options.checkpoint == "starter" else Path(options.checkpoint).expanduser()
    found = find_model(place, ARTIFACT, DOCUMENT)
    if found is None:
        raise MotionkitError(
            f"{options.checkpoint} is no region policy.", fix="give a run of sa2va-rl or pretrain regions, or starter."
        )
    document = read_regions(found.document)
    network = weights.build(
        lambda: RegionNetwork(document.settings, len(SPECIAL) + len(document.words)),
        {name: value.float() for name, value in weights.read(found.tensors).items()}, str(found.tensors),
    )  # fmt: skip
    return ShapesPolicy(document.settings, document.words, network=network, device=device)


def read_regions(path: Path) -> RegionDocument:
    """Read policy.json.

    Raises:
        MotionkitError: It is missing, damaged, or describes another kind of policy.
    """
    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != KIND:
        raise MotionkitError(f"{path} describes a {str(content.get('kind'))[:40]!r} policy, not {KIND}.")
    try:
        return RegionDocument.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MotionkitError(f"{path} is damaged.", why=f"{place or 'it'}: {first['msg']}.") from error


def save_regions(folder: Path, policy: ShapesPolicy, *, tensors: Mapping[str, Tensor] | None) -> Path:
    """Write a policy; with `tensors` None only policy.json, for a run whose checkpoints hold them."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"kind": KIND, "settings": policy.settings.model_dump(mode="json"), "words": list(policy.words.words)}
    write_bytes_atomic(folder / DOCUMENT, (json.dumps(document, indent=2) + "\n").encode())
    if tensors is not None:
        cpu = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        write_bytes_atomic(folder / TENSORS, safetensors.torch.save(cpu))
    return folder
