"""How much of a change a reward sees: ratios of means, resampled by clip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from motionkit.evaluation.sensitivity._bench import Scores

_RESAMPLES = 1000
_MANY = 2000  # clips from which fewer resamples do
_APART = 1e-9


@dataclass(frozen=True)
class Figure:
    """What a reward makes of a change.

    Attributes:
        real: Mean score of the clips.
        changed: Mean score of the changed ones.
        unrelated: Mean score of the clips with captions of other actions.
        seen: ``(real - changed) / (real - unrelated)``: 1 where the change costs as much as a caption that has nothing
            to do with the clip, 0 where it costs nothing; NaN where unrelated captions score no less.
        ci95: Percentile bootstrap interval of `seen` over clips.
        fall: ``real - changed`` in standard deviations over real clips: what is left to say of a reward that reads no
            text.
        told: Share of the clips that score higher than their change; a tie counts half.
        n: Clips.
    """

    real: float
    changed: float
    unrelated: float
    seen: float
    ci95: tuple[float, float]
    fall: float
    told: float
    n: int

    def document(self) -> dict[str, object]:
        """Return the figures as ``--json`` has them; what is not known is None."""
        numbers = {
            "seen": self.seen, "real": self.real, "changed": self.changed, "unrelated": self.unrelated,
            "fall_in_std": self.fall, "told_apart": self.told,
        }  # fmt: skip
        low, high = (_known(value) for value in self.ci95)
        return {"n": self.n, **{key: _known(value) for key, value in numbers.items()}, "ci95": [low, high]}


@dataclass(frozen=True)
class Columns:
    """Scores of one reward, of one row.

    Attributes:
        real: ``[n]`` scores of the clips with their captions.
        changed: ``[n]`` scores after the change.
        unrelated: ``[n]`` scores with captions of other actions.
        std: Standard deviation of the reward over real clips.
        reads_text: Whether captions matter to the reward.
    """

    real: Scores
    changed: Scores
    unrelated: Scores
    std: float = float("nan")
    reads_text: bool = True

    def figure(self, keep: NDArray[np.bool_] | None = None) -> Figure:
        """Return what the reward sees of those clips that `keep` (``[n]``, all by default) marks."""
        valid = np.isfinite(self.real) & np.isfinite(self.changed)
        if self.reads_text:
            valid &= np.isfinite(self.unrelated)
        valid = valid if keep is None else valid & keep
        real, changed = self.real[valid], self.changed[valid]
        away = self.unrelated[valid] if self.reads_text else real
        n, nan = len(real), float("nan")
        if not n:
            return Figure(nan, nan, nan, nan, (nan, nan), nan, nan, 0)
        fall, scale = real - changed, real - away
        told = float(((fall > 0) + 0.5 * (fall == 0)).mean())
        in_std = float(fall.mean()) / self.std if self.std > _APART else nan
        means = float(real.mean()), float(changed.mean()), float(away.mean())
        if not self.reads_text or scale.mean() <= _APART:
            return Figure(*means, nan, (nan, nan), in_std, told, n)
        tops, bottoms = (_counts(n) @ np.stack([fall, scale], axis=1) / n).T
        ratios = tops[bottoms > _APART] / bottoms[bottoms > _APART]
        low, high = (float(end) for end in np.quantile(ratios, [0.025, 0.975])) if len(ratios) > 1 else (nan, nan)
        return Figure(*means, float(fall.mean() / scale.mean()), (low, high), in_std, told, n)

    def tells_apart(self) -> bool:
        """Whether the clips score higher with their captions than with unrelated ones, by two standard errors."""
        scale = (self.real - self.unrelated)[np.isfinite(self.real) & np.isfinite(self.unrelated)]
        return len(scale) > 1 and bool(
            scale.mean() > 2.0 * scale.std(ddof=1) / np.sqrt(len(scale)) and scale.mean() > 0
        )

    def share(self, keep: NDArray[np.bool_]) -> tuple[float, int]:
        """Return what is seen of a few of the clips, and how many they are.

        It is their mean fall over the mean ``real - unrelated`` of all clips of the row: of a few clips alone that is
        too uncertain to divide by.
        """
        valid = np.isfinite(self.real) & np.isfinite(self.changed) & np.isfinite(self.unrelated)
        scale = float((self.real - self.unrelated)[valid].mean()) if valid.any() else 0.0
        kept = valid & keep
        fall = float((self.real - self.changed)[kept].mean()) if kept.any() else float("nan")
        return (fall / scale if scale > _APART else float("nan")), int(kept.sum())


@lru_cache(maxsize=64)
def _counts(n: int) -> NDArray[np.uint16]:
    """Return how often each of `n` clips is drawn in each resample, ``[resamples, n]``."""
    size = _RESAMPLES if n <= _MANY else _RESAMPLES // 5
    return np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=size).astype(np.uint16)


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
