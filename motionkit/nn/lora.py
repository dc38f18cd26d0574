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

    The function and its gradients are the same up to rounding. At small widths it is faster: fewer passes over the
    activations, at the price of one gradient of the size of W. At large widths it is slower. `adapters_off` acts
    inside it; the adapters' dropout does not. A module without adapters is not changed.
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
    if not layer.disable_adapters:
        for adapter in layer.active_adapters:
            a, b = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight
            weight = torch.addmm(weight, b, a, alpha=layer.scaling[adapter])  # [out, r] x [r, in]
    return F.linear(x, weight, base.bias)


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
