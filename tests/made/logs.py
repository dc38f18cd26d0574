"""Which precision logarithms of probabilities are taken in."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LOGS = {
    "aten::_log_softmax", "aten::log_sigmoid_forward", "aten::nll_loss_forward", "aten::logsumexp", "aten::softplus",
    "aten::binary_cross_entropy_with_logits", "aten::binary_cross_entropy", "aten::log", "aten::log1p",
}  # fmt: skip


class Logs(TorchDispatchMode):
    """Notes each logarithm with the type it is computed in, below autocast, and whether a body was in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, set[torch.dtype]] = {}
        self.half = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) else result
        if isinstance(first, torch.Tensor):
            self.half |= first.dtype == torch.bfloat16
            if func._schema.name in LOGS:
                given = [value.dtype for value in args if isinstance(value, torch.Tensor) and value.is_floating_point()]
                self.types.setdefault(func._schema.name, set()).update({first.dtype, *given})
        return result

    @property
    def rough(self) -> list[str]:
        """Logarithms of other than float32 and float64."""
        return sorted(name for name, found in self.types.items() if found - {torch.float32, torch.float64})
