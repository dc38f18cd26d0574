"""The ACTOR-style transformer encoder and decoder of TMR.

Tensor names are those of the released files up to the attention projections (`motionkit.nn.native_keys`).

Source: Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), after ACTOR (ICCV 2021). One class serves
motion and text; they differ in the input width only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from motionkit.nn import TransformerDecoder, TransformerEncoder, sinusoidal_table


@dataclass(frozen=True)
class ActorSizes:
    """Sizes of one encoder or decoder.

    Attributes:
        features: Width F of the sequence.
        latent: Width D of the transformer and of the latent.
        feedforward: Hidden width of the feed-forward blocks.
        layers: Number of blocks.
        heads: Attention heads; a weight file does not reveal them.
        variational: Two summary tokens (mean and log-variance) instead of one.
        dropout: Dropout while training.
    """

    features: int
    latent: int = 256
    feedforward: int = 1024
    layers: int = 6
    heads: int = 4
    variational: bool = True
    dropout: float = 0.1


class Latent(NamedTuple):
    """A Gaussian in the joint space: ``mu`` and ``logvar`` (zeros when not variational), each ``[N, D]``."""

    mu: Tensor
    logvar: Tensor

    def sample(self, generator: torch.Generator | None = None, *, scale: float = 1.0) -> Tensor:
        """Draw ``mu + scale * eps * exp(logvar)^0.5``."""
        eps = torch.randn(self.mu.shape, generator=generator, device=self.mu.device, dtype=self.mu.dtype)
        return self.mu + scale * eps * self.logvar.exp().pow(0.5)


class _Positioned(nn.Module):
    """Adds positions; the table is rebuilt when a longer sequence comes and is never part of the weights."""

    table: Tensor

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", torch.zeros(0, width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.table.shape[0] < x.shape[1] or self.table.device != x.device:
            self.table = sinusoidal_table(max(256, x.shape[1]), x.shape[2]).to(x.device)
        moved: Tensor = self.dropout(x + self.table[: x.shape[1]].to(x.dtype))
        return moved


class ActorEncoder(nn.Module):
    """Sequence to latent: summary tokens in front of the projected frames, read off after the last block.

    Args:
        sizes: See `ActorSizes`.
    """

    def __init__(self, sizes: ActorSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.projection = nn.Linear(sizes.features, sizes.latent)
        self.tokens = nn.Parameter(torch.empty(2 if sizes.variational else 1, sizes.latent))
        if not self.tokens.is_meta:  # there, drawing would import torch._dynamo, which takes as long as torch itself
            nn.init.normal_(self.tokens)
        self.sequence_pos_encoding = _Positioned(sizes.latent, sizes.dropout)
        self.seqTransEncoder = TransformerEncoder(
            sizes.latent, sizes.heads, sizes.feedforward, sizes.layers, sizes.dropout
        )

    def forward(self, x: Tensor, mask: Tensor) -> Latent:
        """Encode N sequences.

        Args:
            x: ``[N, T, F]``; masked frames may hold anything.
            mask: ``[N, T]`` bool, True = valid.

        Returns:
            The latent of each sequence. A row does not depend on the rest of the batch.
        """
        x = torch.where(mask[..., None], x, torch.zeros_like(x))
        count = self.tokens.shape[0]
        # [N, c + T, D]: c = 1 or 2 learned summary tokens (mu, logvar) in front of the projected frames as in ACTOR.
        sequence = torch.cat([self.tokens.expand(len(x), -1, -1), self.projection(x)], 1)
        # Summary tokens are always attended to.
        keys = torch.cat([mask.new_ones(len(x), count), mask], 1)
        out = self.seqTransEncoder(self.sequence_pos_encoding(sequence), keys)
        return Latent(out[:, 0], out[:, 1] if count == 2 else torch.zeros_like(out[:, 0]))


class ActorDecoder(nn.Module):
    """Latent to sequence: positions as queries, the latent as the only memory token.

    Args:
        sizes: See `ActorSizes`.
    """

    def __init__(self, sizes: ActorSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.sequence_pos_encoding = _Positioned(sizes.latent, sizes.dropout)
        self.seqTransDecoder = TransformerDecoder(
            sizes.latent, sizes.heads, sizes.feedforward, sizes.layers, sizes.dropout
        )
        self.final_layer = nn.Linear(sizes.latent, sizes.features)

    def forward(self, latent: Tensor, mask: Tensor) -> Tensor:
        """Decode ``[N, D]`` latents into ``[N, T, F]`` normalised features; masked frames are exactly 0."""
        # Queries [N, T, D] are positions alone; the memory [N, 1, D] is the latent.
        queries = self.sequence_pos_encoding(latent.new_zeros(*mask.shape, latent.shape[1]))
        out = self.seqTransDecoder(queries, latent[:, None], mask)
        features: Tensor = self.final_layer(out)
        return torch.where(mask[..., None], features, torch.zeros_like(features))
