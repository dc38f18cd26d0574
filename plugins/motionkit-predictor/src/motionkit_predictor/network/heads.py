"""The heads of a predictor, delta (the next frame) and one-shot (all frames), and the layers below them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit_predictor.encoder.network import PERIOD, MotionEncoder
from motionkit_predictor.network.features import (
    FEET,
    ROOT,
    Predicted,
    Statistics,
    pack,
    periods,
    reading,
    reading_width,
    width_of,
)
from motionkit_predictor.network.unrolled import Film, UnrolledLinear, WindowAttention
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import MotionState

POINT = 4
"""Features of a point of the commanded path."""

Masks = list[Tensor]
"""Dropout of one roll-out: ``[N, 1, width]`` for each place, the same in all of its frames."""

STATISTICS = ("mean", "scale", "turn_std", "root_std")

_FLOOR = 0.3


class Trunk(nn.Module):
    """Linear layer, attention over a window, modulation by the path, residual layers."""

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

    def predicted_period(self, hidden: Tensor) -> Tensor:
        """Return the soft period ``[N, F, 4]`` read out of a hidden state; latent_consistency compares it."""
        assert self.bridge is not None, "a network without an encoder has no period"
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
        read: Tensor,  # [N, F, ...] readings in units of their scale
        memory: tuple[Tensor, Tensor] | None,  # keys and values of all frames up to the last that was read
        condition: Tensor | None,  # [N, F, 4 K + 1] of the path ahead, zeros without one; None: zeros
        masks: Masks | None,  # as `masks` drew them
        period: Tensor | None = None,  # [N, F, 4] soft period of the frames, if there is an encoder
    ) -> tuple[Tensor, Tensor]:
        """Return features ``[N, F, width]`` and attention ``[N, F, heads, W]`` (``[N, F, 1, 1]`` ones without any)."""
        hidden = _gelu(self.norm(self.read(read)))
        hidden = _masked(hidden, masks, 0)
        if self.period is not None and period is not None:
            hidden = hidden + self.period(period)
        weights = hidden.new_ones(*hidden.shape[:2], 1, 1)
        if self.attention is not None and memory is not None:
            attended, weights = self.attention(hidden, *memory)
            hidden = hidden + _masked(attended, masks, 1)
        if self.film is not None:
            if condition is None:
                condition = hidden.new_zeros(*hidden.shape[:2], self.film.linear.in_features)
            hidden = self.film(hidden, condition)
        for place, layer in enumerate(self.layers, start=2):
            hidden = hidden + _masked(_gelu(layer(hidden)), masks, place)
        return hidden, weights


def _gelu(values: Tensor) -> Tensor:
    """Return GELU in its tanh form, which the runtime without torch also computes."""
    return nn.functional.gelu(values, approximate="tanh")


def _masked(hidden: Tensor, masks: Masks | None, place: int) -> Tensor:
    return hidden if masks is None else hidden * masks[place]


class Output(NamedTuple):
    """The network's output for the frames after those that it read."""

    residual: Tensor  # [N, F, J, 6] added to the 6D identity to make the turn
    root: Tensor  # [N, F, 4] change of the root's features
    contacts: Tensor  # [N, F, 2] in 0 to 1
    attention: Tensor  # [N, F, heads, W]
    hidden: Tensor  # [N, F, width]


