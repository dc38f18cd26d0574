"""The delta head: the next frame from the frames before it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.nn import UnrolledLinear
from motionkit.policies.mpl._features import FEET, ROOT, Statistics, reading
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.policies.mpl._trunk import Masks, Trunk

STATISTICS = ("mean", "scale", "turn_std", "root_std")


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


class Delta(nn.Module):
    """Reads a frame, its differences to earlier frames and, by attention, a window; gives turns, root and contacts.

    Args:
        settings: Shape.
        joints: Joints J.
        fps: Frames per second.
        statistics: Scales, which become buffers.
        encoder: The frozen encoder whose soft period is read; it belongs to the network around this head.
    """

    mean: Tensor
    scale: Tensor
    turn_std: Tensor
    root_std: Tensor

    def __init__(
        self,
        settings: PredictorSettings,
        joints: int,
        fps: float,
        statistics: Statistics,
        encoder: MotionEncoder | None = None,
    ) -> None:
        super().__init__()
        self._encoder = (encoder,)  # in a tuple, so that it is no part of this module
        self.settings, self.joints, self.fps = settings, joints, fps
        self.lags, self.ahead = settings.lag_frames(fps), settings.ahead_frames(fps)
        for name in STATISTICS:
            self.register_buffer(name, getattr(statistics, name).clone())
        self.trunk = Trunk(settings, joints, period=encoder is not None)
        self.head = UnrolledLinear(settings.width, 6 * joints + ROOT + FEET)
        nn.init.zeros_(self.head.weight)  # at first nothing moves
        nn.init.zeros_(self.head.bias)

    @property
    def encoder(self) -> MotionEncoder | None:
        """The encoder whose soft period is read."""
        return self._encoder[0]

    def remember(self, frames: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return keys and values of frames ``[N, T, D]`` as `pack` makes them; None without attention."""
        attention = self.trunk.attention
        return None if attention is None else attention.remember(frames - self.mean)

    def forward(
        self,
        now: Tensor,
        earlier: Tensor,
        memory: tuple[Tensor, Tensor] | None,
        condition: Tensor | None,
        *,
        masks: Masks | None = None,
        period: Tensor | None = None,
        noise: float = 0.0,
    ) -> Output:
        """Predict the frames after those at hand.

        Args:
            now: ``[N, F, D]`` frames.
            earlier: ``[N, F, L, D]`` the frames at `lags` before each.
            memory: Keys and values of all frames up to the last of `now`.
            condition: ``[N, F, 4 K + 1]`` of the path ahead, zeros where there is none; None: zeros.
            masks: Dropout of the roll-out.
            period: ``[N, F, 4]`` soft period of the frames.
            noise: Deviation of noise on what is read, in training.
        """
        read = reading(now, earlier, self.mean, self.lags, self.fps) / self.scale
        if noise:
            read = read + noise * torch.randn_like(read)
        hidden, weights = self.trunk(read, memory, condition, masks, period)
        turns, root, feet = self.head(hidden).split([6 * self.joints, ROOT, FEET], dim=-1)
        residual = (turns * self.turn_std).unflatten(-1, (self.joints, 6))
        # Contacts move on from what they were: a foot that stands most often still stands.
        before = now[..., -FEET:].clamp(0.01, 0.99).logit()
        return Output(residual, root * self.root_std, (before + feet).sigmoid(), weights, hidden)
