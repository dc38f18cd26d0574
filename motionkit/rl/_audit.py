"""Checks a run makes on itself before its first update."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError

Precision = Literal["float32", "bfloat16", "float16"]


def ratio_bound(sensitivity: Tensor, precision: Precision = "float32") -> Tensor:
    """Return how far the per-dimension mean log-ratio of an unchanged policy may be from 0.

    float32: 1e-6 at every step. Half precision: a rounding error of rms 0.014 in x0 shifts the mean by
    ``-s^2 / 2 * 0.014^2``, hence ``1e-4 max(1, s^2)`` (measured for a bf16 forward of an 8-layer transformer against
    float32: 2e-2 at s = 19.7, 6e-4 at 3.2, 4e-5 at 0.5).

    Args:
        sensitivity: ``[M]`` of the steps.
        precision: What the network computes in.
    """
    if precision == "float32":
        return torch.full_like(sensitivity, 1e-6)
    return 1e-4 * sensitivity.square().clamp(min=1.0)


def audit_ratio(
    log_ratio_per_dim: Tensor, sensitivity: Tensor, timestep: Tensor, precision: Precision = "float32"
) -> dict[int, float]:
    """Stop a run whose policy, not yet updated, does not give its own samples ratio 1.

    Args:
        log_ratio_per_dim: ``[M]`` from `Terms` of the first update, exact log-ratio averaged over valid values.
        sensitivity: ``[M]`` of the same pairs.
        timestep: ``[M]`` int64 of the same pairs.
        precision: What the network computes in.

    Returns:
        The largest absolute value per timestep, for the log.

    Raises:
        MotionkitError: A value is not finite or beyond `ratio_bound` (exit code 1).

    Example:
        >>> audit_ratio(torch.tensor([0.0, 2e-7]), torch.tensor([1.0, 3.0]), torch.tensor([40, 10]))
        {40: 0.0, 10: 2...e-07}
    """
    size = log_ratio_per_dim.detach().abs()
    table: dict[int, float] = {}
    for step, value in zip(timestep.tolist(), size.tolist(), strict=True):
        kept = table.get(step, 0.0)
        table[step] = value if value != value or value > kept else kept
    excess = size / ratio_bound(sensitivity, precision)
    worst = int(excess.argmax()) if len(excess) else 0  # NaN counts as the largest
    if len(excess) and not bool(excess[worst] <= 1.0):
        limit = ratio_bound(sensitivity[worst : worst + 1], precision).item()
        raise MotionkitError(
            f"before the first update the mean log-ratio at timestep {int(timestep[worst])} is "
            f"{size[worst].item():.3g} per dimension; {limit:.3g} is allowed in {precision}.",
            why="an unchanged policy must give its own samples ratio 1: rollout and training compute different things.",
            fix="look for dropout or condition dropping that is still on, another guidance scale, different precision "
            "or compilation in one of the two paths, other weights (EMA, adapters off), or padding that leaks in.",
            code=1,
        )
    return table


def require_eval(network: nn.Module) -> None:
    """Refuse a policy network in training mode."""
    for name, module in network.named_modules():
        if module.training:
            raise MotionkitError(
                f"the policy network is in training mode ({name or 'the network'}: {type(module).__name__}).",
                why="dropout in rollout or training makes every ratio random.",
                fix="call network.eval(); gradients do not need training mode.",
                code=1,
            )
