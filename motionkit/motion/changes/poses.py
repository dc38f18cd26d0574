"""A clip as a path, a heading and bones (`Poses`), and changes of its poses alone: path and heading stay."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.geometry import bones_from_positions, heading, positions_from_bones, rotate_yaw, unwrap
from motionkit.motion.features.extract import canonicalise
from motionkit.motion.skeleton import Skeleton

SEAM = 0.2
"""Seconds over which two pieces are joined."""

_SMOOTHING = 0.5
"""Standard deviation, in seconds, of the Gaussian that smooths the heading: it follows a turn, but not the twist of the
pelvis in each step."""

_TINY = 1e-6


@dataclass(frozen=True)
class Poses:
    """F frames of a clip."""

    ground: Tensor  # ``[F, 2]`` x and z of the root in metres
    # ``[F]`` y of the lowest joint in metres: what carries over from pose to pose, as feet stay on the floor while the
    # root rises and sinks.
    floor: Tensor
    yaw: Tensor  # ``[F]`` heading in radians, without steps of whole turns
    directions: Tensor  # ``[F, J - 1, 3]`` unit vector of each bone in the heading's frame; the root has none
    lengths: Tensor  # ``[F, J - 1]`` length of each bone in metres
    skeleton: Skeleton  # The body
    fps: float  # Frames per second

    def __len__(self) -> int:
        return len(self.yaw)

    @classmethod
    def of(cls, joints: Tensor, skeleton: Skeleton, fps: float) -> Poses:
        """Take joints ``[F, J, 3]`` apart; `joints` puts them together again."""
        yaw = _heading(joints, skeleton, fps)
        bones = bones_from_positions(joints, skeleton.parents)[:, 1:]
        lengths = bones.norm(dim=-1)
        directions = rotate_yaw(bones / lengths.clamp_min(1e-12)[..., None], -yaw[:, None])
        return cls(joints[:, 0, [0, 2]], joints[..., 1].amin(1), yaw, directions, lengths, skeleton, fps)

    @property
    def height(self) -> Tensor:
        """``[F]`` y of the root in metres."""
        return self.floor - self.offsets()[..., 1].amin(1)

    @property
    def joints(self) -> Tensor:
        """``[F, J, 3]`` metres."""
        offsets = self.offsets()
        root = torch.stack([self.ground[:, 0], self.floor - offsets[..., 1].amin(1), self.ground[:, 1]], dim=-1)
        return rotate_yaw(offsets, self.yaw[:, None]) + root[:, None]

    def offsets(self) -> Tensor:
        """Return the joints ``[F, J, 3]`` relative to the root, in the heading's frame."""
        bones = self.directions * self.lengths[..., None]
        return positions_from_bones(torch.cat([torch.zeros_like(bones[:, :1]), bones], dim=1), self.skeleton.parents)

    def averaged(self) -> Poses:
        """Return the clip with its mean pose at its mean height in every frame; path and heading stay."""
        mean = _renormalised(self.directions.mean(0), self.directions[len(self) // 2])
        return replace(
            self,
            floor=self.floor.mean().expand_as(self.floor),
            directions=mean.expand_as(self.directions),
            lengths=self.lengths.mean(0).expand_as(self.lengths),
        )

    def towards(
        self,
        other: Poses,  # as many frames
        part: float | Tensor,  # 0 stays, 1 arrives; a number, or [F]
    ) -> Poses:
        """Return poses and their floor `part` of the way to those of `other`, bones turned along the shortest arc."""
        share = torch.as_tensor(part, dtype=self.yaw.dtype).expand(len(self))
        return replace(
            self,
            floor=torch.lerp(self.floor, other.floor, share),
            directions=slerp(self.directions, other.directions, share[:, None]),
            lengths=torch.lerp(self.lengths, other.lengths, share[:, None]),
        )

    def smoothed(self, width: int) -> Poses:
        """Return the clip with the mean of the poses and floors of `width` frames around each; ends are repeated."""
        return replace(
            self,
            floor=_running_mean(self.floor[:, None], width)[:, 0],
            directions=_renormalised(_running_mean(self.directions, width), self.directions),
            lengths=_running_mean(self.lengths, width),
        )

    def reordered(self, order: Tensor, *, join: bool = True) -> Poses:
        """Return the frames in another order.

        Every frame keeps its pose, its floor and its step to the frame after it in its heading's frame: the path is
        made of these steps. Where two frames become neighbours, the poses of `SEAM` seconds around them are
        interpolated from the pose before to the pose after.

        Args:
            order: ``[M]`` int64 numbers of frames.
            join: False leaves the seams as they are.
        """
        steps = rotate_yaw(self._path().diff(dim=0), -self.yaw[:-1])
        turns = self.yaw.diff()
        steps, turns = torch.cat([steps, steps[-1:]])[order], torch.cat([turns, turns[-1:]])[order]
        yaw = functional.pad(turns[:-1].cumsum(0), (1, 0))
        path = functional.pad(rotate_yaw(steps[:-1], yaw[:-1]).cumsum(0), (0, 0, 1, 0))
        poses = replace(
            self,
            ground=path[:, [0, 2]],
            floor=self.floor[order],
            yaw=yaw,
            directions=self.directions[order],
            lengths=self.lengths[order],
        )
        return poses._joined(((order[1:] - order[:-1]) != 1).nonzero()[:, 0].tolist()) if join else poses

    def followed_by(self, other: Poses) -> Poses:
        """Return this clip without its last frame, continued by another one at its end, joined over `SEAM`."""
        start, turn = self.ground[-1], self.yaw[-1] - other.yaw[0]
        path = rotate_yaw(other._path() - other._path()[:1], turn)[:, [0, 2]] + start
        both = Poses(
            torch.cat([self.ground[:-1], path]),
            torch.cat([self.floor[:-1], other.floor]),
            torch.cat([self.yaw[:-1], other.yaw + turn]),
            torch.cat([self.directions[:-1], other.directions]),
            torch.cat([self.lengths[:-1], other.lengths]),
            self.skeleton,
            self.fps,
        )
        return both._joined([len(self) - 2])

    def _joined(self, seams: list[int]) -> Poses:
        """Interpolate the poses around each seam; `seams` are the last frames before them."""
        half = max(round(0.5 * SEAM * self.fps), 1)
        before, after = torch.arange(len(self)), torch.arange(len(self))
        part = torch.zeros_like(self.floor)
        # A frame between two seams less than SEAM apart belongs to the later one.
        for seam in seams:
            first, last = max(seam - half, 0), min(seam + 1 + half, len(self) - 1)
            before[first : last + 1], after[first : last + 1] = first, last
            part[first : last + 1] = torch.linspace(0.0, 1.0, last - first + 1, dtype=part.dtype)
        joined = self._frames(before).towards(self._frames(after), part)
        return replace(joined, ground=self.ground, yaw=self.yaw)

    def _frames(self, index: Tensor) -> Poses:
        return replace(
            self,
            ground=self.ground[index],
            floor=self.floor[index],
            yaw=self.yaw[index],
            directions=self.directions[index],
            lengths=self.lengths[index],
        )

    def _path(self) -> Tensor:
        """Return the root on the ground, ``[F, 3]`` with y = 0."""
        return torch.stack([self.ground[:, 0], torch.zeros_like(self.floor), self.ground[:, 1]], dim=-1)

    def sampled(self, places: Tensor) -> Poses:
        """Return the clip at `places` (``[M]``, in frames, fractions allowed), between frames along shortest arcs."""
        before = places.floor().long().clamp(0, len(self) - 1)
        after = (before + 1).clamp_max(len(self) - 1)
        part = (places - before).to(self.yaw.dtype)
        poses = self._frames(before).towards(self._frames(after), part)
        return replace(
            poses,
            ground=torch.lerp(self.ground[before], self.ground[after], part[:, None]),
            yaw=torch.lerp(self.yaw[before], self.yaw[after], part),
        )


def slerp(start: Tensor, end: Tensor, part: Tensor) -> Tensor:
    """Return unit vectors ``[..., 3]`` on the shortest arc from `start` to `end`, at `part` of its angle.

    Opposite directions have no shortest arc; the middle of one is then `start`.

    Example:
        >>> x, y = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
        >>> slerp(x, y, torch.tensor(0.5))
        tensor([0.7071, 0.7071, 0.0000])
    """
    angle = torch.atan2(torch.linalg.cross(start, end, dim=-1).norm(dim=-1), (start * end).sum(-1))
    part = torch.as_tensor(part, dtype=start.dtype).expand_as(angle)
    sine = angle.sin()
    near = sine < 1e-4
    safe = torch.where(near, torch.ones_like(sine), sine)
    first = torch.where(near, 1.0 - part, ((1.0 - part) * angle).sin() / safe)
    second = torch.where(near, part, (part * angle).sin() / safe)
    return _renormalised(first[..., None] * start + second[..., None] * end, start)


def turned_as(vectors: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Return vectors turned by the smallest rotation that takes unit vectors `start` to `end`; all ``[..., 3]``.

    Opposite directions have no smallest rotation; the vector is then reversed.
    """
    axis = torch.linalg.cross(start, end, dim=-1)
    cosine = (start * end).sum(-1, keepdim=True)
    along = axis * (axis * vectors).sum(-1, keepdim=True) / (1.0 + cosine).clamp_min(1e-6)
    turned: Tensor = cosine * vectors + torch.linalg.cross(axis, vectors, dim=-1) + along
    return turned


def placed(
    joints: Tensor,  # [F, J, 3] metres, Y up
    like: Tensor,  # [G, J, 3]; the lowest joint of the result is as high as the lowest one here
    skeleton: Skeleton,  # for hips and shoulders
) -> Tensor:
    """Return joints ``[F, J, 3]`` as features need them: frame 0 at x = z = 0, facing +Z, on the floor of `like`."""
    return canonicalise(joints, skeleton) + joints.new_tensor([0.0, 1.0, 0.0]) * like[..., 1].amin()


def _renormalised(vectors: Tensor, fallback: Tensor) -> Tensor:
    """Return vectors of length 1; one without a direction becomes that of `fallback`."""
    length = vectors.norm(dim=-1, keepdim=True)
    return torch.where(length > _TINY, vectors / length.clamp_min(_TINY), fallback)


def _running_mean(values: Tensor, width: int) -> Tensor:
    """Return the centred mean of `width` frames (rounded up to odd) of ``[F, ...]``, with padding "replicate"."""
    half = width // 2
    rows = values.flatten(1).T[None]
    padded = functional.pad(rows, (half, half), mode="replicate")
    return functional.avg_pool1d(padded, 2 * half + 1, stride=1)[0].T.reshape(values.shape)


def _heading(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return the smoothed yaw ``[F]`` of the direction at right angles to the hips."""
    right, left, *_ = skeleton.face_joints
    across = joints[:, right] - joints[:, left]
    across = across / across.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    ahead = torch.stack([across[:, 2], -across[:, 0]])[:, None]  # [2, 1, F], up times across
    deviation = _SMOOTHING * fps
    radius = math.ceil(4.0 * deviation)
    offsets = torch.arange(-radius, radius + 1, dtype=joints.dtype)
    kernel = torch.exp(-0.5 * (offsets / deviation).square())
    smooth = functional.conv1d(functional.pad(ahead, (radius, radius), mode="replicate"), kernel[None, None])[:, 0]
    return unwrap(heading(torch.stack([smooth[0], torch.zeros_like(smooth[0]), smooth[1]], dim=-1)))


def mean_pose(
    joints: Tensor,  # [F, J, 3] metres, Y up
    skeleton: Skeleton,
    fps: float,  # frames per second
) -> Tensor:
    """Return the clip with its mean pose at its mean height in every frame: a statue that follows the path."""
    return swing_times(joints, skeleton, fps, factor=0.0)


def swing_times(joints: Tensor, skeleton: Skeleton, fps: float, *, factor: float) -> Tensor:
    """Return the clip with each bone's turn from the mean pose, and its offset from its mean height, times `factor`."""
    poses = Poses.of(joints, skeleton, fps)
    return placed(poses.averaged().towards(poses, factor).joints, joints, skeleton)


def held_frame(joints: Tensor, skeleton: Skeleton, fps: float, *, frame: int) -> Tensor:
    """Return the clip with the pose and the height of one frame in every frame."""
    poses = Poses.of(joints, skeleton, fps)
    still = poses.reordered(torch.full((len(poses),), frame), join=False)
    return placed(replace(still, ground=poses.ground, yaw=poses.yaw).joints, joints, skeleton)


def running_mean(joints: Tensor, skeleton: Skeleton, fps: float, *, seconds: float) -> Tensor:
    """Return the clip with the mean pose of `seconds` around each frame."""
    poses = Poses.of(joints, skeleton, fps)
    return placed(poses.smoothed(round(seconds * fps)).joints, joints, skeleton)


def still_limb(
    joints: Tensor,  # [F, J, 3]
    skeleton: Skeleton,
    fps: float,  # frames per second
    *,
    limb: int | None = None,  # number of the limb in `limbs`; None takes the one whose end moves most (`joint_ranges`)
) -> Tensor:
    """Return the clip with the bones of one limb at their mean directions."""
    poses = Poses.of(joints, skeleton, fps)
    parts = limbs(skeleton)  # joints from the body outwards, the end last
    if limb is None:
        ranges = joint_ranges(joints, skeleton, fps)
        limb = max(range(len(parts)), key=lambda number: float(ranges[parts[number][-1]]))
    bones = torch.tensor(parts[limb]) - 1  # the root has no bone
    directions = poses.directions.clone()
    directions[:, bones] = poses.averaged().directions[:, bones]
    return placed(replace(poses, directions=directions).joints, joints, skeleton)


def lively_statue(joints: Tensor, skeleton: Skeleton, fps: float, *, other: Tensor) -> Tensor:
    """Return the clip with its mean pose and the swing of another clip around it.

    Every bone turns from this clip's mean as the other clip's bone turns from its mean. A shorter other clip runs to
    and fro.

    Args:
        joints: ``[F, J, 3]``.
        skeleton: The body of both.
        fps: Frames per second of both.
        other: ``[G, J, 3]`` joints of the other clip.
    """
    poses, moving = Poses.of(joints, skeleton, fps), Poses.of(other, skeleton, fps)
    # Frames of the other clip, to and fro: 0, 1, ..., G - 1, G - 2, ..., 1, 0, 1, ...
    count = torch.arange(len(poses)) % max(2 * len(moving) - 2, 1)
    index = torch.minimum(count, 2 * len(moving) - 2 - count)
    still, centre = poses.averaged(), moving.averaged()
    goal = moving.directions[index]
    directions = turned_as(still.directions, centre.directions[0].expand_as(goal), goal)
    floor = still.floor + moving.floor[index] - centre.floor[0]
    return placed(replace(still, directions=directions, floor=floor).joints, joints, skeleton)


def joint_ranges(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return how far each joint moves relative to the root, in the heading's frame.

    Args:
        joints: ``[F, J, 3]`` metres.
        skeleton: Their body.
        fps: Frames per second.

    Returns:
        ``[J]`` metres, the diagonal of the box that holds the joint in all frames.
    """
    seen = Poses.of(joints, skeleton, fps).offsets()
    ranges: Tensor = (seen.amax(0) - seen.amin(0)).norm(dim=-1)
    return ranges


def limbs(skeleton: Skeleton) -> tuple[tuple[int, ...], ...]:
    """Return the joints of each arm and leg beyond shoulder and hip, from the body outwards.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> [[HUMANML.joint_names[joint] for joint in limb] for limb in limbs(HUMANML)][2]
        ['right_elbow', 'right_wrist']
    """
    ends = {joint: chain for chain in skeleton.chains for joint in chain if joint in skeleton.face_joints}
    return tuple(chain[chain.index(joint) + 1 :] for joint, chain in ends.items())
