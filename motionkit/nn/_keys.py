"""Renames attention weights between `torch.nn.MultiheadAttention`'s fused parameters and our linear layers.

`nn.MultiheadAttention` keeps query, key and value projections as raw parameters, which adapters cannot wrap; ours
are `nn.Linear`. Self-attention keeps the fused matrix (`in_proj`), cross-attention splits it (`q_proj`, `kv_proj`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

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
