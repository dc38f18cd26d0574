"""Weights of recorded fixtures that are too large to keep: by the formula in their README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch


def by_formula(seed: int, shapes: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
    """Return the weights of a network by name, numbered in the order of `shapes`; splitmix64."""
    out: dict[str, torch.Tensor] = {}
    for number, (name, shape) in enumerate(shapes.items()):
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            z = np.uint64(seed * 1000 + number) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
                0x9E3779B97F4A7C15
            )
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        values = 2 * ((z >> np.uint64(11)).astype(np.float64) / 2**53) - 1
        values *= 1 / np.sqrt(shape[-1]) if len(shape) >= 2 else 0.1
        values += len(shape) == 1 and name.endswith("weight")
        out[name] = torch.from_numpy(values.astype(np.float32).reshape(shape))
    return out
