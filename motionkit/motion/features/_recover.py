"""From features back to joints, by the stored positions."""

from __future__ import annotations

import math

from torch import Tensor

from motionkit import kernels
from motionkit.kernels.recovery import root_path, sanitise
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout
from motionkit.motion.features._stats import Normalizer


def features_to_joints(
    features: Tensor,
    skeleton: Skeleton,
    lengths: Tensor | None = None,
    *,
    normalizer: Normalizer | None = None,
    backend: str = "auto",
) -> Tensor:
    """Recover joint positions from the stored positions (HumanML3D's ``recover_from_ric``).

    Differentiable. A frame whose root or positions are not finite makes itself and the frames after it NaN and
    nothing else: neither values nor gradients of earlier frames or other samples are touched, so padding may hold
    anything. On a CUDA device float32 features take one fused kernel (`motionkit.kernels`), which can be differentiated
    once.

    Args:
        features: ``[..., T, D]``, not normalised unless `normalizer` is given; half precision is computed in float32.
        skeleton: Body of the features.
        lengths: ``[...]`` int64. When given, frames past a sample's length are computed from zeros, which keeps
            huge finite padding out as well.
        normalizer: Statistics of normalised features, on their device; applied on the way.
        backend: ``auto``, ``cuda`` or ``torch``; see `motionkit.kernels.features_to_joints`.

    Returns:
        ``[..., T, J, 3]`` metres, Y up, frame 0 at x = z = 0 and facing +Z.

    Raises:
        MotionkitError: Wrong feature width.
    """
    check_width(features, skeleton)
    return kernels.features_to_joints(
        features,
        joints=skeleton.joints,
        unit=skeleton.unit,
        lengths=lengths,
        mean=None if normalizer is None else normalizer.mean,
        std=None if normalizer is None else normalizer.std,
        backend=backend,
    )


def root_trajectory(features: Tensor, skeleton: Skeleton, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the heading ``[..., T]`` (radians about +Y) and root position ``[..., T, 3]`` (metres) of features."""
    check_width(features, skeleton)
    clean, broken = sanitise(features[..., : feature_layout(skeleton).root_height.stop], lengths)
    angle, root = root_path(clean)
    gone = broken.cummax(dim=-1).values
    return angle.masked_fill(gone, math.nan), (root * skeleton.unit).masked_fill(gone[..., None], math.nan)
