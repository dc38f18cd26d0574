"""What the features of a policy are: a body, and how its joints, headings and rotations come out of them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from motionkit.motion.motion import JointMotion, Motion


class Representation(ABC):
    """Features of one body: the ``skeleton`` of a policy and of the motions that it makes.

    HumanML3D's and KIT-ML's is `motionkit.motion.Skeleton`. A policy with other features brings its own.

    Attributes:
        name: Its name in files of motions and in messages.
        joint_names: J names, the root first.
        parents: Parent of each joint, -1 for the root.
        humanml: Its joints that are HumanML3D's 22, in the order of those; None if it has no such joints. Rewards that
            read HumanML3D's features then get these motions as such.
        feet: Joints that touch the floor, such as left ankle, left toe, right ankle, right toe.
        radii: Metres at each joint, by which its links are drawn as capsules; empty: by the lengths of its bones.

    Example:
        >>> import torch
        >>> from motionkit.motion import MotionBatch
        >>> class Points(Representation):
        ...     name, joint_names, parents, feet, width = "points", ("root", "toe"), (-1, 0), (1,), 6
        ...
        ...     def positions(self, features, lengths=None):
        ...         return features.unflatten(-1, (2, 3))
        ...
        ...     def headings(self, features, lengths=None):
        ...         return features.new_zeros(features.shape[:-1])
        >>> MotionBatch(torch.zeros(2, 9, 6), torch.tensor([9, 5]), skeleton=Points(), fps=30.0).joints.shape
        torch.Size([2, 9, 2, 3])
    """

    name: str
    joint_names: tuple[str, ...]
    parents: tuple[int, ...]
    feet: tuple[int, ...]
    humanml: tuple[int, ...] | None = None
    radii: tuple[float, ...] = ()

    @property
    def joints(self) -> int:
        """Number of joints J."""
        return len(self.parents)

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features per frame D."""
        ...

    @abstractmethod
    def positions(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the joints, differentiably.

        Args:
            features: ``[..., T, D]``, not normalised; frames past a motion's length may hold anything.
            lengths: ``[...]`` int64 valid frames; None: all.

        Returns:
            ``[..., T, J, 3]`` metres, Y up. Padding changes neither values nor gradients of valid frames.
        """
        ...

    @abstractmethod
    def headings(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return where the body faces, ``[..., T]`` radians about +Y, 0 for +Z; arguments as of `positions`."""
        ...

    def as_humanml(self, features: Tensor, joints: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return HumanML3D's 22 joints, ``[..., T, 22, 3]`` metres; their bones may have any length, not any direction.

        A body whose bones point elsewhere at rest overrides it. Arguments are as of `positions`, and its result.
        """
        shared: Tensor = joints[..., list(self.humanml or ()), :]
        return shared

    def motion(self, features: Tensor, joints: Tensor, fps: float) -> Motion | JointMotion:
        """Return one motion, as files of motions have it; with rotations if the features say them.

        Args:
            features: ``[T, D]``, not normalised.
            joints: ``[T, J, 3]`` its `positions`.
            fps: Frames per second.
        """
        return JointMotion(self.joint_names, self.parents, joints.double(), fps, radii=self.radii)
