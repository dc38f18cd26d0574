"""Rewards that read joints alone: physics (skate and jerk), and the movement of limbs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.contracts.reward import Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.metrics import band_power
from motionkit.motion import MotionBatch, Normalizer, RealActions, Skeleton, features_to_joints, segments_of
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.components import MovementOptions, PhysicsOptions

BANDS = ((0.5, 1.25), (1.25, 2.5), (2.5, 5.0))  # hz
_QUIET = 1e-4  # square metres, a swing of 1 cm: added to all energies
_JERK_FLOOR = 1e-3


class Movement(Reward):
    """Mean over segments of ``exp(-mean d)``, in (0, 1], with d averaged over four limbs and `BANDS`.

    The energy of a limb in a band is `motionkit.metrics.band_power` of its last joint, plus that of a swing of 1 cm,
    and x its logarithm. ``d = max(0, low - x) + max(0, x - high)`` with the least and the greatest x of the training
    clips of the action (see `motionkit.motion.RealActions`): within the range of reference clips the gradient is zero.
    Differentiable.

    A segment of less than a second, or of an action without a reference clip, is left out; without any other segment
    the reward does not apply.

    Args:
        options: Options of the reward.
        dataset: Gives the reference clips, of its train split.
        device: Unused; every reward factory gets it.
    """

    name = "movement"
    bounds = (0.0, 1.0)
    rows: ClassVar[tuple[str, ...]] = ("movement", "statues")

    def __init__(
        self, options: MovementOptions, *, dataset: TextMotionDataset | None = None, device: torch.device | str = "cpu"
    ) -> None:
        source = None if dataset is None else dataset.source or (dataset if dataset.splits is None else None)
        if source is None or not source.has_clips:
            raise MotionkitError(
                "the movement reward has no reference clips of single actions.",
                why="motions are compared with clips whose captions are like the prompt's.",
                fix="give a dataset of single clips; of composite data --dataset.root DIR.",
            )
        self._skeleton, self._fps = source.skeleton, source.fps
        self.features = source.skeleton.name  # its limbs are those of this body
        self._ends = [joint for pair in source.skeleton.limbs.values() for joint in pair]
        self._real = RealActions(
            source.clips("train"),
            source.skeleton,
            source.fps,
            action=source.action,
        )
        self._spans: dict[str, Tensor] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._real.clips)} reference clips)"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions. Differentiable in the motions' features."""
        parts = segments_of(motions, prompts)
        energies = self._energies(parts.joints, parts.headings, parts.lengths)  # [M, limbs x bands]
        low, high = torch.stack([self._span(text) for text in parts.texts]).to(energies).unbind(1)
        unknown = ~low.isfinite().all(1) | (parts.lengths < self._fps)
        away = (low - energies).clamp(min=0.0) + (energies - high).clamp(min=0.0)
        values = torch.exp(-torch.where(unknown[:, None], 0.0, away).mean(1))
        known, most = (~unknown).to(values), max(len(prompt.segments) for prompt in prompts)
        number = torch.cat([torch.arange(len(prompt.segments)) for prompt in prompts]).to(motions.device)
        count = values.new_zeros(len(prompts)).index_add(0, parts.owner, known)
        # An unknown segment gets the mean of the known ones, so that the mean of all is that of the known ones.
        mean = values.new_zeros(len(prompts)).index_add(0, parts.owner, values * known) / count.clamp(min=1)
        filled = torch.where(unknown, mean[parts.owner], values)
        segments = values.new_zeros(len(prompts), most).index_put((parts.owner, number), filled)
        return RewardScores(mean, segments=segments, applies=count > 0)

    def _energies(self, joints: Tensor, headings: Tensor, lengths: Tensor) -> Tensor:
        """Return the logarithms of energies ``[M, limbs x bands]``; NaN as `band_power`."""
        ends = joints[..., [0, *self._ends], :]
        result = [band_power(ends, headings, lengths, self._fps, band=band)[:, 1:] for band in BANDS]
        return torch.log(torch.cat(result, dim=1) + _QUIET)

    def _span(self, text: str) -> Tensor:
        """Return the least and the greatest energies of an action's reference clips, ``[2, limbs x bands]``, or NaN."""
        if text not in self._spans:
            span = torch.full((2, len(self._ends) * len(BANDS)), torch.nan)
            features = [self._real.clips[number].features.float() for number in self._real.of(text).clips]
            if features:
                lengths = torch.tensor([len(clip) for clip in features])
                clips = MotionBatch(pad_sequence(features, True), lengths, skeleton=self._skeleton, fps=self._fps)
                energies = self._energies(clips.joints, clips.headings, lengths)
                if len(energies := energies[energies.isfinite().all(1)]):
                    span = torch.stack([energies.amin(0), energies.amax(0)])
            self._spans[text] = span
        return self._spans[text]


