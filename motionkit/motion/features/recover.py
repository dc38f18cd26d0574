"""From features back to joints, by the stored positions; a padded batch of features recovers its joints on demand."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from motionkit import kernels
from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw
from motionkit.motion.features.extract import joints_to_features
from motionkit.motion.features.layout import Normalizer, feature_layout
from motionkit.motion.motion import sample_places
from motionkit.motion.representation import Representation
from motionkit.motion.skeleton import HUMANML, Skeleton


def features_to_joints(
    features: Tensor,
    skeleton: Skeleton,
    lengths: Tensor | None = None,
    *,
    normalizer: Normalizer | None = None,
    backend: str = "auto",
) -> Tensor:
    """Recover joint positions from the stored positions (HumanML3D's ``recover_from_ric``).

    Differentiable. If root or positions of a frame are not finite, it and the frames after it become NaN; values and
    gradients of earlier frames and other samples are unaffected, so padding may hold anything. On a CUDA device float32
    features take one fused kernel (`motionkit.kernels`), which can be differentiated once.

    Args:
        features: ``[..., T, D]``, not normalised unless `normalizer` is given; half precision is computed in float32.
        skeleton: Body of the features.
        lengths: ``[...]`` int64. When given, frames past a sample's length are computed from zeros, which keeps
            huge finite padding out as well.
        normalizer: Statistics of normalised features, on their device; applied on the way.
        backend: ``auto``, ``cuda`` or ``torch``; see `motionkit.kernels.features_to_joints`.

    Returns:
        ``[..., T, J, 3]`` metres, Y up, frame 0 at x = z = 0 and facing +Z.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML, joints_to_features
        >>> from motionkit.starter import generate
        >>> joints = torch.from_numpy(generate("walk", frames=41).joints)
        >>> again = features_to_joints(joints_to_features(joints, HUMANML, target=False, align=False), HUMANML)
        >>> again.shape
        torch.Size([40, 22, 3])
        >>> bool(((again - joints[:-1])[..., 1].abs() < 1e-9).all())  # the path starts at x = z = 0
        True
    """
    skeleton.check_width(features)
    return kernels.features_to_joints(
        features,
        joints=skeleton.joints,
        unit=skeleton.unit,
        lengths=lengths,
        mean=None if normalizer is None else normalizer.mean,
        std=None if normalizer is None else normalizer.std,
        backend=backend,
    )


def with_frame_after(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return all T + 1 frames of joints that T feature rows were made of.

    T + 1 frames of joints make T rows; the last row's velocities lead to the last frame. With that frame,
    ``joints_to_features(..., target=False, align=False)`` gives the rows back; without it, smoothing sees a shorter
    motion and every heading changes a little.

    Args:
        features: ``[..., T, D]`` without padding, not normalised, extracted from joints; in generated motions
            velocities and positions disagree.
        skeleton: Body of the features.

    Returns:
        ``[..., T + 1, J, 3]`` metres.
    """
    joints = features_to_joints(features, skeleton)
    angle = skeleton.headings(features)
    # The stored velocities are in the heading of their own frame: turn them back into the world.
    moved = features[..., -1, feature_layout(skeleton).velocities].unflatten(-1, (skeleton.joints, 3)).to(joints)
    step: Tensor = rotate_yaw(moved, angle[..., -1, None]) * skeleton.unit
    return torch.cat([joints, (joints[..., -1, :, :] + step)[..., None, :, :]], dim=-3)


class MotionBatch:
    """N motions of one body, unnormalised.

    Args:
        features: ``[N, T, D]`` features, not normalised; padding may hold anything.
        lengths: ``[N]`` int64, on the device of `features`.
        skeleton: What the features are: a `Skeleton` for HumanML3D's and KIT-ML's, else a policy's own representation.
        fps: Frames per second.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> batch = MotionBatch(torch.zeros(2, 40, 263), torch.tensor([40, 25]), skeleton=HUMANML, fps=20.0)
        >>> batch.joints.shape, batch.mask.sum(dim=1).tolist()
        (torch.Size([2, 40, 22, 3]), [40, 25])
    """

    def __init__(self, features: Tensor, lengths: Tensor, *, skeleton: Representation, fps: float) -> None:
        self.features = features
        self.lengths = lengths
        self.skeleton = skeleton
        self.fps = fps

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def device(self) -> torch.device:
        """Device of the features."""
        return self.features.device

    @cached_property
    def mask(self) -> Tensor:
        """``[N, T]`` bool, True = valid."""
        return torch.arange(self.features.shape[1], device=self.features.device) < self.lengths[:, None]

    @cached_property
    def joints(self) -> Tensor:
        """``[N, T, J, 3]`` joint positions in metres, Y up, recovered from the features; padding is finite."""
        return self.skeleton.positions(self.features, self.lengths)

    @cached_property
    def physics(self) -> tuple[Tensor, Tensor]:
        """Foot skate ``[N]`` in m/s and jerk ``[N]`` in m/s^3 of the joints; see `motionkit.kernels.physics_sums`."""
        return kernels.physics_sums(self.joints, self.lengths, fps=self.fps, feet=self.skeleton.feet)

    @cached_property
    def headings(self) -> Tensor:
        """``[N, T]`` radians about +Y, 0 for +Z, as the features have them; padding is finite."""
        return self.skeleton.headings(self.features, self.lengths)

    @cached_property
    def humanml(self) -> MotionBatch:
        """The same motions in HumanML3D's features at 20 frames per second, differentiably; itself if it is in them.

        The shared joints are taken by name, resampled linearly, and put onto the bones of `HUMANML`; the last frame
        gives way to velocities, as in HumanML3D.

        Raises:
            MotionkitError: The body has no such joints.
        """
        if self.skeleton is HUMANML:
            return self
        if self.skeleton.humanml is None:
            raise MotionkitError(f"the {self.skeleton.name} body has no joints that stand for HumanML3D's.")
        joints = self.skeleton.as_humanml(self.features, self.joints, self.lengths)
        # [N] samples of each motion, and for the [S] samples of the longest the frames around them.
        counts = ((self.lengths - 1) * (HUMANML.fps / self.fps) + 1e-6).long() + 1
        *around, part = sample_places(int(self.lengths.max()), self.fps, HUMANML.fps, joints=joints.shape[2])
        last = (self.lengths - 1)[:, None]
        start, end = (
            torch.take_along_dim(joints, torch.minimum(index.to(last), last)[..., None, None], dim=1)
            for index in around
        )
        even = torch.lerp(start, end, part.to(joints)[:, None, None])
        return MotionBatch(joints_to_features(even, HUMANML, counts), counts - 1, skeleton=HUMANML, fps=HUMANML.fps)

    def detach(self) -> MotionBatch:
        """Return the same motions without a graph; the batch itself if there is none."""
        if not self.features.requires_grad:
            return self
        plain = MotionBatch(self.features.detach(), self.lengths, skeleton=self.skeleton, fps=self.fps)
        if "joints" in self.__dict__:  # recovered already
            plain.joints = self.joints.detach()
        return plain
