"""Low-rank adapters (Hu et al. 2021) on linear layers.

The adapted module stays the same object, so "the reference policy" is that module inside `adapters_off`. Draws, tensors
and their names are those of peft, whose import takes as long as torch's; what acts on adapters acts on peft's too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from motionkit.errors import MotionkitError

_TARGETS = {
    "attn": r"(?:in_proj|out_proj|q_proj|kv_proj)",
    "ffn": r"linear[12]",
    "text": r"embed_text",
}
_MARK = ".lora_"
_NAME = "default"  # peft's layers hold several adapters by name, ours one


class LoraLinear(nn.Module):
    """``x W' + bias + (alpha / r) dropout(x) A' B'`` in place of a linear layer.

    Args:
        base: The layer, with W ``[out, in]`` and bias.
        r: Rank: A is ``[r, in]`` and drawn as the weights of a linear layer are, B is ``[out, r]`` and 0.
        alpha: The update is scaled by alpha / r.
        dropout: On the adapter's input, in training mode only.
    """

    active_adapters = (_NAME,)

    def __init__(self, base: nn.Linear, r: int, alpha: float, dropout: float) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_dropout = nn.Dropout(dropout)
        a, b = nn.Linear(base.in_features, r, bias=False), nn.Linear(r, base.out_features, bias=False)
        nn.init.kaiming_uniform_(a.weight, a=math.sqrt(5))  # a second draw, as peft makes it
        nn.init.zeros_(b.weight)
        self.lora_A = nn.ModuleDict({_NAME: a.to(base.weight)})
        self.lora_B = nn.ModuleDict({_NAME: b.to(base.weight)})
        self.scaling = {_NAME: alpha / r}
        self.disable_adapters = False

    def forward(self, x: Tensor) -> Tensor:
        """Return ``[..., out]`` for ``[..., in]``."""
        out: Tensor = self.base_layer(x)
        if not self.disable_adapters:
            out = out + self.lora_B[_NAME](self.lora_A[_NAME](self.lora_dropout(x))) * self.scaling[_NAME]
        return out

    def enable_adapters(self, enabled: bool) -> None:
        """Add the update to the output, or leave it out."""
        self.disable_adapters = not enabled

    def get_delta_weight(self, adapter: str) -> Tensor:
        """Return the update ``(alpha / r) B A``, ``[out, in]``."""
        a, b = self.lora_A.get_parameter(f"{adapter}.weight"), self.lora_B.get_parameter(f"{adapter}.weight")
        return (b @ a) * self.scaling[adapter]


def add_adapters(
    module: nn.Module,
    *,
    r: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Sequence[str] = ("attn", "ffn", "text"),
    seed: int = 0,
) -> None:
    """Put adapters into `module`, in place, and freeze everything else.

    The output does not change: each update starts as B A with B = 0.

    Args:
        module: Network built from `motionkit.nn` layers.
        r: Rank.
        alpha: The update is scaled by alpha / r.
        dropout: On the adapter's input, in training mode only.
        targets: Any of ``attn`` (attention projections), ``ffn`` (feed-forward) and ``text`` (condition projection).
        seed: Draws A, independently of the global generator.

    Example:
        >>> from motionkit.nn import TransformerEncoder
        >>> encoder = TransformerEncoder(16, 2, 32, 1)  # width, heads, hidden, depth
        >>> add_adapters(encoder, r=2, targets=["attn"])
        >>> sum(p.numel() for p in adapter_parameters(encoder))
        192
    """
    if unknown := [name for name in targets if name not in _TARGETS]:
        raise MotionkitError(f"unknown LoRA target {unknown[0]!r}.", fix=f"choose from {', '.join(_TARGETS)}.")
    if not targets:
        raise MotionkitError("LoRA needs at least one target.", fix=f"choose from {', '.join(_TARGETS)}.")
    if r < 1:
        raise MotionkitError(f"the rank of LoRA is {r}.", fix="choose 1 or more.")
    if has_adapters(module):
        raise MotionkitError("the policy already carries LoRA adapters.", fix="merge them first: motionkit export.")
    pattern = re.compile(r"(?:.*\.)?(?:" + "|".join(_TARGETS[name] for name in targets) + ")")
    found = [(name, child) for name, child in module.named_modules() if pattern.fullmatch(name)]
    if not found:
        raise MotionkitError(f"LoRA found nothing to adapt: the network has no layer for {', '.join(targets)}.")
    for name, child in found:
        if not isinstance(child, nn.Linear):
            raise MotionkitError(
                f"LoRA cannot adapt {name}.", why=f"it is a {type(child).__name__}; only torch.nn.Linear is adapted."
            )
    module.requires_grad_(False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for name, child in found:
            module.set_submodule(name, LoraLinear(child, r, alpha, dropout).train(child.training))


def _layers(module: nn.Module) -> list[tuple[str, nn.Module]]:
    # Ours, and those that peft injects, which have several classes.
    return [(name, child) for name, child in module.named_modules() if hasattr(child, "lora_A")]


def has_adapters(module: nn.Module) -> bool:
    """Whether `module` carries adapters."""
    return bool(_layers(module))


@contextmanager
def adapters_off(module: nn.Module) -> Iterator[None]:
    """Switch adapters off inside the block; a module without adapters is not changed.

    Gradient flags of the adapters are as before afterwards.
    """
    layers = [child for _, child in _layers(module)]
    flags = [(p, p.requires_grad) for p in adapter_parameters(module)]
    for layer in layers:
        layer.enable_adapters(False)  # type: ignore[operator]  # a method of peft's layer, which nn.Module hides
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)  # type: ignore[operator]  # as above
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


@contextmanager
def adapters_merged(module: nn.Module) -> Iterator[None]:
    """Multiply by ``W + (alpha / r) B A`` once inside the block, instead of by W, A and B one after another.

    The function and its gradients are the same up to rounding, with fewer passes over the activations. Weights and
    adapters do not change inside it. `adapters_off` acts inside it; the adapters' dropout does not. A module without
    adapters is not changed.
    """
    layers = [child for _, child in _layers(module)]
    for layer in layers:
        layer.forward = _Merged(layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


class _Merged:
    """The forward pass of a layer with adapters, whose matrices are multiplied at the first call."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._factors: tuple[Tensor, Tensor, Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        layer, base, weight = self._layer, self._layer.base_layer, self._layer.base_layer.weight
        if layer.disable_adapters:
            return F.linear(x, weight, base.bias)
        factors = [
            (layer.lora_A[name].weight, layer.lora_B[name].weight, layer.scaling[name])
            for name in layer.active_adapters
        ]
        if len(factors) == 1 and not any(part.requires_grad for part in base.parameters()):
            a, b, scale = factors[0]
            if self._factors is None:
                with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
                    # MKL is several times faster where a thin factor is stored by columns: s B is.
                    scaled = torch.addmm(weight, b, a, alpha=scale), scale * a, (scale * b).t().contiguous().t()
                    self._factors = scaled
            apply: Any = _MergedLinear.apply
            out: Tensor = apply(x, base.bias, a, b, *self._factors)
            return out
        for a, b, scale in factors:
            weight = torch.addmm(weight, b, a, alpha=scale)  # [out, r] x [r, in]
        return F.linear(x, weight, base.bias)


