"""DiP: an MDM that makes a motion block by block, each block the continuation of the last (arXiv:2410.03441)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from motionkit.policies.base import Condition
from motionkit.policies.mdm._condition import MDMCondition
from motionkit.policies.mdm._network import MDMNetwork
from motionkit.policies.mdm._policy import MDMPolicy
from motionkit.policies.mdm._prefix import Prefixes
from motionkit.policies.mdm._settings import MDMSettings
from motionkit.text import Prompt

LONGEST = 100_000
"""Frames; there is no limit in the model, whose positions start again with every block."""


class DiPPolicy(MDMPolicy):
    """A policy that `motionkit.policies.sampling.sample` asks for one block at a time.

    The network reads C clean frames and T noisy ones as one sequence. The first C come from `prefixes`, those of later
    blocks are the last C frames of the block before; they are no part of the motion. Blocks are always made whole, as
    in training, and the last one is cut.

    Args:
        settings: As `MDMPolicy`, with context_len and pred_len.
        network: As `MDMPolicy`.
        prefixes: Chooses what the first block continues.
        **rest: As `MDMPolicy`; `padding` has no effect.

    Attributes:
        block: T, frames of a block.
    """

    def __init__(self, settings: MDMSettings, network: MDMNetwork, *, prefixes: Prefixes, **rest: Any) -> None:
        super().__init__(settings, network, **{**rest, "padding": "exact"})
        self.block = settings.pred_len
        self.prefixes = prefixes

    def frames(self, lengths: Tensor) -> int:
        """Return the T to sample `lengths` (``[N]``) at: whole blocks."""
        return -(-int(lengths.max()) // self.block) * self.block

    def condition(self, prompts: Sequence[Prompt]) -> MDMCondition:
        """Encode prompts, with the frames that each of them starts from."""
        prefix = self.prefixes.of(prompts).to(self.device)
        return replace(super().condition(prompts), prefix=self.normalizer.normalize(prefix))

    def continued(self, condition: Condition, x0: Tensor) -> MDMCondition:
        """Return the condition of the next block.

        Args:
            condition: Of the block that was made.
            x0: ``[N, T, D]`` that block, normalised.
        """
        assert isinstance(condition, MDMCondition), "a policy reads what its own `condition` returns"
        assert condition.prefix is not None, "the condition of a DiP has a prefix"
        # A block may be shorter than the prefix: then part of the old one stays.
        both = torch.cat((condition.prefix, x0), dim=1)
        return replace(condition, prefix=both[:, -self.settings.context_len :])
