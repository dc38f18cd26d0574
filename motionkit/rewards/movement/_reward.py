"""The movement reward: the energy of limbs in bands of frequencies, against the clips whose captions are nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.errors import MotionkitError
from motionkit.metrics import band_power
from motionkit.motion import CaptionedClip, HasActions, MotionBatch, RealActions, Skeleton, segments_of
from motionkit.rewards.base import RewardScores
from motionkit.rewards.movement import MovementOptions
from motionkit.text import Prompt

BANDS = ((0.5, 1.25), (1.25, 2.5), (2.5, 5.0))
"""Hz."""

_QUIET = 1e-4
"""Square metres, a swing of 1 cm: less is as good as none."""


class HasClips(Protocol):
    """A dataset, as far as this reward is concerned."""

    skeleton: Skeleton
    fps: float

    def clips(self, split: str) -> Sequence[CaptionedClip]:
        """Return the clips of a split."""
        ...


class Movement:
    """Of each segment ``exp(-mean d)``, in (0, 1], over four limbs and `BANDS`; the total is the mean over segments.

    The energy of a limb in a band is `motionkit.metrics.band_power` of its last joint, and x its logarithm, energies of
    up to a swing of 1 cm counting as that. ``d = max(0, low - x) + max(0, x - high)``, where low and high are the least
    and the greatest x of the training clips of the action (see `motionkit.motion.RealActions`): within what real clips
    do, nothing is asked for, so that the reward pulls neither to more movement nor to less. Differentiable.

    A segment of less than a second, or of an action without a real clip, says nothing; where no segment does, the
    reward does not apply.

    Args:
        options: None so far.
        dataset: Gives the real clips of its train split.
        device: Not needed; every reward factory is given it.

    Raises:
        MotionkitError: There is no dataset with single clips.
    """

    name = "movement"
    bounds = (0.0, 1.0)
    rows: ClassVar[tuple[str, ...]] = ("movement", "statues")

    def __init__(
        self, options: MovementOptions, *, dataset: HasClips | None = None, device: torch.device | str = "cpu"
    ) -> None:
        source: HasClips | None = getattr(dataset, "source", None) or dataset
        if source is None or (source is dataset and hasattr(dataset, "splits")):
            raise MotionkitError(
                "the movement reward knows no real clips of single actions.",
                why="motions are compared with clips whose captions are like the prompt's.",
                fix="give a dataset of single clips; of composite data --dataset.root DIR.",
            )
        self._skeleton, self._fps = source.skeleton, source.fps
        self._ends = [joint for pair in source.skeleton.limbs.values() for joint in pair]
        self._real = RealActions(
            source.clips("train"),
            source.skeleton,
            source.fps,
            action=source.action if isinstance(source, HasActions) else None,
        )
        self._known: dict[str, Tensor] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._real.clips)} real clips)"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions. Differentiable in the motions' features."""
        parts = segments_of(motions, prompts)
        energies = self._energies(parts.joints, parts.headings, parts.lengths)  # [M, limbs x bands]
        low, high = torch.stack([self._span(text) for text in parts.texts]).to(energies).unbind(1)
        silent = ~low.isfinite().all(1) | (parts.lengths < self._fps)
        away = (low - energies).clamp(min=0.0) + (energies - high).clamp(min=0.0)
        values = torch.exp(-torch.where(silent[:, None], 0.0, away).mean(1))
        told, most = (~silent).to(values), max(len(prompt.segments) for prompt in prompts)
        number = torch.cat([torch.arange(len(prompt.segments)) for prompt in prompts]).to(motions.device)
        count = values.new_zeros(len(prompts)).index_add(0, parts.owner, told)
        # A silent segment takes the mean of the others, so that the mean of all is that of those which say something.
        mean = values.new_zeros(len(prompts)).index_add(0, parts.owner, values * told) / count.clamp(min=1)
        filled = torch.where(silent, mean[parts.owner], values)
        segments = values.new_zeros(len(prompts), most).index_put((parts.owner, number), filled)
        return RewardScores(mean, segments=segments, applies=count > 0)

    def _energies(self, joints: Tensor, headings: Tensor, lengths: Tensor) -> Tensor:
        """Return the logarithms of energies ``[M, limbs x bands]``; NaN as `band_power`."""
        ends = joints[..., [0, *self._ends], :]
        found = [band_power(ends, headings, lengths, self._fps, band=band)[:, 1:] for band in BANDS]
        return torch.log(torch.cat(found, dim=1) + _QUIET)

    def _span(self, text: str) -> Tensor:
        """Return the least and the greatest energies of real clips of an action, ``[2, limbs x bands]``; else NaN."""
        if text not in self._known:
            span = torch.full((2, len(self._ends) * len(BANDS)), torch.nan)
            features = [self._real.clips[number].features.float() for number in self._real.of(text).clips]
            if features:
                lengths = torch.tensor([len(one) for one in features])
                clips = MotionBatch(pad_sequence(features, True), lengths, skeleton=self._skeleton, fps=self._fps)
                found = self._energies(clips.joints, clips.headings, lengths)
                if len(found := found[found.isfinite().all(1)]):
                    span = torch.stack([found.amin(0), found.amax(0)])
            self._known[text] = span
        return self._known[text]