class Physics(Reward):
    """``exp(-lambda_skate skate/r_s - lambda_jerk J)``, in (0, 1].

    With shape ``reward`` ``J = |log((jerk + 1e-3) / r_j)|``: motions that are smoother than reference ones are
    penalised like rougher ones, so a frozen pose scores below a reference clip. With shape ``guide``
    ``J = jerk / r_j``.

    Args:
        options: Options of the reward.
        dataset: Gives the references that the options leave at 0.
        device: Unused; every reward factory gets it.
    """

    name = "physics"
    bounds = (0.0, 1.0)
    rows: ClassVar[tuple[str, ...]] = ("skate", "jerk")

    def __init__(
        self, options: PhysicsOptions, *, dataset: TextMotionDataset | None = None, device: torch.device | str = "cpu"
    ) -> None:
        self.options = options
        self.r_s, self.r_j = options.r_s, options.r_j
        if not (self.r_s and self.r_j):
            if dataset is None:
                raise MotionkitError(
                    "the physics reward has no reference skate and jerk.",
                    why="both are divided by the median of reference motions, which a dataset provides.",
                    fix="give a dataset, or --reward.r-s and --reward.r-j.",
                )
            skate, jerk = dataset.physics_reference()
            self.r_s, self.r_j = self.r_s or skate, self.r_j or jerk
        if not (self.r_s > 0.0 and self.r_j > 0.0):
            raise MotionkitError(
                f"reference skate {self.r_s} and jerk {self.r_j} must be above 0.",
                fix="give --reward.r-s and --reward.r-j.",
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(r_s={self.r_s:.3g}, r_j={self.r_j:.3g})"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions, whatever the prompts. Differentiable in the motions' features."""
        skate, jerk = self.measure(motions)
        total = torch.exp(self.log_reward(skate, jerk))
        return RewardScores(total, parts={"skate": skate, "jerk": jerk})

    def measure(self, motions: MotionBatch) -> tuple[Tensor, Tensor]:
        """Return skate ``[N]`` in m/s and jerk ``[N]`` in m/s^3; NaN if a motion is not finite."""
        return self._measure(motions.joints, motions.lengths, motions.skeleton.feet, motions.fps)

    def loss(
        self, features: Tensor, lengths: Tensor, *, skeleton: Skeleton, fps: float, normalizer: Normalizer | None = None
    ) -> Tensor:
        """Return the physics loss, -log R_phy, of N motions, for training by its gradient.

        On a CUDA device joint recovery and its terms are one kernel launch each, forward and backward.

        Args:
            features: ``[N, T, D]``; a model's own output when `normalizer` is given, else not normalised.
            lengths: ``[N]`` int64 on the device of `features`.
            skeleton: Body of the features.
            fps: Frames per second.
            normalizer: Statistics of the features, on their device.

        Returns:
            ``[N]``, at least 0 for shape ``reward``; NaN, without a gradient, for motions that are not finite.
        """
        joints = features_to_joints(features, skeleton, lengths, normalizer=normalizer)
        return -self.log_reward(*self._measure(joints, lengths, skeleton.feet, fps))

    def _measure(self, joints: Tensor, lengths: Tensor, feet: Sequence[int], fps: float) -> tuple[Tensor, Tensor]:
        heights = self.options.heights
        skate, jerk = physics_sums(
            joints, lengths, fps=fps, feet=feet, heights=heights[0] if len(heights) == 1 else heights
        )
        bad = ~(skate.isfinite() & jerk.isfinite())
        return skate.masked_fill(bad, torch.nan), jerk.masked_fill(bad, torch.nan)

    def log_reward(self, skate: Tensor, jerk: Tensor) -> Tensor:
        """Return log R_phy ``[N]``; its negative is the physics loss, which does not vanish for rough motions."""
        excess = jerk / self.r_j
        if self.options.shape == "reward":
            excess = torch.log((jerk + _JERK_FLOOR) / self.r_j).abs()
        return -self.options.lambda_skate * skate / self.r_s - self.options.lambda_jerk * excess
