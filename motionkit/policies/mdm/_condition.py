"""Encoded prompts in the form that the MDM network takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MDMCondition:
    """One row per prompt.

    Attributes:
        text: ``[N, L, F]`` float32 features: of the whole text (L = 1), of each clause, or of each word.
        mask: ``[N, L]`` bool.
        windows: ``[N, L, 2]`` int64 frame range of each clause; None unless the network reads clauses.
        prefix: ``[N, C, D]`` float32 clean, normalised frames that the motion continues; None unless it is DiP.
    """

    text: Tensor
    mask: Tensor
    windows: Tensor | None = None
    prefix: Tensor | None = None

    def __len__(self) -> int:
        return self.text.shape[0]

    def select(self, index: Tensor) -> MDMCondition:
        """Return the rows `index` (``[N]`` int64), repeats allowed."""
        windows, prefix = (None if part is None else part[index] for part in (self.windows, self.prefix))
        return MDMCondition(self.text[index], self.mask[index], windows, prefix)

    def repeat(self, times: int) -> MDMCondition:
        """Return all rows `times` times over, the whole block repeated."""
        return self.select(torch.arange(len(self), device=self.text.device).repeat(times))

    def to(self, device: torch.device | str) -> MDMCondition:
        """Move to `device`."""
        windows, prefix = (None if part is None else part.to(device) for part in (self.windows, self.prefix))
        return MDMCondition(self.text.to(device), self.mask.to(device), windows, prefix)
