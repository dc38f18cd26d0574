"""The motions that readers return and writers take: a moving skeleton, or moving joints without rotations.

The functions after the two classes check rates and sizes, and make masks of frames whose values are finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, matrix_from_rotvec, matrix_to_rotvec, positions_from_bones

RATES = 0.1, 10_000.0
"""Lowest and highest frames per second of a motion. Others are mistakes, or would fill the memory when resampled."""

LARGEST = 2 << 30
"""Bytes that a motion may take: two hours of 22 joints at 120 frames per second, or of 60 joints at 50. A small archive
can unpack to any number of frames, so the size is checked before memory is allocated."""

END = " End"
"""An end site (BVH) is a joint called ``<parent> End``, with a place and no rotation."""

Ranges = tuple[tuple[int, int], ...]
"""Half-open runs of frames, in order."""


@dataclass(frozen=True)
class Motion:
    """A moving skeleton: local rotations on a tree of joints.

    Inside motionkit it is in metres, right-handed, Y up; readers convert what they read.

    Example:
        >>> eye = torch.eye(3, dtype=torch.float64).expand(40, 2, 3, 3)
        >>> offsets = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0]], dtype=torch.float64)
        >>> motion = Motion(("hips", "head"), (-1, 0), offsets, eye, offsets.expand(40, 2, 3), fps=20.0)
        >>> motion.positions()[0, 1].tolist()
        [0.0, 1.5, 0.0]
        >>> motion.resample(30.0).frames
        59
    """

    # J joint names, the root first, each parent before its children; ``<parent> End`` is an end site.
    names: tuple[str, ...]
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    offsets: Tensor  # ``[J, 3]`` float64 metres from the parent in the rest pose (all rotations identity)
    rotations: Tensor  # ``[T, J, 3, 3]`` float64, each relative to its parent; the root's is relative to the world
    # ``[T, J, 3]`` float64 metres from the parent; the root's is its place in the world. Equal to `offsets` in every
    # frame except for the root and joints whose position is animated.
    translations: Tensor
    fps: float  # Frames per second
    # Further values per frame that a source has, ``[T, ...]`` each, such as ``contacts`` (``[T, 2]`` left, right in [0,
    # 1]); they are cut and resampled with the motion.
    tracks: Mapping[str, Tensor] = field(default_factory=dict)
    # Metres at each joint, by which its links are drawn; empty: by the lengths of its bones.
    radii: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_fps(self.fps)

    def __repr__(self) -> str:
        return f"Motion({in_short(self)})"

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

        Samples are taken at ``k / fps`` from the first frame on, while the motion lasts; if they fall on frames of
        the motion (60 to 20 fps), they are those frames exactly.
        """
        if fps == self.fps:
            return self
        before, after, part = sample_places(self.frames, self.fps, fps, joints=len(self.names))
        rotations, translations = self.rotations[before], self.translations[before]
        if bool(part.any()):
            arc = matrix_to_rotvec(rotations.mT @ self.rotations[after]) * part[:, None, None]
            rotations = rotations @ matrix_from_rotvec(arc)
            translations = torch.lerp(translations, self.translations[after], part[:, None, None])
        tracks = {name: _between(values, before, after, part) for name, values in self.tracks.items()}
        return replace(self, rotations=rotations, translations=translations, fps=fps, tracks=tracks)


@dataclass(frozen=True)
class JointMotion:
    """Moving joints without rotations: features, generated motions, plain arrays.

    Example:
        >>> motion = JointMotion(("hips", "head"), (-1, 0), torch.zeros(40, 2, 3, dtype=torch.float64), fps=20.0)
        >>> motion.cut(10, 30).frames
        20
    """

    names: tuple[str, ...]  # J joint names, the root first
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    joints: Tensor  # ``[T, J, 3]`` float64 metres, Y up
    fps: float  # Frames per second
    tracks: Mapping[str, Tensor] = field(default_factory=dict)  # As in `Motion`
    radii: tuple[float, ...] = ()  # As in `Motion`

    def __post_init__(self) -> None:
        check_fps(self.fps)

    def __repr__(self) -> str:
        return f"JointMotion({in_short(self)})"

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
        before, after, part = sample_places(self.frames, self.fps, fps, joints=len(self.names))
        joints = torch.lerp(self.joints[before], self.joints[after], part[:, None, None])
        tracks = {name: _between(values, before, after, part) for name, values in self.tracks.items()}
        return replace(self, joints=joints, fps=fps, tracks=tracks)


