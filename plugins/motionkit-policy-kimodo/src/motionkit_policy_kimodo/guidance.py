"""What a network is conditioned on, and classifier-free guidance by text and by constraints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit_policy_kimodo.network import KimodoNetwork


@dataclass(frozen=True, eq=False)
class Conditions:
    """N rows of conditions."""

    text: Tensor  # ``[N, L, E]``; zeros for an empty text
    text_mask: Tensor  # ``[N, L]`` bool, False for an empty text
    heading: Tensor  # ``[N]`` radians, of the first frame
    observed: Tensor | None = None  # ``[N, T, D]`` normalised values of constraints
    mask: Tensor | None = None  # ``[N, T, D]`` bool, where they count; None if no row has constraints

    def __len__(self) -> int:
        return len(self.text)

    def select(self, index: Tensor) -> Conditions:
        """Return the rows `index` (``[M]`` int64), repeats allowed."""
        return Conditions(**{name: value[index] for name, value in vars(self).items() if value is not None})

    def to(self, device: torch.device | str) -> Conditions:
        """Move them."""
        return Conditions(**{name: value.to(device) for name, value in vars(self).items() if value is not None})

    def at(self, frames: int) -> Conditions:
        """Return them for motions of so many frames: constraints are padded, or cut where no motion is."""
        if self.mask is None or self.observed is None:
            return self
        room = (0, 0, 0, frames - self.mask.shape[1])
        return replace(self, observed=F.pad(self.observed, room), mask=F.pad(self.mask, room))

    def without(self, *, text: bool, constraint: bool) -> Conditions:
        """Return the rows without text, or without constraints; the first heading stays."""
        kept = self
        if text:
            kept = replace(kept, text=torch.zeros_like(self.text), text_mask=torch.zeros_like(self.text_mask))
        if constraint and self.mask is not None:
            kept = replace(kept, mask=torch.zeros_like(self.mask))
        return kept


@dataclass(frozen=True)
class Guidance:
    """How predictions with and without conditions are mixed; u is the one without text and constraints.

    ``separated``: u + text (t - u) + constraint (k - u), where t has the text alone and k the constraints alone.
    ``regular``: u + text (c - u), where c has both. ``nocfg``: c.
    """

    kind: Literal["separated", "regular", "nocfg"] = "separated"
    text: float = 2.0
    constraint: float = 2.0

    def predict(
        self, network: KimodoNetwork, x: Tensor, timestep: Tensor, lengths: Tensor, conditions: Conditions
    ) -> Tensor:
        """Predict x0, ``[N, T, D]``, by one pass of all the rows that are needed.

        Without constraints k is u: two rows a motion, and one for a text weight of 1.
        """
        passes = self._passes(constrained=conditions.mask is not None)
        rows = [vars(conditions.without(text=not text, constraint=not constraint)) for text, constraint in passes]
        joined = {name: torch.cat([row[name] for row in rows]) for name, had in rows[0].items() if had is not None}
        count = len(passes)
        made = network(x.repeat(count, 1, 1), timestep.repeat(count), lengths.repeat(count), **joined).chunk(count)
        # The first pass has no weight: it is u, or the only one.
        out: Tensor = made[0]
        for prediction, weight in zip(made[1:], list(passes.values())[1:], strict=True):
            out = out + weight * (prediction - made[0])
        return out

    def _passes(self, *, constrained: bool) -> dict[tuple[bool, bool], float]:
        """Return (has text, has constraints) of each pass, and its weight."""
        both, neither = (True, constrained), (False, False)
        if self.kind == "nocfg" or (self.text == 1.0 and not (constrained and self.kind == "separated")):
            return {both: 1.0}
        if self.kind == "regular" or not constrained:
            return {neither: 1.0, both: self.text}
        return {neither: 1.0, (True, False): self.text, (False, True): self.constraint}
