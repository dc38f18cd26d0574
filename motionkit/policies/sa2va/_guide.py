"""Checkpoints of the guide's code: pytorch_model.bin, ema_model.bin, training_state.bin. Nothing in them runs."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.policies.groups import names_by_group
from motionkit.policies.sa2va import Sa2vaOptions
from motionkit.policies.sa2va._policy import Sa2vaPolicy

_logger = logging.getLogger("motionkit.sa2va")
_FILES = {"student": "pytorch_model.bin", "ema": "ema_model.bin"}
_STATE = "training_state.bin"
_WRAPPERS = ("shadow", "shadow_params", "ema_state_dict", "ema_model")
_PREFIXES = re.compile(r"^(?:(?:module|_orig_mod|model|student_model|ema_model|base_model|mllm)\.)+(?=[a-z]+)")
_PARTS = ("mlp1", "language_model", "text_hidden_fcs", "grounding_encoder")


def guide_file(place: Path, options: Sa2vaOptions) -> Path | None:
    """Return the weights of a guide's checkpoint; None for any other folder.

    Raises:
        MotionkitError: The file that `options` asks for is missing, or it is not said what the model was trained from.
    """
    if not any((place / name).is_file() for name in _FILES.values()) or (place / "config.json").is_file():
        return None
    path = place / _FILES[options.weights]
    if not path.is_file():
        other = "ema" if options.weights == "student" else "student"
        raise MotionkitError(f"{place} has no {path.name}.", fix=f"--policy.weights {other}")
    if not options.base:
        raise MotionkitError(
            f"{place} is a checkpoint of the guide's code, which does not say what it was trained from.",
            fix="--policy.base DIR names the folder of that model.",
        )
    return path


def load_guide(policy: Sa2vaPolicy, path: Path) -> None:
    """Put the trained weights of a guide's checkpoint into a policy, by name, and say what was not found.

    Raises:
        MotionkitError: The file is no such checkpoint, nothing in it is trained here, or a shape differs.
    """
    found = _named(weights.read(path), path)
    own = policy.tensors()
    taken = {name: found[name].float() for name in own if name in found}
    if not taken:
        raise MotionkitError(
            f"{path} holds nothing that is trained here.",
            why=f"it has {len(found):,} weights, such as {min(found)!r}.",
            fix="it is loaded by names such as mlp1.0.weight.",
        )
    for name, tensor in taken.items():
        if tensor.shape != own[name].shape:
            raise MotionkitError(
                f"{path} does not fit the model.",
                why=f"{name} is {list(tensor.shape)}, and the model's is {list(own[name].shape)}.",
                fix="--policy.lora-rank and --policy.lora-alpha say how it was trained." if "lora_" in name else "",
            )
    policy.load_tensors({**own, **taken})
    missing = {}
    for group, names in names_by_group(policy.groups, own).items():
        if absent := sum(name not in taken for name in names):
            missing[group] = f"{absent} of {len(names)} of the {group}"
    left = f"; not found: {', '.join(missing.values())}; these are as in the base" if missing else ""
    _logger.warning("%s: %s weights taken%s", path.name, f"{len(taken):,}", left)
    _say_state(path.parent / _STATE)


def _named(content: object, path: Path) -> dict[str, Tensor]:
    """Return the weights of a file by the names of the model's parts."""
    while isinstance(content, Mapping) and (inner := next((one for one in _WRAPPERS if one in content), None)):
        content = content[inner]
    if (found := weights.find_tensors(content)) is None:
        raise MotionkitError(f"{path} holds no weights by name.", fix="give the folder that the guide's code wrote.")
    return {_renamed(name): tensor for name, tensor in found.items()}


def _renamed(name: str) -> str:
    """Return a name without the wrappers of training code, and with adapters where `peft` injects them."""
    for part in _PARTS:
        if (at := name.find(f"{part}.")) >= 0 and _PREFIXES.sub("", name[: at + 1]) == name[at]:
            name = name[at:]
            break
    return name.replace("language_model.base_model.model.", "language_model.", 1)


def _say_state(path: Path) -> None:
    """Say how far the guide's run was; its optimiser starts anew."""
    if not path.is_file():
        return
    state = weights.read(path)
    said = {key: state[key] for key in ("global_step", "step", "epoch") if isinstance(state, Mapping) and key in state}
    shown = ", ".join(f"{key} {value}" for key, value in said.items() if isinstance(value, (int, float)))
    _logger.warning("%s: %s; the optimiser starts anew", path.name, shown or "read")
