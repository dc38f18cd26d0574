"""Low-rank adapters (Hu et al. 2021) on our layers, made by peft.

The adapted module stays the same object, so "the reference policy" is that module inside `adapters_off`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
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
    import peft

    if unknown := [name for name in targets if name not in _TARGETS]:
        raise MotionkitError(f"unknown LoRA target {unknown[0]!r}.", fix=f"choose from {', '.join(_TARGETS)}.")
    if not targets:
        raise MotionkitError("LoRA needs at least one target.", fix=f"choose from {', '.join(_TARGETS)}.")
    if has_adapters(module):
        raise MotionkitError("the policy already carries LoRA adapters.", fix="merge them first: motionkit export.")
    pattern = r"(?:.*\.)?(?:" + "|".join(_TARGETS[name] for name in targets) + ")"
    config = peft.LoraConfig(r=r, lora_alpha=alpha, lora_dropout=dropout, target_modules=pattern, bias="none")
    training = module.training
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            peft.inject_adapter_in_model(config, module)
        except ValueError as error:
            raise MotionkitError(f"LoRA found nothing to adapt: {error}") from error
    module.train(training)


def _layers(module: nn.Module) -> list[tuple[str, nn.Module]]:
    # As peft finds its own layers, which have several classes.
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

    The function and its gradients are the same up to rounding, with fewer passes over the activations. `adapters_off`
    acts inside it; the adapters' dropout does not. A module without adapters is not changed.
    """
    layers = [child for _, child in _layers(module)]
    for layer in layers:
        layer.forward = partial(_merged, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _merged(layer: Any, x: Tensor) -> Tensor:
    base, weight = layer.base_layer, layer.base_layer.weight
    if layer.disable_adapters:
        return F.linear(x, weight, base.bias)
    factors = [
        (layer.lora_A[name].weight, layer.lora_B[name].weight, layer.scaling[name]) for name in layer.active_adapters
    ]
    if len(factors) == 1 and not any(part.requires_grad for part in base.parameters()):
        apply: Any = _MergedLinear.apply
        out: Tensor = apply(x, weight, base.bias, *factors[0])
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
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        merged = torch.addmm(weight, b, a, alpha=scale)  # [out, r] x [r, in]
        out = F.linear(x, merged, bias)
        # Under autocast the product was computed in the type of its result, and so is its gradient.
        ctx.save_for_backward(*(part.to(out.dtype) for part in (x, merged, a, b)))
        ctx.scale, ctx.types = scale, (x.dtype, a.dtype, b.dtype)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, Tensor | None, Tensor | None, None]:
        x, merged, a, b = ctx.saved_tensors
        needs = ctx.needs_input_grad
        g, rows = grads[0].flatten(0, -2), x.flatten(0, -2)  # [M, out], [M, in]
        down = (g @ merged).view_as(x).to(ctx.types[0]) if needs[0] else None
        # MKL is several times faster where the thin factor comes first, or is stored by columns.
        of_a = (ctx.scale * ((g @ b.t().contiguous().t()).t() @ rows)).to(ctx.types[1]) if needs[3] else None
        of_b = (ctx.scale * ((rows @ a.t()).t() @ g).t()).to(ctx.types[2]) if needs[4] else None
        return down, None, None, of_a, of_b, None


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
