"""MotionCritic's network (Wang et al. 2024, arXiv 2407.02272): DSTformer (Zhu et al. 2023) and a head of two layers.

Written from the layout of its weight files and the formulas of the papers. Names of modules are those of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from motionkit import weights
from motionkit.errors import MotionkitError

JOINTS = 25  # SMPL's 24 and the place of the root

_EPSILON = 1e-5
_UNUSED = "dstran.head."  # a layer of the backbone that the critic's files carry and nothing reads


class _Attention(nn.Module):
    """Self-attention over the last but one axis of ``[..., L, D]``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-2, -3)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        result: Tensor = self.proj(mixed.transpose(-2, -3).flatten(-2))
        return result


class _Feed(nn.Module):
    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc2(functional.gelu(self.fc1(x)))
        return result


class _Block(nn.Module):
    """Attention over joints and attention over frames, each followed by a feed-forward; one of them comes first."""

    def __init__(self, width: int, heads: int, ratio: int, *, space_first: bool) -> None:
        super().__init__()
        self.order = ("s", "t") if space_first else ("t", "s")
        for part in ("s", "t"):
            self.add_module(f"norm1_{part}", nn.LayerNorm(width, eps=_EPSILON))
            self.add_module(f"attn_{part}", _Attention(width, heads))
            self.add_module(f"norm2_{part}", nn.LayerNorm(width, eps=_EPSILON))
            self.add_module(f"mlp_{part}", _Feed(width, ratio * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[B, T, J, D]``."""
        for part in self.order:
            norm1, attention, norm2, feed = (
                self.get_submodule(f"{name}_{part}") for name in ("norm1", "attn", "norm2", "mlp")
            )
            seen = norm1(x)
            x = x + (attention(seen) if part == "s" else attention(seen.transpose(1, 2)).transpose(1, 2))
            x = x + feed(norm2(x))
        return x


class _Backbone(nn.Module):
    def __init__(self, depth: int, width: int, out: int, ratio: int, longest: int, heads: int) -> None:
        super().__init__()
        self.joints_embed = nn.Linear(3, width)
        self.pos_embed = nn.Parameter(torch.zeros(1, JOINTS, width))
        self.temp_embed = nn.Parameter(torch.zeros(1, longest, 1, width))
        self.blocks_st = nn.ModuleList(_Block(width, heads, ratio, space_first=True) for _ in range(depth))
        self.blocks_ts = nn.ModuleList(_Block(width, heads, ratio, space_first=False) for _ in range(depth))
        self.ts_attn = nn.ModuleList(nn.Linear(2 * width, 2) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=_EPSILON)
        self.pre_logits = nn.ModuleDict({"fc": nn.Linear(width, out)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.joints_embed(x) + self.pos_embed + self.temp_embed[:, : x.shape[1]]
        for st, ts, fuse in zip(self.blocks_st, self.blocks_ts, self.ts_attn, strict=True):
            both = (st(x), ts(x))
            share = fuse(torch.cat(both, dim=-1)).softmax(dim=-1)
            x = both[0] * share[..., :1] + both[1] * share[..., 1:]
        result: Tensor = self.pre_logits["fc"](self.norm(x)).tanh()
        return result


class CriticNetwork(nn.Module):
    """From motions as SMPL rotations to one score each; higher is better, unbounded.

    Args:
        depth: Pairs of blocks.
        width: Features per token.
        out: Features of the representation.
        ratio: Width of a feed-forward, in multiples of `width`.
        hidden: Width of the head.
        longest: Most frames.
        heads: Attention heads.
    """

    def __init__(self, depth: int, width: int, out: int, ratio: int, hidden: int, longest: int, heads: int) -> None:
        super().__init__()
        self.longest = longest
        self.dstran = _Backbone(depth, width, out, ratio, longest, heads)
        self.mlp = _Feed(JOINTS * out, hidden, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores ``[B]``.

        Args:
            x: ``[B, T, 25, 3]``, T up to `longest`: axis-angles in radians of SMPL's 24 joints, each from its parent,
                and the root's place in metres.
        """
        score: Tensor = self.mlp(self.dstran(x).mean(dim=1).flatten(1))
        return score.squeeze(-1)


def read_critic(path: Path, heads: int = 8) -> CriticNetwork:
    """Read a weight file of MotionCritic; nothing in it is executed.

    Sizes are those of its tensors. Every name and shape must fit.

    Args:
        path: File of ``torch.save``, as the authors' training writes it, or safetensors.
        heads: Attention heads, which tensors do not tell.

    Returns:
        The network on the CPU, in eval mode, its parameters frozen.

    Raises:
        MotionkitError: The file is missing, refused, or holds something else.
    """
    tensors = weights.find_tensors(weights.read(path)) or {}
    tensors = {name: value.float() for name, value in tensors.items() if not name.startswith(_UNUSED)}
    sizes = _sizes(tensors)
    if sizes is None:
        raise MotionkitError(
            f"{path} holds no MotionCritic.", why=f"it looks like {weights.describe(tensors)}.",
            fix="give motioncritic_pre.pth of the authors, or a checkpoint of their training.",
        )  # fmt: skip
    if sizes["width"] % heads:
        raise MotionkitError(
            f"the network of {path} has {sizes['width']} features per token, which {heads} heads do not divide.",
            fix="--reward.heads 8, as the authors have it.",
        )
    network = weights.build(lambda: CriticNetwork(**sizes, heads=heads), tensors, str(path))
    if bad := [name for name, value in tensors.items() if not bool(value.isfinite().all())]:
        raise MotionkitError(f"{path}: {bad[0]} is not finite.", fix="copy or download it again.")
    return network.eval().requires_grad_(False)


def _sizes(tensors: Mapping[str, Tensor]) -> dict[str, int] | None:
    """Return the network's sizes; None where the tensors that tell them are missing or of another rank."""
    ranks = {
        "dstran.joints_embed.weight": 2, "dstran.pre_logits.fc.weight": 2, "dstran.temp_embed": 4,
        "dstran.blocks_st.0.mlp_s.fc1.weight": 2, "mlp.fc1.weight": 2,
    }  # fmt: skip
    if any(
        name not in tensors or tensors[name].ndim != rank or not tensors[name].numel() for name, rank in ranks.items()
    ):
        return None
    embed, out, times, feed, head = (tensors[name].shape for name in ranks)
    depth = sum(name.startswith("dstran.ts_attn.") and name.endswith(".weight") for name in tensors)
    return {
        "depth": depth, "width": embed[0], "out": out[0], "ratio": feed[0] // embed[0], "hidden": head[0],
        "longest": times[1],
    }  # fmt: skip
