"""Other weights for the trained part of a network: the policy at the start, and the average of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.policies.base import RegionPolicy
from motionkit.trainers._state import State


def trainable(policy: RegionPolicy) -> dict[str, list[tuple[str, nn.Parameter]]]:
    """Return the parameters to train by the name of their part, and freeze all others.

    Raises:
        MotionkitError: A part has no parameter: the policy is not what it says.
    """
    found: dict[str, list[tuple[str, nn.Parameter]]] = {group: [] for group in policy.groups}
    for name, parameter in policy.network.named_parameters():
        own = [group for group, heads in policy.groups.items() if name.startswith(tuple(heads))]
        parameter.requires_grad_(bool(own))
        for group in own:
            found[group].append((name, parameter))
    if empty := [group for group, named in found.items() if not named]:
        raise MotionkitError(f"the policy has no parameters in its {empty[0]}.", why="its `groups` name none.")
    return found


class Snapshot:
    """A copy of the trained parameters, in float32, that can take their place.

    Args:
        named: The trained parameters with their names.
    """

    def __init__(self, named: Sequence[tuple[str, nn.Parameter]]) -> None:
        self._live = dict(named)
        self._kept = {name: parameter.detach().clone() for name, parameter in named}

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the copy into the network inside the block; afterwards the live weights are back bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        # Swapping storage computes nothing: afterwards the parameters have the same memory as before.
        for name, parameter in self._live.items():
            parameter.data, self._kept[name] = self._kept[name], parameter.data

    def state(self) -> State:
        """Return the copy."""
        return State(dict(self._kept))

    def load_state(self, state: State) -> None:
        """Put it back."""
        self.load(state.tensors)

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take other values for the copy; strict."""
        for name, kept in self._kept.items():
            kept.copy_(tensors[name])
