"""Transformer layers that compute what `nn.TransformerEncoder` and `nn.TransformerDecoder` compute.

Batch first, masks True = valid, attention through `scaled_dot_product_attention` and one code path for training and
inference. Padded positions may hold anything, NaN included: they are zeroed on entry and never attended to.

Parameters are named as in torch, except the attention projections: `nn.MultiheadAttention` keeps those of query, key
and value as raw parameters, which adapters cannot wrap; here they are `nn.Linear`. Self-attention keeps the fused
matrix (`in_proj`), cross-attention splits it (`q_proj`, `kv_proj`); `native_keys` and `stock_keys` rename them.
Position encodings are `sinusoidal_table`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypedDict, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.nn._rows import zeroed

Activation = Literal["gelu", "relu"]

_CROSS = "multihead_attn."


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
        """Attend from every token of ``[B, S, width]`` to those of ``key_mask`` ``[B, S]``, as `key_scores` returns."""
        # Rows of in_proj are all of q, then k, then v: [B, S, 3 W] -> three of [B, H, S, W/H]. Side by side, the
        # gradients of the three are joined in one copy.
        q, k, v = (_by_head(part, self.heads) for part in self.in_proj(x).chunk(3, dim=-1))
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
        """Attend from ``[B, S, width]`` to ``[B, L, width]``; ``memory_mask`` ``[B, L]`` as `key_scores` returns."""
        # Queries [B, H, S, W/H] come from the tokens, keys and values [B, H, L, W/H] from the memory.
        q = _by_head(self.q_proj(x), self.heads)
        k, v = (_by_head(part, self.heads) for part in self.kv_proj(memory).chunk(2, dim=-1))
        out: Tensor = self.out_proj(_attend(q, k, v, memory_mask, self.dropout if self.training else 0.0))
        return out


def _by_head(x: Tensor, heads: int) -> Tensor:
    """``[B, S, W]`` -> ``[B, H, S, W/H]``."""
    return x.view(*x.shape[:-1], heads, -1).transpose(1, 2)


def key_scores(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what a bool mask (True = valid) adds to the scores of keys: 0, or minus infinity.

    ``scaled_dot_product_attention`` makes this of a bool mask at every call; here it is made once for a stack.
    """
    if mask is None:
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -math.inf)


