"""The slow part of motions: what lies below a frequency, by the discrete cosine transform over time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class LowPass:
    """Projection of every sample on its slow cosines, each sample over its own number of frames.

    Row k of the orthonormal DCT-II over L frames swings ``k / (2 L)`` times a frame. With B the rows below the
    frequency, the projection is ``B'B``: symmetric, and the same when it is applied twice.

    Args:
        frequency: Hz; the first ``2 L frequency / fps`` rows are kept, rounded, at least one.
        fps: Frames per second.

    Raises:
        MotionkitError: The frequency is not between 0 and half the frame rate.

    Example:
        >>> still = torch.ones(1, 8, 1)
        >>> trembling = torch.tensor([1.0, -1.0] * 4).view(1, 8, 1)
        >>> low = LowPass(3.0, fps=20.0)
        >>> low(still + trembling, torch.tensor([8])).flatten().double().numpy().round(2).tolist()
        [1.25, 1.21, 1.14, 1.05, 0.95, 0.86, 0.79, 0.75]
    """

    frequency: float
    fps: float
    _kept: dict[tuple[int, int, torch.device], Tensor] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.frequency < self.fps / 2:
            raise MotionkitError(
                f"a low-pass at {self.frequency:g} Hz does not fit motions of {self.fps:g} frames per second.",
                why=f"they hold nothing above {self.fps / 2:g} Hz.",
                fix=f"rollout.low_pass takes more than 0 and less than {self.fps / 2:g}; 0 switches it off.",
            )

    def rows(self, length: int) -> int:
        """Return how many cosines a motion of `length` frames keeps."""
        return max(1, round(2 * length * self.frequency / self.fps))

    def __call__(self, values: Tensor, lengths: Tensor) -> Tensor:
        """Project.

        Args:
            values: ``[N, T, D]``.
            lengths: ``[N]`` int64 valid frames, at most T.

        Returns:
            ``[N, T, D]``, 0 from each sample's length on.
        """
        frames = values.shape[1]
        # [N, R, T]: the rows of each sample, zeros behind its last row and its last frame.
        basis = torch.stack([self._basis(length, frames, values.device) for length in lengths.tolist()])
        inside = torch.arange(frames, device=values.device) < lengths[:, None]
        values = values.masked_fill(~inside[..., None], 0.0)  # 0 * NaN of the padding would be NaN
        return basis.transpose(1, 2) @ (basis @ values)

    def _basis(self, length: int, frames: int, device: torch.device) -> Tensor:
        key = (length, frames, device)
        if key not in self._kept:
            k, n = torch.arange(self.rows(length), dtype=torch.float64), torch.arange(length, dtype=torch.float64)
            cosines = (2 / length) ** 0.5 * torch.cos(math.pi / length * k[:, None] * (n + 0.5))
            cosines[0] = length**-0.5
            table = torch.zeros(self.rows(frames), frames, dtype=torch.float64)
            table[: len(k), :length] = cosines
            self._kept[key] = table.to(torch.float32).to(device)
        return self._kept[key]
