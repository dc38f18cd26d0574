"""Which parts of a region policy are trained."""

from __future__ import annotations

from fnmatch import fnmatchcase

from torch import nn

from motionkit.errors import MotionkitError
from motionkit.policies.base import RegionPolicy


def trainable(policy: RegionPolicy) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters to train by the name of their part, and freeze all others.

    Raises:
        MotionkitError: A part has no parameter: the policy is not what it says.
    """
    found: dict[str, list[tuple[str, nn.Parameter]]] = {group: [] for group in policy.groups}
    for name, parameter in policy.network.named_parameters():
        own = [group for group, all_of in policy.groups.items() if any(fnmatchcase(name, one) for one in all_of)]
        parameter.requires_grad_(bool(own))
        for group in own:
            found[group].append((name, parameter))
    if empty := [group for group, named in found.items() if not named]:
        raise MotionkitError(f"the policy has no parameters in its {empty[0]}.", why="its `groups` name none.")
    return found
