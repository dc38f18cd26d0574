"""The physics reward on recovered joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import MotionBatch, Normalizer, Skeleton, features_to_joints
from motionkit.rewards.base import RewardScores
from motionkit.rewards.physics import PhysicsOptions
from motionkit.text import Prompt

_JERK_FLOOR = 1e-3


class HasPhysicsReference(Protocol):
    """A dataset, as far as this reward is concerned."""

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of its train split."""
        ...


class Physics:
    """``exp(-lambda_skate skate/r_s - lambda_jerk J)``, in (0, 1].

    With shape ``reward`` ``J = |log((jerk + 1e-3) / r_j)|``: a motion far smoother than real ones is as wrong as one
    far rougher, so a frozen pose scores below a real clip. With shape ``guide`` ``J = jerk / r_j``.

    Args:
        options: Weights, shape, contact heights and references.
        dataset: Gives the references that the options leave at 0.
        device: Not needed; every reward factory is given it.

    Raises:
        MotionkitError: A reference is neither given nor to be had from a dataset.
    """

    name = "physics"
    bounds = (0.0, 1.0)
    rows: ClassVar[tuple[str, ...]] = ("skate", "jerk")

    def __init__(
        self,
        options: PhysicsOptions,
        *,
        dataset: HasPhysicsReference | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.options = options
        self.r_s, self.r_j = options.r_s, options.r_j
        if not (self.r_s and self.r_j):
            if dataset is None:
                raise MotionkitError(
                    "the physics reward has no reference skate and jerk.",
                    why="both are divided by the median of real motion, which a dataset provides.",
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
        """Score N motions; the prompts play no part. Differentiable in the motions' features."""
        skate, jerk = self.measure(motions)
        total = torch.exp(self.log_reward(skate, jerk))
        return RewardScores(total, parts={"skate": skate, "jerk": jerk})

    def measure(self, motions: MotionBatch) -> tuple[Tensor, Tensor]:
        """Return skate ``[N]`` in m/s and jerk ``[N]`` in m/s^3; NaN where a motion is not finite."""
        return self._measure(motions.joints, motions.lengths, motions.skeleton, motions.fps)

    def loss(
        self,
        features: Tensor,
        lengths: Tensor,
        *,
        skeleton: Skeleton,
        fps: float,
        normalizer: Normalizer | None = None,
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
            ``[N]``, at least 0 for shape ``reward``; NaN, without a gradient, where a motion is not finite.
        """
        joints = features_to_joints(features, skeleton, lengths, normalizer=normalizer)
        return -self.log_reward(*self._measure(joints, lengths, skeleton, fps))

    def _measure(self, joints: Tensor, lengths: Tensor, skeleton: Skeleton, fps: float) -> tuple[Tensor, Tensor]:
        heights = self.options.heights
        skate, jerk = physics_sums(
            joints, lengths, fps=fps, feet=skeleton.feet, heights=heights[0] if len(heights) == 1 else heights
        )
        bad = ~(skate.isfinite() & jerk.isfinite())
        return skate.masked_fill(bad, torch.nan), jerk.masked_fill(bad, torch.nan)

    def log_reward(self, skate: Tensor, jerk: Tensor) -> Tensor:
        """Return log R_phy ``[N]``; its negative is the physics loss, which does not vanish for rough motions."""
        excess = jerk / self.r_j
        if self.options.shape == "reward":
            excess = torch.log((jerk + _JERK_FLOOR) / self.r_j).abs()
        return -self.options.lambda_skate * skate / self.r_s - self.options.lambda_jerk * excess