def _attend(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, dropout: float) -> Tensor:
    # [B, L] -> [B, 1, 1, L]: the same keys for every head and query.
    mask = None if key_mask is None else key_mask[:, None, None, :]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    # [B, H, S, W/H] -> [B, S, W]: heads side by side.
    return out.transpose(1, 2).flatten(2)


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward, each with residual and LayerNorm.

    Args:
        width: Features per token.
        heads: Number of heads; divides `width`.
        hidden: Width of the feed-forward.
        dropout: In training mode only.
        norm_first: LayerNorm comes before each of the two, in place of after its sum with the residual.
        activation: Of the feed-forward.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        *,
        norm_first: bool = False,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        self.norm_first, self.activation = norm_first, activation
        self.self_attn = SelfAttention(width, heads, dropout)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Transform ``[B, S, width]``; ``mask`` ``[B, S]`` as `key_scores` returns."""
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.norm1(x), mask))
            return x + _feed_forward(self, self.norm2(x), self.activation)
        x = self.norm1(x + self.dropout(self.self_attn(x, mask)))
        out: Tensor = self.norm2(x + _feed_forward(self, x, self.activation))
        return out


class DecoderLayer(nn.Module):
    """`EncoderLayer` with cross-attention to a memory between its two parts; GELU, and LayerNorm after each."""

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
        """Transform ``[B, S, width]`` given memory ``[B, L, width]``; masks as `key_scores` returns."""
        x = self.norm1(x + self.dropout(self.self_attn(x, mask)))
        x = self.norm2(x + self.dropout(self.multihead_attn(x, memory, memory_mask)))
        out: Tensor = self.norm3(x + _feed_forward(self, x))
        return out


def _feed_forward(layer: EncoderLayer | DecoderLayer, x: Tensor, activation: Activation = "gelu") -> Tensor:
    hidden = layer.linear1(x)
    hidden = F.relu(hidden) if activation == "relu" else F.gelu(hidden)
    out: Tensor = layer.dropout(layer.linear2(layer.dropout(hidden)))
    return out


class _Layer(TypedDict, total=False):
    norm_first: bool
    activation: Activation


class TransformerEncoder(nn.Module):
    """A stack of `depth` layers without a final norm; other arguments are those of `EncoderLayer`."""

    def __init__(
        self, width: int, heads: int, hidden: int, depth: int, dropout: float = 0.1, **layer: Unpack[_Layer]
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(width, heads, hidden, dropout, **layer) for _ in range(depth)])

    def forward(self, x: Tensor, mask: Tensor | None = None, *, finite: bool = False) -> Tensor:
        """Transform tokens.

        Args:
            x: ``[B, S, width]``; padding may hold anything.
            mask: ``[B, S]`` bool, True = valid, at least one per row; None = all valid.
            finite: Padding is known to hold no NaN, so it is not zeroed, which costs two passes.

        Returns:
            ``[B, S, width]``, finite everywhere, meaningful where `mask` is True.
        """
        if mask is not None and not finite:
            x = zeroed(x, mask)
        keys = key_scores(mask, x.dtype)
        for layer in self.layers:
            x = layer(x, keys)
        return x


class TransformerDecoder(nn.Module):
    """A stack of `DecoderLayer` without a final norm; arguments as in `TransformerEncoder`."""

    def __init__(self, width: int, heads: int, hidden: int, depth: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer(width, heads, hidden, dropout) for _ in range(depth)])

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Transform ``[B, S, width]`` given memory ``[B, L, width]``; masks are bool, True = valid."""
        if mask is not None:
            x = zeroed(x, mask)
        if memory_mask is not None:
            memory = zeroed(memory, memory_mask)
        keys, memory_keys = key_scores(mask, x.dtype), key_scores(memory_mask, x.dtype)
        for layer in self.layers:
            x = layer(x, memory, keys, memory_keys)
        return x


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Encode positions with sines and cosines, interleaved (Vaswani et al. 2017, section 3.5).

    Args:
        positions: ``[...]``, any numeric type.
        width: Even number of features.

    Returns:
        ``[..., width]`` float32; even columns are sines, odd ones cosines, base 10000.
    """
    rates = torch.exp(
        torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) * (-math.log(10000.0) / width)
    )
    angles = positions.to(torch.float32).unsqueeze(-1) * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoidal_table(length: int, width: int) -> Tensor:
    """Return the encodings of positions 0 to `length` - 1 as ``[length, width]``."""
    if torch.get_default_device().type == "meta":
        # Only the shape is needed, and torch.arange would import torch._dynamo, which takes as long as torch itself.
        return torch.empty(length, width)
    return sinusoid(torch.arange(length), width)


def native_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return `state` (names as in `nn.TransformerEncoder` / `nn.TransformerDecoder`) under our layers' names."""
    out: dict[str, Tensor] = {}
    for key, value in state.items():
        for kind in ("weight", "bias"):
            suffix = f"in_proj_{kind}"
            if not key.endswith(suffix) or not value.ndim:
                continue
            stem = key.removesuffix(suffix)
            if stem.endswith(_CROSS):
                # The fused matrix [3 W, W] is q, k, v from top to bottom.
                width = value.shape[0] // 3
                out[f"{stem}q_proj.{kind}"] = value[:width]
                out[f"{stem}kv_proj.{kind}"] = value[width:]
            else:
                out[f"{stem}in_proj.{kind}"] = value
            break
        else:
            out[key] = value
    return out


def stock_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return `state` of our layers under the names of `nn.TransformerEncoder` / `nn.TransformerDecoder`."""
    out: dict[str, Tensor] = {}
    for key, value in state.items():
        stem, _, kind = key.rpartition(".")
        if stem.endswith(".kv_proj"):
            continue
        if stem.endswith(".q_proj"):
            base = stem.removesuffix("q_proj")
            out[f"{base}in_proj_{kind}"] = torch.cat((value, state[f"{base}kv_proj.{kind}"]))
        elif stem.endswith(".in_proj"):
            out[f"{stem}_{kind}"] = value
        else:
            out[key] = value
    return out