class _MergedLinear(torch.autograd.Function):
    """``x (W + s B A)' + bias`` with gradients in x, A and B alone.

    The gradient G of the merged weight is never built: with g that of the output, ``G A' = g' (x A')`` and
    ``B' G = (g B)' x`` have r columns or rows, where G has as many as the layer.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, merged: Tensor, sa: Tensor, sb: Tensor
    ) -> Tensor:
        out = F.linear(x, merged, bias)
        # Under autocast the product was computed in the type of its result, and so is its gradient.
        saved, same = (x, merged, sa, sb), x.dtype == merged.dtype == out.dtype
        ctx.save_for_backward(*(saved if same else (part.to(out.dtype) for part in saved)))
        ctx.types = x.dtype, a.dtype, b.dtype
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, merged, sa, sb = ctx.saved_tensors  # s A [r, in] and s B [out, r]
        down, _, of_a, of_b, *_ = ctx.needs_input_grad
        g, rows = grads[0].flatten(0, -2), x.flatten(0, -2)  # [M, out], [M, in]
        return (
            (g @ merged).view_as(x).to(ctx.types[0]) if down else None,
            None,
            ((g @ sb).t() @ rows).to(ctx.types[1]) if of_a else None,
            ((rows @ sa.t()).t() @ g).t().to(ctx.types[2]) if of_b else None,
            None,
            None,
            None,
        )


def adapter_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the adapters' parameters, in the order of the module."""
    return [parameter for name, parameter in module.named_parameters() if _MARK in name]


@torch.no_grad()
def merged_state(module: nn.Module) -> dict[str, Tensor]:
    """Return the state dict of the adapted function as plain weights; `module` itself is not changed.

    Without adapters this is a copy of ``module.state_dict()``.
    """
    state = {
        name.replace(".base_layer.", "."): value.detach().clone()
        for name, value in module.state_dict().items()
        if _MARK not in name
    }
    for name, layer in _layers(module):
        for adapter in layer.active_adapters:  # type: ignore[union-attr]  # peft's layer
            state[f"{name}.weight"] += layer.get_delta_weight(adapter)  # type: ignore[operator]  # peft's layer
    return state


def names_by_group(groups: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of weights that match the patterns of each group; see `RegionPolicy`."""
    names = list(names)
    return {
        group: [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
        for group, patterns in groups.items()
    }
