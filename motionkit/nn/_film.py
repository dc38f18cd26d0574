"""Feature-wise linear modulation (Perez et al., AAAI 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from motionkit.nn._unrolled import UnrolledLinear


class Film(nn.Module):
    """Scales and shifts features by a condition: ``h * (1 + tanh(g) / 2) + tanh(b) / 2``; at first the identity.

    Args:
        condition: Features of the condition.
        width: Features that are modulated.
    """

    def __init__(self, condition: int, width: int) -> None:
        super().__init__()
        self.linear = UnrolledLinear(condition, 2 * width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """Return ``[..., width]`` of ``[..., width]`` and ``[..., condition]``."""
        gain, shift = self.linear(condition).tanh().chunk(2, dim=-1)
        modulated: Tensor = hidden * (1 + 0.5 * gain) + 0.5 * shift
        return modulated
