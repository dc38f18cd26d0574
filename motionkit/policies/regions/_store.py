"""Opens a region policy."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit import starter, weights
from motionkit.errors import MotionkitError
from motionkit.policies.base import REGION_ARTIFACT
from motionkit.policies.regions import RegionOptions
from motionkit.policies.regions._document import DOCUMENT, read_regions
from motionkit.policies.regions._network import RegionNetwork
from motionkit.policies.regions._policy import ShapesPolicy
from motionkit.policies.regions._words import SPECIAL
from motionkit.runs import find_model

STARTER = Path(starter.__file__).parent / "weights" / "regions"


def open_regions(options: RegionOptions, *, device: torch.device | str = "cpu", dataset: object = None) -> ShapesPolicy:
    """Open the policy that `options` names.

    Raises:
        MotionkitError: It is missing, damaged, or another kind of policy.
    """
    place = STARTER if options.checkpoint == "starter" else Path(options.checkpoint).expanduser()
    found = find_model(place, REGION_ARTIFACT, DOCUMENT)
    if found is None:
        raise MotionkitError(
            f"{options.checkpoint} is no region policy.", fix="give a run of sa2va-rl or pretrain regions, or starter."
        )
    document = read_regions(found.document)
    network = weights.build(
        lambda: RegionNetwork(document.settings, len(SPECIAL) + len(document.words)),
        {name: value.float() for name, value in weights.read(found.tensors).items()}, str(found.tensors),
    )  # fmt: skip
    resize = document.settings.resize or options.resize  # a policy that was trained so needs no option
    settings = document.settings.model_copy(update={"resize": resize})
    return ShapesPolicy(settings, document.words, network=network, device=device)
