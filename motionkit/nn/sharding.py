"""Weights that are sharded over processes: each keeps a part, and a layer is gathered while it computes.

The layers are sharded by `torch.distributed.fsdp.fully_shard` (FSDP2; Zhao et al. 2023, arXiv 2304.11277). A sharded
parameter is a `DTensor`, split along its first dimension; so are its gradient, its optimizer state and copies of it.
Functions here take such tensors and plain ones alike. torch.distributed is imported by `shard` alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def shard(network: nn.Module, layers: Sequence[nn.Module], device: torch.device) -> None:
    """Shard the layers of a network over all processes of the group, in place; the rest goes to `device` whole.

    Gradients of sharded parameters are sums over the processes. The network's own methods and parts may be called in
    any order: the tree of layers is settled here, where FSDP would take the first module that is called for its root,
    and raise at the next one. Every process must call the same layers equally often, as each call gathers.

    Args:
        network: On any device; frozen parameters have `requires_grad` False.
        layers: Submodules of it. Callers call them and do not read their parameters; callers do not change their
            output in place. No layer contains another one or shares a parameter with it.
        device: CPU, or this process's CUDA device.
    """
    from torch.distributed import get_world_size
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)  # it warns of writing into results
    mesh = init_device_mesh(device.type, (get_world_size(),))
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        assert isinstance(layer, FSDPModule)
        layer.set_gradient_divide_factor(1.0)
        layer.set_force_sum_reduction_for_comms(True)  # gloo has no other
    rest = {parameter for parameter in network.parameters() if not is_sharded(parameter)}
    for tensor in (*rest, *network.buffers()):  # FSDP leaves buffers beside ignored parameters where they are
        tensor.data = tensor.data.to(device)
    fully_shard(network, mesh=mesh, ignored_params=rest)
    network.register_load_state_dict_pre_hook(_shard_loaded)
    root: Any = network
    root.begin = _nothing
    register_fsdp_forward_method(root, "begin")
    root.begin()


def _nothing() -> None:
    """Compute nothing: a forward method whose hooks make the network the root of its layers."""


def _shard_loaded(network: nn.Module, tensors: dict[str, Tensor], *_: object) -> None:
    """Replace the whole tensors that `load_state_dict` is given by their parts."""
    current = network.state_dict()
    for name, tensor in tensors.items():
        if name in current:
            tensors[name] = as_sharded(tensor, current[name])


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is sharded."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """Return this process's part of a tensor, which shares its memory, or a plain tensor as it is."""
    kept: Any = tensor.detach()
    part: Tensor = kept.to_local() if is_sharded(kept) else kept
    return part


def as_sharded(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a whole tensor sharded as `other` is, without an exchange.

    It is returned as it is if it is sharded, if `other` is not, or if it has another shape (a count of steps).
    """
    if is_sharded(tensor) or not is_sharded(other) or tensor.shape != other.shape:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    place: Any = other
    return distribute_tensor(tensor.detach().to(other.device), place.device_mesh, place.placements, src_data_rank=None)


def gathered(tensors: Mapping[str, Tensor], *, keep: bool = True) -> dict[str, Tensor]:
    """Return whole tensors, sharded ones on the CPU; empty with `keep` False. Every process must call it."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():  # one at a time: a device need not have room for all
        each: Any = tensor
        value = each.full_tensor().cpu() if is_sharded(tensor) else tensor
        if keep:
            found[name] = value
    return found
