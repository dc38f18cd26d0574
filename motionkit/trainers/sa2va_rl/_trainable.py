"""Which parts of a region policy are trained."""

from __future__ import annotations

from torch import nn

from motionkit.errors import MotionkitError
from motionkit.policies.base import RegionPolicy
from motionkit.policies.groups import names_by_group


def trainable(policy: RegionPolicy) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters to train by the name of their part, and freeze all others.

    Raises:
        MotionkitError: A part has no parameter: the policy is not what it says.
    """
    parameters = dict(policy.network.named_parameters())
    groups = names_by_group(policy.groups, parameters)
    chosen = {name for own in groups.values() for name in own}
    for name, parameter in parameters.items():
        parameter.requires_grad_(name in chosen)
    found = {group: [(name, parameters[name]) for name in own] for group, own in groups.items()}
    if empty := [group for group, named in found.items() if not named]:
        raise MotionkitError(f"the policy has no parameters in its {empty[0]}.", why="its `groups` name none.")
    return found