def in_short(motion: Motion | JointMotion) -> str:
    """Return size, rate and length of a motion in words.

    Example:
        >>> in_short(JointMotion(("hips",), (-1,), torch.zeros(40, 1, 3, dtype=torch.float64), fps=20.0))
        '40 frames, 20 fps, 1 joints, 2.0 s'
    """
    frames = motion.frames
    return f"{frames} frames, {motion.fps:g} fps, {len(motion.names)} joints, {frames / motion.fps:.1f} s"


def is_fps(value: float) -> bool:
    """Whether a number can be the frames per second of a motion."""
    return RATES[0] <= value <= RATES[1]


def other_rate(stated: float, given: float) -> str:
    """Return the warning about a rate that was given in place of the file's."""
    return f"its file says {stated:g} frames per second: {given:g} were taken, as given (--source-fps)."


def numbered(doubles: Mapping[str, int]) -> str:
    """Return the warning about joints that share a name, with the number of joints by name."""
    names = list(doubles)
    shown = ", ".join(f"{name!r} ({doubles[name]})" for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"joints that share a name are numbered here: {shown}{more}."


def check_fps(value: float) -> None:
    """Refuse an impossible frame rate."""
    if not is_fps(value):
        raise MotionkitError(
            f"a motion cannot have {value:g} frames per second.", why=f"{RATES[0]:g} to {RATES[1]:g} are possible."
        )


def check_size(
    frames: int,  # number of frames, of all motions of a file together
    joints: int,
    *,
    rotations: bool = True,  # whether it is a `Motion`; a `JointMotion` takes a quarter
) -> None:
    """Refuse a motion that would fill the memory."""
    size = frames * joints * (96 if rotations else 24)
    if size > LARGEST:
        raise MotionkitError(
            f"{frames} frames of {joints} joints are {size / 2**30:.1f} GB once read; at most {LARGEST >> 30} GB are.",
            fix="cut the motion into several files when exporting it.",
        )


def sample_places(
    frames: int,
    source: float,  # its frames per second
    target: float,  # those wanted
    *,
    joints: int = 1,  # number of joints; with the number of samples, the memory that is needed
) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for samples at ``k / target``, the frames before and after each and its part of the way (float64)."""
    check_fps(target)
    count = int((frames - 1) * target / source + 1e-6) + 1
    check_size(count, joints)
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


def ranges(marked: Tensor) -> Ranges:
    """Return the half-open ranges in which a ``[T]`` mask is True."""
    steps = torch.nn.functional.pad(marked.to(torch.int8), (1, 1)).diff()
    starts, stops = torch.nonzero(steps == 1)[:, 0].tolist(), torch.nonzero(steps == -1)[:, 0].tolist()
    return tuple(zip(starts, stops, strict=True))


def finite_frames(values: Tensor) -> Tensor:
    """Return ``[T]``: True where all values of a row of ``[T, ...]`` are finite."""
    return values.isfinite().reshape(len(values), math.prod(values.shape[1:])).all(dim=1)


def nearest_finite(
    finite: Tensor,  # [T], True somewhere
) -> Tensor:
    """Return for each frame the index of the last finite one up to it; the first one for frames before that."""
    index = torch.where(finite, torch.arange(len(finite)), -1)
    return index.cummax(0).values.clamp_min(int(finite.to(torch.int8).argmax()))


def finite_part(motion: Motion, finite: Tensor) -> Motion:
    """Return the finite frames of a motion without its tracks, to guess a unit or an axis from."""
    if bool(finite.all()):
        return motion
    return replace(motion, rotations=motion.rotations[finite], translations=motion.translations[finite], tracks={})


def mark_missing(motion: Motion, finite: Tensor) -> Motion:
    """Return the motion with NaN in all frames that are not finite; tracks of whole numbers stay as they are."""
    if bool(finite.all()):
        return motion

    def marked(values: Tensor) -> Tensor:
        if not values.is_floating_point():
            return values
        return torch.where(finite.view(-1, *[1] * (values.ndim - 1)), values, math.nan)

    return replace(
        motion,
        rotations=marked(motion.rotations),
        translations=marked(motion.translations),
        tracks={name: marked(values) for name, values in motion.tracks.items()},
    )


def finite_warning(finite: Tensor) -> list[str]:
    """Return a warning with the number of frames that are not finite; empty if all are."""
    lost = int((~finite).sum())
    return [f"values are not finite in {lost} of {len(finite)} frames."] if lost else []
