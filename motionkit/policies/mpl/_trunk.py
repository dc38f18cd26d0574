"""The hidden layers of a predictor: a reading, a window of frames and the path ahead become features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl._network import PERIOD
from motionkit.nn import Film, UnrolledLinear, WindowAttention
from motionkit.policies.mpl._features import reading_width, width_of
from motionkit.policies.mpl._settings import PredictorSettings

POINT = 4
"""Features of a point of the commanded path."""

Masks = list[Tensor]
"""Dropout of one roll-out: ``[N, 1, width]`` for each place, the same in all of its frames."""


class Trunk(nn.Module):
    """Linear layer, attention over a window, modulation by the path, residual layers.

    Args:
        settings: Shape.
        joints: Joints J.
        period: Whether the soft period of an encoder is read.
    """

    def __init__(self, settings: PredictorSettings, joints: int, *, period: bool = False) -> None:
        super().__init__()
        width = settings.width
        self.dropout = settings.dropout or 0.0
        self.read = UnrolledLinear(reading_width(joints, len(settings.lags)), width)
        self.norm = nn.LayerNorm(width)
        self.attention: WindowAttention | None = None
        if settings.window > 1:
            self.attention = WindowAttention(
                width_of(joints), width, width // 4, heads=settings.heads, window=settings.window
            )
            nn.init.zeros_(self.attention.out.weight)
        self.film = Film(POINT * len(settings.ahead) + 1, width) if settings.command != "none" else None
        self.period = nn.Linear(PERIOD, width) if period else None
        self.bridge = nn.Linear(width, PERIOD) if period else None
        if self.period is not None:
            nn.init.zeros_(self.period.weight)
            nn.init.zeros_(self.period.bias)
        self.layers = nn.ModuleList(UnrolledLinear(width, width) for _ in range(settings.layers))

    def told_period(self, hidden: Tensor) -> Tensor:
        """Return the soft period ``[N, F, 4]`` that a hidden state tells; latent_consistency compares it."""
        assert self.bridge is not None, "a network without an encoder tells no period"
        return torch.tanh(self.bridge(hidden))

    def masks(self, count: int) -> Masks | None:
        """Draw the dropout of one roll-out of `count` samples; None outside of training.

        One mask for all frames (Gal and Ghahramani, NeurIPS 2016): a free run stays the run of one network.
        """
        if not self.training or not self.dropout:
            return None
        like = self.norm.weight
        kept = 1 - self.dropout
        return [
            torch.rand(count, 1, len(like), device=like.device).lt(kept) / kept for _ in range(len(self.layers) + 2)
        ]

    def forward(
        self,
        read: Tensor,
        memory: tuple[Tensor, Tensor] | None,
        condition: Tensor | None,
        masks: Masks | None,
        period: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return features ``[N, F, width]`` and attention ``[N, F, heads, W]`` (``[N, F, 1, 1]`` ones without any).

        Args:
            read: ``[N, F, ...]`` readings in units of their scale.
            memory: Keys and values of all frames up to the last that was read.
            condition: ``[N, F, 4 K + 1]`` of the path ahead, zeros where there is none; None: zeros.
            masks: As `masks` drew them.
            period: ``[N, F, 4]`` soft period of the frames, where there is an encoder.
        """
        hidden = _gelu(self.norm(self.read(read)))
        hidden = _masked(hidden, masks, 0)
        if self.period is not None and period is not None:
            hidden = hidden + self.period(period)
        weights = hidden.new_ones(*hidden.shape[:2], 1, 1)
        if self.attention is not None and memory is not None:
            found, weights = self.attention(hidden, *memory)
            hidden = hidden + _masked(found, masks, 1)
        if self.film is not None:
            if condition is None:
                condition = hidden.new_zeros(*hidden.shape[:2], self.film.linear.in_features)
            hidden = self.film(hidden, condition)
        for place, layer in enumerate(self.layers, start=2):
            hidden = hidden + _masked(_gelu(layer(hidden)), masks, place)
        return hidden, weights


def _gelu(values: Tensor) -> Tensor:
    """Return GELU in its form with tanh, which the runtime without torch can compute as well."""
    return nn.functional.gelu(values, approximate="tanh")


def _masked(hidden: Tensor, masks: Masks | None, place: int) -> Tensor:
    return hidden if masks is None else hidden * masks[place]
