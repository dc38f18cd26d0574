"""Opening a policy to be evaluated."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import torch

from motionkit.config import Chosen, choose_one
from motionkit.datasets.base import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.evaluation._opened import FoundModel, open_model
from motionkit.policies.base import DiffusionPolicy

_SMALL = 4_000_000
"""Parameters of a network whose layers are done before a second thread has woken up."""


def set_threads(policies: Sequence[DiffusionPolicy], wanted: int) -> None:
    """Set torch's CPU threads: `wanted`, or for 0 one where all networks are small."""
    sizes = [sum(parameter.numel() for parameter in policy.network.parameters()) for policy in policies]
    if wanted or max(sizes) < _SMALL:
        torch.set_num_threads(wanted or 1)


def find_policy(path: str) -> FoundModel:
    """Say which policy a path holds.

    Raises:
        MotionkitError: It is no policy.
    """
    found = open_model(path)
    if "evaluator" in found.what:
        raise MotionkitError(
            f"{found.describe()}; what is measured is a policy.",
            fix=f"motionkit eval text-to-motion --evaluator {shlex.quote(str(path))}",
        )
    if found.kind != "policies":
        raise MotionkitError(
            f"{found.describe()}; what is measured is a policy.",
            fix=f"motionkit eval retrieval {shlex.quote(str(path))} measures a TMR.",
        )
    return found


def open_policy(
    found: FoundModel, chosen: Chosen, dataset: TextMotionDataset, *, full: bool, device: torch.device | str
) -> DiffusionPolicy:
    """Open a policy with its moving average, its adapters and the options that were given.

    Args:
        found: The policy.
        chosen: ``--policy`` with its options.
        dataset: Gives statistics to a released checkpoint.
        full: Whether padded frames are attended to where nothing else was asked for, as in the original's evaluation.
        device: Where it goes.

    Raises:
        MotionkitError: It cannot be opened, or does not fit the dataset.
    """
    if chosen.label != found.plugin and found.plugin:
        chosen = choose_one("policies", found.plugin, {})
    given = chosen.options.model_fields_set
    if getattr(chosen.options, "reference", ""):
        raise MotionkitError(
            "--reference has no effect in eval.", why="it is what training measures KL to.", fix="leave it out."
        )
    more: dict[str, object] = {"checkpoint": found.path}
    if full and "padding" in type(chosen.options).model_fields and "padding" not in given:
        more["padding"] = "full"
    options = chosen.options.model_copy(update=more)
    policy: DiffusionPolicy = Chosen(chosen.kind, chosen.name, options).build(device=device, dataset=dataset)
    return policy
