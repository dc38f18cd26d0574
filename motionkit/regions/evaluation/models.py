"""Opens the region policy to measure, the one that it is compared with, and their data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from motionkit import runs
from motionkit.config import Chosen, choose_from_file, choose_one
from motionkit.contracts.dataset import RegionDataset
from motionkit.contracts.open_model import STARTER, FoundModel, gives_of_model, open_model
from motionkit.contracts.policy import RegionPolicy
from motionkit.errors import MotionkitError

_OURS, _SHAPES = "tiny-sa2va", "shapes"


@dataclass(frozen=True)
class RegionModels:
    """Policies to measure."""

    policy: RegionPolicy
    start: RegionPolicy | None  # what it is compared with and judged by; None: there is nothing, and it judges itself
    label: str  # the policy in words
    base: str  # the other one in words; empty without one
    run: runs.RunInfo | None  # the run that made the policy, if one did


def open_region_data(model: str, chosen: Chosen | None) -> tuple[str, RegionDataset]:
    """Return the data and their name: those asked for, those of the model's run, else the built-in shapes."""
    if chosen is None:
        info = None if model == STARTER else _found(model).run
        table = info.config.get("dataset") if info is not None else None
        chosen = choose_from_file("datasets", table) or choose_one("datasets", _SHAPES, {})
    return chosen.label, chosen.build()


def open_region_models(
    model: str,  # ``starter``, a run, or a folder of a policy; empty if `chosen` names its own
    chosen: Chosen | None,  # ``--policy``; None takes that of the run or the folder
    base: str,  # what to compare with, named as `model`; empty: what the run started from
    *,
    data: RegionDataset,  # the data, for policies that ask for them
    device: torch.device,
) -> RegionModels:
    """Open the policies."""
    if not model and chosen is not None:
        policy = chosen.build(device=device, dataset=data)
        start = _open(base, None, data, device) if base else None
        return RegionModels(policy, start, chosen.label, base, None)
    info = None if model == STARTER else _found(model).run
    policy = _open(model, chosen, data, device)
    if base:
        return RegionModels(policy, _open(base, None, data, device), model, base, info)
    table = info.config.get("policy") if info is not None else None
    if chosen is not None and isinstance(table, Mapping) and table.get("name") == chosen.name:
        # Typed options hold, such as that code is trusted; the checkpoint is the one that the run started from.
        started = {**chosen.options.model_dump(mode="json"), "checkpoint": str(table.get("checkpoint", ""))}
        begun: Chosen | None = choose_one("policies", chosen.name, started, typed=True)
    else:
        begun = choose_from_file("policies", table)
    if begun is None:
        return RegionModels(policy, None, model, "", info)
    words = str(getattr(begun.options, "checkpoint", "") or begun.label)
    return RegionModels(policy, begun.build(device=device, dataset=data), model, words, info)


def _open(model: str, chosen: Chosen | None, data: RegionDataset, device: torch.device) -> RegionPolicy:
    if chosen is None and model != STARTER:
        located = _found(model)
        table = located.run.config.get("policy") if located.run is not None else None
        chosen = choose_from_file("policies", table) or choose_one("policies", located.plugin, {})
    if chosen is None:
        chosen = choose_one("policies", _OURS, {})
    options = {**chosen.options.model_dump(mode="json"), "checkpoint": model}
    named = choose_one("policies", chosen.name, options, typed=True)
    policy: RegionPolicy = named.build(device=device, dataset=data)
    return policy


def _found(model: str) -> FoundModel:
    located = open_model(model)
    if gives_of_model(located) != "regions":
        raise MotionkitError(
            f"{located.describe()}; eval sa2va measures policies of regions.",
            fix="give a run of sa2va-rl or pretrain regions, a folder of such a policy, or starter.",
        )
    return located
