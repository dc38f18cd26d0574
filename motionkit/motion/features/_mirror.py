"""Left and right swapped in joints."""

from __future__ import annotations

from torch import Tensor

from motionkit.motion._skeleton import Skeleton


def mirror(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return joints ``[..., J, 3]`` reflected in x, with left and right joints swapped.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> joints = torch.zeros(22, 3)
        >>> joints[HUMANML.index("left_wrist")] = torch.tensor([0.7, 1.4, 0.0])
        >>> mirror(joints, HUMANML)[HUMANML.index("right_wrist")]
        tensor([-0.7000,  1.4000,  0.0000])
    """
    return joints[..., list(skeleton.mirror_order), :] * joints.new_tensor([-1.0, 1.0, 1.0])
