"""Saves and restores the states of the global random generators as tensors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

RANDOM = "random"
"""Name of the tensor group in a checkpoint."""

_WORDS = 624
"""Words of the state of a Mersenne twister."""


def capture_random() -> dict[str, Tensor]:
    """Return the states of torch (CPU and each CUDA device), numpy and python.

    Python's and numpy's Mersenne twisters are 624 words and a position; a cached normal deviate is kept as a float64
    value (NaN for none).
    """
    import numpy as np
    import torch

    found = {"torch.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            found[f"torch.cuda.{index}"] = state
    _, words, stored = random.getstate()
    found["python.words"] = torch.tensor(words, dtype=torch.int64)
    found["python.normal"] = torch.tensor(float("nan") if stored is None else stored, dtype=torch.float64)
    _, keys, position, has_normal, normal = np.random.get_state()
    found["numpy.words"] = torch.tensor([*map(int, keys), int(position), int(has_normal)], dtype=torch.int64)
    found["numpy.normal"] = torch.tensor(float(normal), dtype=torch.float64)
    return found


def restore_random(states: Mapping[str, Tensor]) -> None:
    """Put back what `capture_random` returned; states of CUDA devices that are missing now are skipped.

    Raises:
        KeyError, TypeError, ValueError, OverflowError, RuntimeError: `states` is something else.
    """
    import numpy as np
    import torch

    torch.set_rng_state(states["torch.cpu"])
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            if f"torch.cuda.{index}" in states:
                torch.cuda.set_rng_state(states[f"torch.cuda.{index}"], index)
    stored = states["python.normal"].item()
    random.setstate((3, tuple(states["python.words"].tolist()), None if stored != stored else stored))
    *words, position, has_normal = states["numpy.words"].tolist()
    keys = np.array(words, dtype=np.uint32)
    if not 0 <= position <= _WORDS:  # checked, because numpy accepts any position and reads beyond its words
        raise ValueError(f"position {position} of numpy's generator")
    np.random.set_state(("MT19937", keys, position, has_normal, states["numpy.normal"].item()))
