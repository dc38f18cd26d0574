"""What every reader makes and every writer takes: a moving skeleton, or moving joints without rotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import roma
import torch
from torch import Tensor

from motionkit.geometry import accumulate_rotations, positions_from_bones

END = " End"
"""An end site (BVH) is a joint called ``<parent> End``: it has a place and no rotation."""


@dataclass(frozen=True)
class Motion:
    """A moving skeleton: local rotations on a tree of joints.

    Inside motionkit it is in metres, right-handed, Y up; readers bring whatever they read into that space.

    Attributes:
        names: J joint names, the root first, each parent before its children; ``<parent> End`` is an end site.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` float64 metres from the parent in the rest pose (all rotations identity).
        rotations: ``[T, J, 3, 3]`` float64, each relative to its parent; the root's is relative to the world.
        translations: ``[T, J, 3]`` float64 metres from the parent; the root's is its place in the world. Equal to
            `offsets` in every frame except for the root and joints whose position is animated.
        fps: Frames per second.
        tracks: Further values per frame that a source has, ``[T, ...]`` each, such as ``contacts`` (``[T, 2]``
            left, right in [0, 1]); they are cut and resampled with the motion.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    offsets: Tensor
    rotations: Tensor
    translations: Tensor
    fps: float
    tracks: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return len(self.rotations)

    def positions(self) -> Tensor:
        """Return joint positions ``[T, J, 3]`` in the world, by forward kinematics."""
        world = accumulate_rotations(self.rotations, self.parents)
        index = [max(parent, 0) for parent in self.parents]
        bones = (world[:, index] @ self.translations[..., None]).squeeze(-1)
        root = torch.tensor([parent < 0 for parent in self.parents])[:, None]
        return positions_from_bones(torch.where(root, self.translations, bones), self.parents)

    def cut(self, start: int, stop: int | None = None) -> Motion:
        """Return frames ``start:stop``."""
        part = slice(start, stop)
        tracks = {name: values[part] for name, values in self.tracks.items()}
        return replace(self, rotations=self.rotations[part], translations=self.translations[part], tracks=tracks)

    def resample(self, fps: float) -> Motion:
        """Return the motion at another frame rate: rotations along the shortest arc, everything else linearly.

        Samples are taken at ``k / fps`` from the first frame on, while the motion lasts; where they fall on frames of
        the motion (60 to 20 fps), they are those frames exactly.
        """
        if fps == self.fps:
            return self
        before, after, part = sample_places(self.frames, self.fps, fps)
        start, end = self.rotations[before], self.rotations[after]
        arc = roma.rotmat_to_rotvec(start.transpose(-1, -2) @ end) * part[:, None, None]
        rotations = start @ roma.rotvec_to_rotmat(arc)
        translations = torch.lerp(self.translations[before], self.translations[after], part[:, None, None])
        tracks = {name: _between(values, before, after, part) for name, values in self.tracks.items()}
        return replace(self, rotations=rotations, translations=translations, fps=fps, tracks=tracks)


@dataclass(frozen=True)
class JointMotion:
    """Moving joints without rotations: features, generated motions, plain arrays.

    Attributes:
        names: J joint names, the root first.
        parents: Parent of each joint, -1 for the root.
        joints: ``[T, J, 3]`` float64 metres, Y up.
        fps: Frames per second.
        tracks: As in `Motion`.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    joints: Tensor
    fps: float
    tracks: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return len(self.joints)

    def positions(self) -> Tensor:
        """Return the joints, ``[T, J, 3]``."""
        return self.joints

    def cut(self, start: int, stop: int | None = None) -> JointMotion:
        """Return frames ``start:stop``."""
        part = slice(start, stop)
        tracks = {name: values[part] for name, values in self.tracks.items()}
        return replace(self, joints=self.joints[part], tracks=tracks)

    def resample(self, fps: float) -> JointMotion:
        """Return the motion at another frame rate, linearly; see `Motion.resample` for where samples lie."""
        if fps == self.fps:
            return self
        before, after, part = sample_places(self.frames, self.fps, fps)
        joints = torch.lerp(self.joints[before], self.joints[after], part[:, None, None])
        tracks = {name: _between(values, before, after, part) for name, values in self.tracks.items()}
        return replace(self, joints=joints, fps=fps, tracks=tracks)


def sample_places(frames: int, source: float, target: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for samples at ``k / target``, the frames before and after each and its part of the way (float64)."""
    count = int((frames - 1) * target / source + 1e-6) + 1
    place = torch.arange(count, dtype=torch.float64) * (source / target)
    before = (place + 1e-6).floor().long().clamp_max(frames - 1)
    part = place - before
    part = torch.where(part.abs() < 1e-6, torch.zeros_like(part), part)
    return before, (before + 1).clamp_max(frames - 1), part


def _between(values: Tensor, before: Tensor, after: Tensor, part: Tensor) -> Tensor:
    """Blend rows of a track; whole numbers and truth values take the nearer row."""
    if not values.is_floating_point():
        return values[torch.where(part < 0.5, before, after)]
    return torch.lerp(values[before], values[after], part.to(values.dtype).view(-1, *[1] * (values.ndim - 1)))
