"""What is to be composed."""

from __future__ import annotations

from dataclasses import dataclass

from motionkit.datasets.base import Split


@dataclass(frozen=True)
class Plan:
    """What is to be composed.

    Attributes:
        split: Split the clips come from.
        k_segments: Clips per sample, at least 2.
        target_length: Longest total in frames.
        tolerance: Totals are at least ``target_length - tolerance``.
        max_samples: Samples wanted.
        seed: Seed of the draw.
        crop: Whether clips may be cut to windows of at least `joining.MIN_SEGMENT` frames; None: from four segments on.
    """

    split: Split = "train"
    k_segments: int = 3
    target_length: int = 196
    tolerance: int = 20
    max_samples: int = 1000
    seed: int = 0
    crop: bool | None = None

    @property
    def cuts(self) -> bool:
        """Whether clips may be cut."""
        return self.k_segments >= 4 if self.crop is None else self.crop

    @property
    def low(self) -> int:
        """Smallest total in frames."""
        return max(self.target_length - self.tolerance, 1)
