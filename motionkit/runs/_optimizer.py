"""Converts optimiser state to named tensors plus JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


def flatten_optimizer(
    optimizer: Optimizer, module: nn.Module | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Convert an optimiser's state for a checkpoint.

    Args:
        optimizer: Any torch optimiser whose per-parameter state is tensors and plain values.
        module: Owner of the parameters; its names then label the tensors, otherwise positions do.

    Returns:
        Tensors named ``<parameter>/<key>``, and the JSON-able rest: options of each group, its parameters in order.
    """
    names = _names(optimizer, module)
    tensors: dict[str, Tensor] = {}
    groups: list[dict[str, Any]] = []
    plain: dict[str, dict[str, object]] = {}
    for number, group in enumerate(optimizer.param_groups):
        options: dict[str, object] = {}
        for key, value in group.items():
            if key == "params":
                continue
            if _is_tensor(value):
                tensors[f"group.{number}/{key}"] = value
            else:
                options[key] = value
        groups.append({"options": options, "params": names[number]})
        for name, parameter in zip(names[number], group["params"], strict=True):
            for key, value in optimizer.state.get(parameter, {}).items():
                if _is_tensor(value):
                    tensors[f"{name}/{key}"] = value
                else:
                    plain.setdefault(name, {})[key] = value
    return tensors, {"kind": type(optimizer).__name__, "groups": groups, "plain": plain}


def restore_optimizer(
    optimizer: Optimizer,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    module: nn.Module | None = None,
) -> None:
    """Put back what `flatten_optimizer` returned, bit for bit.

    Args:
        optimizer: A fresh optimiser over the same parameters in the same groups.
        tensors: The tensors.
        state: The rest.
        module: The owner, if one was given when flattening.

    Raises:
        MotionkitError: The optimiser is of another kind, or its parameters are not those of the checkpoint.
    """
    names = _names(optimizer, module)
    saved = [group["params"] for group in state["groups"]]
    if state["kind"] != type(optimizer).__name__ or saved != names:
        theirs, ours = {n for group in saved for n in group}, {n for group in names for n in group}
        odd = ", ".join(sorted(theirs ^ ours)[:5])
        raise MotionkitError(
            f"the checkpoint's {state['kind']} does not fit this {type(optimizer).__name__}.",
            why=f"parameters only on one side: {odd}." if odd else "groups or kinds of optimiser differ.",
            fix="resume with the settings that the run was started with",
        )
    document = optimizer.state_dict()
    per_parameter: dict[int, dict[str, object]] = {}
    for group, stored, labels in zip(document["param_groups"], state["groups"], names, strict=True):
        for key, value in stored["options"].items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
        per_parameter.update({index: {} for index in group["params"]})
        for index, name in zip(group["params"], labels, strict=True):
            per_parameter[index].update(state["plain"].get(name, {}))
            prefix = f"{name}/"
            found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            per_parameter[index].update({key: value.clone() for key, value in found.items()})
    for name, value in tensors.items():
        owner, _, key = name.rpartition("/")
        if owner.startswith("group.") and owner[6:].isdecimal():
            document["param_groups"][int(owner[6:])][key] = value.clone()
    document["state"] = {index: entry for index, entry in per_parameter.items() if entry}
    optimizer.load_state_dict(document)


def _names(optimizer: Optimizer, module: nn.Module | None) -> list[list[str]]:
    known = {} if module is None else {id(parameter): name for name, parameter in module.named_parameters()}
    names, position = [], 0
    for group in optimizer.param_groups:
        labels = []
        for parameter in group["params"]:
            labels.append(known.get(id(parameter), f"param.{position}"))
            position += 1
        names.append(labels)
    return names


def _is_tensor(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
