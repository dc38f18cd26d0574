"""Post-norm transformer layers that compute what `nn.TransformerEncoder` and `nn.TransformerDecoder` compute.

Batch first, masks True = valid, attention through `scaled_dot_product_attention` and one code path for training and
inference. Padded positions may hold anything, NaN included: they are zeroed on entry and never attended to. Parameters
are named as in torch, except the projections that `motionkit.nn.native_keys` renames.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Multi-head self-attention with a fused ``in_proj``.

    Args:
        width: Features per token.
        heads: Number of heads; divides `width`.
        dropout: On attention weights, in training mode only.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj.weight)
        nn.init.zeros_(self.in_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend from every token of ``[B, S, width]`` to the valid ones of ``key_mask`` (``[B, S]`` bool)."""
        batch, length, _ = x.shape
        # [B, S, 3 W] -> [B, S, 3, H, W/H] -> three of [B, H, S, W/H]: rows of in_proj are all of q, then k, then v.
        q, k, v = self.in_proj(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        out: Tensor = self.out_proj(_attend(q, k, v, key_mask, self.dropout if self.training else 0.0))
        return out


class CrossAttention(nn.Module):
    """Multi-head attention from tokens to a memory; arguments as in `SelfAttention`."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.q_proj = nn.Linear(width, width)
        self.kv_proj = nn.Linear(width, 2 * width)
        self.out_proj = nn.Linear(width, width)
        # torch draws one Xavier matrix [3 width, width]; the two parts have that matrix's scale, not their own.
        bound = (6 / (4 * width)) ** 0.5
        for layer in (self.q_proj, self.kv_proj):
            nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        """Attend from ``[B, S, width]`` to ``[B, L, width]`` under ``memory_mask`` (``[B, L]`` bool)."""
        batch, length, _ = x.shape
        # Queries [B, H, S, W/H] come from the tokens, keys and values [B, H, L, W/H] from the memory.
        q = self.q_proj(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.kv_proj(memory).view(batch, memory.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        out: Tensor = self.out_proj(_attend(q, k, v, memory_mask, self.dropout if self.training else 0.0))
        return out


def _attend(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, dropout: float) -> Tensor:
    # [B, L] -> [B, 1, 1, L]: the same keys for every head and query. True = attend, as in scaled_dot_product_attention.
    mask = None if key_mask is None else key_mask[:, None, None, :]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    # [B, H, S, W/H] -> [B, S, W]: heads side by side.
    return out.transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    """Self-attention and a GELU feed-forward, each with residual and LayerNorm after it.

    Args:
        width: Features per token.
        heads: Attention heads.
        hidden: Width of the feed-forward.
        dropout: In training mode only.
    """

    def __init__(self, width: int, heads: int, hidden: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = SelfAttention(width, heads, dropout)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Transform ``[B, S, width]``; ``mask`` ``[B, S]`` bool selects the keys."""
        x = self.norm1(x + self.dropout(self.self_attn(x, mask)))
        out: Tensor = self.norm2(x + _feed_forward(self, x))
        return out


class DecoderLayer(nn.Module):
    """`EncoderLayer` with cross-attention to a memory between its two parts."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.self_attn = SelfAttention(width, heads, dropout)
        self.multihead_attn = CrossAttention(width, heads, dropout)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Transform ``[B, S, width]`` given memory ``[B, L, width]``; masks are bool, True = valid."""
        x = self.norm1(x + self.dropout(self.self_attn(x, mask)))
        x = self.norm2(x + self.dropout(self.multihead_attn(x, memory, memory_mask)))
        out: Tensor = self.norm3(x + _feed_forward(self, x))
        return out


def _feed_forward(layer: EncoderLayer | DecoderLayer, x: Tensor) -> Tensor:
    out: Tensor = layer.dropout(layer.linear2(layer.dropout(F.gelu(layer.linear1(x)))))
    return out


class TransformerEncoder(nn.Module):
    """A stack of `EncoderLayer` without a final norm.

    Args:
        width: Features per token.
        heads: Attention heads.
        hidden: Width of the feed-forward.
        depth: Number of layers.
        dropout: In training mode only.
    """

    def __init__(self, width: int, heads: int, hidden: int, depth: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(width, heads, hidden, dropout) for _ in range(depth)])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Transform tokens.

        Args:
            x: ``[B, S, width]``; rows where `mask` is False may hold anything.
            mask: ``[B, S]`` bool, True = valid, at least one per row; None = all valid.

        Returns:
            ``[B, S, width]``, finite everywhere, meaningful where `mask` is True.
        """
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        for layer in self.layers:
            x = layer(x, mask)
        return x


class TransformerDecoder(nn.Module):
    """A stack of `DecoderLayer` without a final norm; arguments as in `TransformerEncoder`."""

    def __init__(self, width: int, heads: int, hidden: int, depth: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(width, heads, hidden, dropout) for _ in range(depth)])

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Transform tokens given a memory.

        Args:
            x: ``[B, S, width]``.
            memory: ``[B, L, width]``.
            mask: ``[B, S]`` bool, True = valid.
            memory_mask: ``[B, L]`` bool, True = valid.

        Returns:
            ``[B, S, width]``.
        """
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        if memory_mask is not None:
            memory = memory.masked_fill(~memory_mask[..., None], 0.0)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x