class Delta(nn.Module):
    """Reads a frame, its differences to earlier frames and, by attention, a window; gives turns, root and contacts."""

    mean: Tensor
    scale: Tensor
    turn_std: Tensor
    root_std: Tensor

    def __init__(
        self,
        settings: PredictorSettings,  # shape
        joints: int,  # joints J
        fps: float,  # frames per second
        statistics: Statistics,  # scales, which become buffers
        # The frozen encoder whose soft period is read; it belongs to the network around this head
        encoder: MotionEncoder | None = None,
    ) -> None:
        super().__init__()
        self._encoder = (encoder,)  # in a tuple, so that it is not a part of this module
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
        now: Tensor,  # [N, F, D] frames
        earlier: Tensor,  # [N, F, L, D] the frames at `lags` before each
        memory: tuple[Tensor, Tensor] | None,  # keys and values of all frames up to the last of `now`
        condition: Tensor | None,  # [N, F, 4 K + 1] of the path ahead, zeros without one; None: zeros
        *,
        masks: Masks | None = None,  # dropout of the roll-out
        period: Tensor | None = None,  # [N, F, 4] soft period of the frames
        noise: float = 0.0,  # deviation of noise on what is read, in training
    ) -> Output:
        """Predict the frame after each of `now`."""
        read = reading(now, earlier, self.mean, self.lags, self.fps) / self.scale
        if noise:
            read = read + noise * torch.randn_like(read)
        hidden, weights = self.trunk(read, memory, condition, masks, period)
        turns, root, feet = self.head(hidden).split([6 * self.joints, ROOT, FEET], dim=-1)
        residual = (turns * self.turn_std).unflatten(-1, (self.joints, 6))
        # Contacts are a change of the last ones: a foot that stands usually still stands.
        before = now[..., -FEET:].clamp(0.01, 0.99).logit()
        return Output(residual, root * self.root_std, (before + feet).sigmoid(), weights, hidden)


def cosines(frames: int, count: int) -> Tensor:
    """Return ``[F, K]`` orthonormal cosines of time, slowest first: the first K columns of a DCT."""
    time = (torch.arange(frames, dtype=torch.float64) + 0.5) / frames
    basis = torch.cos(math.pi * torch.arange(count) * time[:, None])
    scaled: Tensor = basis / basis.norm(dim=0)
    return scaled.float()


class OneShot(nn.Module):
    """Predicts the change of features since the last known frame, over F frames, in K cosines (siMLPe, 2023)."""

    mean: Tensor
    scale: Tensor
    basis: Tensor
    way_mean: Tensor
    way_std: Tensor

    def __init__(
        self,
        settings: PredictorSettings,  # shape
        joints: int,  # joints J
        fps: float,  # frames per second
        statistics: Statistics,  # scales of what is read
        # The frozen encoder whose soft period is read; it belongs to the network around this head
        encoder: MotionEncoder | None = None,
    ) -> None:
        super().__init__()
        self._encoder = (encoder,)  # in a tuple, so that it is not a part of this module
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
        """Set mean and deviation of the coefficients by known and following frames, ``[N, P, ...]``, ``[N, F', ...]``.

        If F' is less than F the last frame is repeated. One batch is in memory at a time.
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
        coefficients = self.basis[:count].mT @ way
        if count < self.frames:  # the last frame is repeated
            coefficients = coefficients + self.basis[count:].sum(0)[:, None] * way[:, -1:]
        return coefficients

    def forward(self, known: MotionState, condition: Tensor | None = None, *, noise: float = 0.0) -> Predicted:
        """Predict the F frames after ``[N, P, ...]`` known ones, P more than the longest of `lags`.

        `condition` is ``[N, 4 K + 1]`` of the path ahead, None for zeros; `noise` the deviation of noise on the inputs.
        """
        rows = pack(known, self.fps)
        now = rows[:, -1:]
        earlier = torch.stack([rows[:, -1 - lag] for lag in self.lags], dim=1)[:, None]
        read = reading(now, earlier, self.mean, self.lags, self.fps) / self.scale
        if noise:
            read = read + noise * torch.randn_like(read)
        attention = self.trunk.attention
        memory = None if attention is None else attention.remember(rows - self.mean)
        path = None if condition is None else condition[:, None]
        encoder = self._encoder[0]
        period = None if encoder is None else periods(encoder, known, known.frames - 1)
        hidden, weights = self.trunk(read, memory, path, self.trunk.masks(rows.shape[0]), period)
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
