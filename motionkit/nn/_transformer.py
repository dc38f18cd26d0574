"""Post-norm transformer layers that compute what `nn.TransformerEncoder` and `nn.TransformerDecoder` compute.

Batch first, masks True = valid, attention through `scaled_dot_product_attention` and one code path for training and
inference. Padded positions may hold anything, NaN included: they are zeroed on entry and never attended to. Parameters
are named as in torch, except the projections that `motionkit.nn.native_keys` renames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# A linear layer applied once per step of a roll-out, whose weight gets the gradient of all steps at once.
#
# Plain autograd adds a weight's gradient once per step, each time with a pass over the whole weight for a product of
# a few rows. Here inputs and gradients of the steps are collected, and one product of all rows is computed.


class UnrolledLinear(nn.Linear):
    """`torch.nn.Linear`, with the same weights by the same names; see `unrolled`."""

    _steps: _Steps | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Return ``[..., out]`` of ``[..., in]``."""
        outputs = None if self._steps is None else self._steps.next(input)
        return super().forward(input) if outputs is None else outputs


@contextmanager
def unrolled(module: nn.Module, steps: int) -> Iterator[None]:
    """Let all `UnrolledLinear` layers of a module collect the gradients of their weights over the steps inside.

    Outputs are the same; gradients are the same up to rounding. A layer may be applied up to `steps` times, always to
    rows of one shape; further or other calls are those of a plain layer, as are all calls without a graph.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, UnrolledLinear)]
    if torch.is_grad_enabled() and not torch.is_autocast_enabled():
        for layer in layers:
            layer._steps = _Steps(layer, steps) if layer.weight.requires_grad else None
    try:
        yield
    finally:
        for layer in layers:
            layer._steps = None


class _Steps:
    """Copies of one layer's bias, one per step (taps); the gradient of a tap is that of the step's outputs."""

    def __init__(self, layer: nn.Linear, steps: int) -> None:
        self._layer, self._count = layer, steps
        self._weight = layer.weight.detach().T
        self._inputs: list[Tensor] = []
        self._taps: tuple[Tensor, ...] = ()
        self._shape: torch.Size | None = None

    def next(self, input: Tensor) -> Tensor | None:
        """Return the outputs of the next step; None if its shape differs or there are too many steps."""
        if len(self._inputs) == self._count or self._shape not in (None, input.shape):
            return None
        rows = input.flatten(0, -2)
        if self._shape is None:
            self._shape = input.shape
            taps: Tensor = _Gather.apply(  # type: ignore[no-untyped-call]
                self._layer.weight, self._layer.bias, self._inputs, (self._count, len(rows))
            )
            self._taps = taps.unbind(0)
        self._inputs.append(rows.detach())
        outputs = torch.addmm(self._taps[len(self._inputs) - 1], rows, self._weight)
        return outputs.view(*input.shape[:-1], -1)


class _Gather(torch.autograd.Function):
    """Repeats the bias for all steps; its backward pass computes the gradients of weight and bias for all of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], shape: tuple[int, ...]) -> Tensor:
        ctx.inputs, ctx.biased = inputs, bias is not None  # the list grows during the roll-out
        return weight.new_zeros(*shape, len(weight)) if bias is None else bias.repeat(*shape, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradient = grads[0][: len(ctx.inputs)].flatten(0, 1)
        rows = torch.cat(ctx.inputs)
        return gradient.T @ rows, gradient.sum(0) if ctx.biased else None, None, None


# Attention of a frame to the last frames up to itself; keys and values of a frame are computed once.


class WindowAttention(nn.Module):
    """Multi-head attention of one query per frame over a window of frames, with a learned bias by age.

    The query's own value is subtracted from all values. A roll-out computes keys and values of a frame once
    (`remember`) and attends for each new frame (`forward`).

    Args:
        features: Features of a frame, from which keys and values are computed.
        width: Features of a query, and of the result.
        inner: Features of keys and values, a multiple of `heads`.
        heads: Number of heads.
        window: Most frames W that a query attends to.
    """

    def __init__(self, features: int, width: int, inner: int, *, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.key, self.value = UnrolledLinear(features, inner), UnrolledLinear(features, inner)
        self.query, self.out = UnrolledLinear(width, inner), UnrolledLinear(inner, width)
        self.age = nn.Parameter(torch.zeros(window, heads))

    def remember(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[N, T, inner]`` of frames ``[N, T, features]``."""
        return self.key(frames), self.value(frames)

    def forward(self, hidden: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            hidden: ``[N, F, width]``: the queries, at the last F of the T frames.
            keys: ``[N, T, inner]``, T at least F.
            values: The same.

        Returns:
            ``[N, F, width]``, and weights ``[N, F, heads, W']``, the newest frame last, with W' the smaller of W and T.
        """
        count, total = hidden.shape[1], keys.shape[1]
        reach = min(self.window, total)
        # Query f is at frame total - count + f; ages of the frames relative to it.
        places = torch.arange(total - count, total, device=keys.device)
        ages = places[:, None] - torch.arange(total, device=keys.device)  # [F, T]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(hidden), keys, values))
        bias = self.age[(self.window - 1 - ages).clamp(0, self.window - 1)]  # [F, T, heads]
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias.permute(2, 0, 1)
        if count > 1 or total > self.window:
            scores = scores.masked_fill((ages < 0) | (ages >= self.window), -torch.inf)
        weights = scores.softmax(dim=-1)  # [N, heads, F, T]
        # Values relative to the query's frame, so that a constant window contributes zero.
        attended = (weights @ v - v[..., total - count :, :]).transpose(1, 2).flatten(-2)
        return self.out(attended), _newest(weights, places, reach).transpose(1, 2)


def _newest(weights: Tensor, places: Tensor, reach: int) -> Tensor:
    """Return the weights ``[N, heads, F, W']`` of the last frames up to each query's; 0 before the first frame."""
    seen = places[:, None] - torch.arange(reach - 1, -1, -1, device=weights.device)
    picked = weights.gather(-1, seen.clamp_min(0).expand(*weights.shape[:2], -1, -1))
    return picked * (seen >= 0)


# Feature-wise linear modulation (Perez et al., AAAI 2018).


class Film(nn.Module):
    """Scales and shifts features by a condition: ``h * (1 + tanh(g) / 2) + tanh(b) / 2``; at first the identity."""

    def __init__(self, condition: int, width: int) -> None:
        super().__init__()
        self.linear = UnrolledLinear(condition, 2 * width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """Return ``[..., width]`` of ``[..., width]`` and ``[..., condition]``."""
        gain, shift = self.linear(condition).tanh().chunk(2, dim=-1)
        modulated: Tensor = hidden * (1 + 0.5 * gain) + 0.5 * shift
        return modulated


# Renames attention weights between `torch.nn.MultiheadAttention`'s fused parameters and our linear layers.
#
# `nn.MultiheadAttention` keeps query, key and value projections as raw parameters, which adapters cannot wrap; ours
# are `nn.Linear`. Self-attention keeps the fused matrix (`in_proj`), cross-attention splits it (`q_proj`, `kv_proj`).


_CROSS = "multihead_attn."


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


# Sinusoidal position encodings (Vaswani et al. 2017, section 3.5), sine and cosine interleaved.


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Encode positions.

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
    """Self-attention and a GELU feed-forward, each with residual and LayerNorm after it."""

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
    """A stack of `EncoderLayer` without a final norm."""

    def __init__(self, width: int, heads: int, hidden: int, depth: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(width, heads, hidden, dropout) for _ in range(depth)])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Transform tokens.

        Args:
            x: ``[B, S, width]``; padding may hold anything.
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
        """Transform ``[B, S, width]`` given memory ``[B, L, width]``; masks are bool, True = valid."""
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)
        if memory_mask is not None:
            memory = memory.masked_fill(~memory_mask[..., None], 0.0)
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x
