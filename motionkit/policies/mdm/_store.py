"""motionkit's own policy format: a folder with policy.json and model.safetensors, complete in itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, KIT, Normalizer, Skeleton
from motionkit.nn import add_adapters, merged_state
from motionkit.policies.mdm._document import PolicyDocument, read_document
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.runs import write_model

DOCUMENT = "policy.json"
STATS = "normalizer."
"""Prefix of the statistics among a policy's tensors."""


def write_policy(folder: Path, document: Mapping[str, Any], tensors: Mapping[str, Tensor] | None) -> Path:
    """Write a policy.

    Args:
        folder: Made when it is missing.
        document: Content of policy.json, see `PolicyDocument`.
        tensors: The network's tensors, and the statistics under the prefix `STATS`. With None only policy.json is
            written, for a run whose checkpoints hold the tensors.

    Returns:
        `folder`.
    """
    write_model(folder, DOCUMENT, document, tensors)
    return folder


def read_policy(document: Path, tensors: Path) -> tuple[PolicyDocument, MDMNetwork, Normalizer]:
    """Read a policy; adapters are merged into the weights.

    Args:
        document: policy.json.
        tensors: Its safetensors file.

    Returns:
        The document, the network and the statistics.

    Raises:
        MotionkitError: A file is missing, damaged, of another kind, or the files do not fit each other.
    """
    content = read_document(document)
    found = weights.read(tensors)
    stats = {name: found.pop(STATS + name, None) for name in ("mean", "std")}
    if stats["mean"] is None or stats["std"] is None:
        raise MotionkitError(
            f"{tensors} has no normalizer statistics.", why=f"it looks like {weights.describe(found)}."
        )
    network = weights.build(lambda: _adapted(content), found, str(tensors))
    if content.lora is not None:
        merged = merged_state(network)
        network = MDMNetwork(content.settings)
        weights.load_strict(network, merged, str(tensors))
    return content, network, Normalizer(stats["mean"], stats["std"])


def _adapted(content: PolicyDocument) -> MDMNetwork:
    network = MDMNetwork(content.settings)
    if content.lora is not None:
        add_adapters(network, **content.lora.model_dump())
    return network


def read_stats(folder: Path) -> Normalizer:
    """Read ``Mean.npy`` and ``Std.npy``.

    Raises:
        MotionkitError: A file is missing or unusable.
    """
    mean, std = (torch.as_tensor(weights.read_numbers(folder / f"{name}.npy")).float() for name in ("Mean", "Std"))
    return Normalizer(mean, std)


def skeleton_of(features: int, origin: str) -> Skeleton:
    """Return the body that has `features` features per frame.

    Raises:
        MotionkitError: Neither HumanML3D (263) nor KIT (251).
    """
    for skeleton in (HUMANML, KIT):
        if skeleton.width == features:
            return skeleton
    raise MotionkitError(
        f"{origin} has {features} features per frame.",
        why="motionkit knows 263 (HumanML3D, 22 joints) and 251 (KIT-ML, 21 joints).",
    )
