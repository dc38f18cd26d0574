"""The one-shot head: all frames of the future at once, as a few cosines of time (DCT)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.mpl._features import FEET, ROOT, Statistics, pack, reading
from motionkit.policies.mpl._period import periods
from motionkit.policies.mpl._predicted import Predicted
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.policies.mpl._trunk import Trunk

_FLOOR = 0.3


def cosines(frames: int, count: int) -> Tensor:
    """Return ``[F, K]`` orthonormal cosines of time, slowest first: the first K columns of a DCT."""
    time = (torch.arange(frames, dtype=torch.float64) + 0.5) / frames
    basis = torch.cos(math.pi * torch.arange(count) * time[:, None])
    scaled: Tensor = basis / basis.norm(dim=0)
    return scaled.float()


class OneShot(nn.Module):
    """Gives the way of every feature from the last known frame, over F frames, in K cosines (Guo et al., siMLPe 2023).

    Args:
        settings: Shape.
        joints: Joints J.
        fps: Frames per second.
        statistics: Scales of what is read.
        encoder: The frozen encoder whose soft period is read; it belongs to the network around this head.
    """

    mean: Tensor
    scale: Tensor
    basis: Tensor
    way_mean: Tensor
    way_std: Tensor

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
        self.frames = max(1, round(settings.shot * fps))
        count = min(settings.cosines, self.frames)
        width = 6 * joints + ROOT + FEET
        self.register_buffer("mean", statistics.mean.clone())
        self.register_buffer("scale", statistics.scale.clone())
        self.register_buffer("basis", cosines(self.frames, count))
        self.register_buffer("way_mean", torch.zeros(count, width))
        self.register_buffer("way_std", torch.ones(count, width))
        self.trunk = Trunk(settings, joints, period=encoder is not None)
        self.head = nn.Linear(settings.width, count * width)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @torch.no_grad()
    def measure(self, batches: Iterable[tuple[MotionState, MotionState]]) -> None:
        """Set mean and deviation of the ways by known and following frames, ``[N, P, ...]`` and ``[N, F', ...]``.

        Where F' is less than F the last frame is held. One batch is in memory at a time.
        """
        ways = torch.cat([self._way(pack(known, self.fps), pack(truth, self.fps)) for known, truth in batches])
        spread = ways.std(0, correction=0)
        self.way_mean.copy_(ways.mean(0))
        self.way_std.copy_(spread.clamp_min(max(float(spread.median()) * _FLOOR, 1e-4)))

    def _way(self, known: Tensor, truth: Tensor) -> Tensor:
        """Return the coefficients ``[N, K, D]`` of the way from the last known frame; contacts as they are."""
        way = truth[:, : self.frames].float() - known[:, -1:].float()
        way = torch.cat([way[..., :-FEET], torch.zeros_like(way[..., -FEET:])], dim=-1)
        count = way.shape[1]
        found = self.basis[:count].mT @ way
        if count < self.frames:  # the last frame is held
            found = found + self.basis[count:].sum(0)[:, None] * way[:, -1:]
        return found

    def forward(self, known: MotionState, condition: Tensor | None = None, *, noise: float = 0.0) -> Predicted:
        """Predict the F frames after ``[N, P, ...]`` known ones.

        Args:
            known: float32, P more than the longest of `lags`.
            condition: ``[N, 4 K + 1]`` of the path ahead; None: zeros.
            noise: Deviation of noise on what is read, in training.
        """
        rows = pack(known, self.fps)
        now = rows[:, -1:]
        earlier = torch.stack([rows[:, -1 - lag] for lag in self.lags], dim=1)[:, None]
        read = reading(now, earlier, self.mean, self.lags, self.fps) / self.scale
        if noise:
            read = read + noise * torch.randn_like(read)
        attention = self.trunk.attention
        memory = None if attention is None else attention.remember(rows - self.mean)
        told = None if condition is None else condition[:, None]
        encoder = self._encoder[0]
        period = None if encoder is None else periods(encoder, known, known.frames - 1)
        hidden, weights = self.trunk(read, memory, told, self.trunk.masks(rows.shape[0]), period)
        coefficients = self.head(hidden[:, 0]).unflatten(-1, self.way_std.shape) * self.way_std + self.way_mean
        way = self.basis @ coefficients  # [N, F, D]
        six, root, feet = way.split([6 * self.joints, ROOT, FEET], dim=-1)
        raw = matrix_to_6d(known.rotations[:, -1:]) + six.unflatten(-1, (-1, 6))
        rotations = matrix_from_6d(raw)
        before = torch.cat([known.rotations[:, -1:], rotations[:, :-1]], dim=1)
        moved = now[..., 6 * self.joints : 6 * self.joints + ROOT] + root
        contacts = (now[..., -FEET:].clamp(0.01, 0.99).logit() + feet).sigmoid()
        state = MotionState(rotations, moved[..., :3] / self.fps, moved[..., 3], contacts)
        rest = matrix_to_6d(torch.eye(3).to(raw))
        frames = self.frames
        return Predicted(
            state, before, raw - rest, rotations @ before.mT, weights.expand(-1, frames, -1, -1),
            hidden.expand(-1, frames, -1),
        )  # fmt: skip
