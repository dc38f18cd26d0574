"""The predictor's network: one frame from the frames before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from motionkit.nn import Film, WindowAttention
from motionkit.policies.mpl._features import FEET, ROOT, Statistics, width_of
from motionkit.policies.mpl._settings import PredictorSettings

POINT = 4
"""Features of a point of the commanded path."""

_STATS = ("mean", "std", "lag_std", "turn_std", "root_std")


class Output(NamedTuple):
    """What the network says of the frames after those that it read.

    Attributes:
        residual: ``[N, F, J, 6]`` added to the 6D identity to make the turn.
        root: ``[N, F, 4]`` change of the root's features.
        contacts: ``[N, F, 2]`` in 0 to 1.
        attention: ``[N, F, heads, W]``.
        hidden: ``[N, F, width]``.
    """

    residual: Tensor
    root: Tensor
    contacts: Tensor
    attention: Tensor
    hidden: Tensor


class MplNetwork(nn.Module):
    """Reads a frame, its differences to earlier frames and, by attention, a window; gives turns, root and contacts.

    Args:
        settings: Shape.
        joints: Joints J.
        fps: Frames per second.
        statistics: Scales, which become buffers.
    """

    mean: Tensor
    std: Tensor
    lag_std: Tensor
    turn_std: Tensor
    root_std: Tensor

    def __init__(self, settings: PredictorSettings, joints: int, fps: float, statistics: Statistics) -> None:
        super().__init__()
        self.settings, self.joints, self.fps = settings, joints, fps
        for name in _STATS:
            self.register_buffer(name, getattr(statistics, name).clone())
        width, features = settings.width, width_of(joints)
        self.read = nn.Linear(features * (1 + len(settings.lags)), width)
        self.norm = nn.LayerNorm(width)
        self.attention = (
            WindowAttention(features, width, width // 4, heads=settings.heads, window=settings.window)
            if settings.window > 1
            else None
        )
        points = POINT * len(settings.ahead) + 1
        self.film = Film(points, width) if settings.command != "none" else None
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(settings.dropout))
            for _ in range(settings.layers)
        )
        self.head = nn.Linear(width, 6 * joints + ROOT + FEET)
        with torch.no_grad():  # at first it hardly moves
            self.head.weight.mul_(0.1)
            self.head.bias.zero_()

    @property
    def ahead(self) -> list[int]:
        """Frames ahead of the path's points."""
        return [max(1, round(seconds * self.fps)) for seconds in self.settings.ahead]

    def remember(self, frames: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return keys and values of frames ``[N, T, D]`` as `pack` makes them; None without attention."""
        return None if self.attention is None else self.attention.remember((frames - self.mean) / self.std)

    def forward(
        self,
        now: Tensor,
        earlier: Tensor,
        memory: tuple[Tensor, Tensor] | None,
        condition: Tensor | None,
        *,
        noise: float = 0.0,
    ) -> Output:
        """Predict the frames after those at hand.

        Args:
            now: ``[N, F, D]`` frames.
            earlier: ``[N, F, L, D]`` the frames so far before each.
            memory: Keys and values of all frames up to the last of `now`.
            condition: ``[N, F, 4 K + 1]`` of the path ahead, zeros where there is none; None: zeros.
            noise: Deviation of noise on what is read, in training.
        """
        late = (now[:, :, None] - earlier) / self.lag_std
        seen = torch.cat([(now - self.mean) / self.std, late.flatten(2)], dim=-1)
        if noise:
            seen = seen + noise * torch.randn_like(seen)
        hidden = self.norm(self.read(seen))
        weights = hidden.new_ones(*hidden.shape[:2], 1, 1)
        if self.attention is not None and memory is not None:
            found, weights = self.attention(hidden, *memory)
            hidden = hidden + found
        if self.film is not None:
            if condition is None:
                condition = hidden.new_zeros(*hidden.shape[:2], self.film.linear.in_features)
            hidden = self.film(hidden, condition)
        for layer in self.layers:
            hidden = hidden + layer(hidden)
        turns, root, feet = self.head(hidden).split([6 * self.joints, ROOT, FEET], dim=-1)
        residual = (turns * self.turn_std).unflatten(-1, (self.joints, 6))
        return Output(residual, root * self.root_std, feet.sigmoid(), weights, hidden)
