"""Feature rows of a few clips at once, and the smoothed heading that they are expressed in.

Every quantity is kept as separate components with the frames last (``[J, 3, clips, frames]``): each step then runs
over long contiguous rows, and bones are turned by unit quaternions written out, never by small matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.geometry._kinematics import ancestors
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._retarget import check_legs
from motionkit.motion.features._rotations import local_turns

_SMOOTHING = 20.0
"""Standard deviation, in frames, of the Gaussian that smooths the forward direction."""


def smooth_heading(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return the yaw ``[..., T]`` of the smoothed forward direction, which is up times the direction (x, y, z)."""
    inverse = (x * x + y * y + z * z).clamp_min(1e-24).rsqrt()
    kernel = _kernel(x.dtype, x.device)
    radius = kernel.shape[-1] // 2
    rows = torch.stack([z * inverse, -x * inverse]).reshape(-1, 1, x.shape[-1])
    padded = functional.pad(rows, (radius, radius), mode="replicate")
    ahead = functional.conv1d(padded, kernel).view(2, *x.shape)
    return torch.atan2(ahead[0], ahead[1])


@lru_cache(maxsize=8)
def _kernel(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a Gaussian cut at four standard deviations, ``[1, 1, taps]``."""
    radius = int(4.0 * _SMOOTHING + 0.5)
    offsets = torch.arange(-radius, radius + 1, dtype=dtype, device=device)
    kernel = torch.exp(-0.5 * (offsets / _SMOOTHING).square())
    return (kernel / kernel.sum())[None, None]


def feature_rows(joints: Tensor, skeleton: Skeleton, bones: Tensor | None, *, align: bool, peer_turns: bool) -> Tensor:
    """Return the features ``[N, T - 1, D]`` of clips ``[N, T, J, 3]`` in metres; see `joints_to_features`.

    Args:
        joints: The clips.
        skeleton: Their body.
        bones: ``[J]`` target lengths in metres, or None to keep the clips' own.
        align: Put the lowest joint on the floor and turn frame 0 to +Z.
        peer_turns: Keep HumanML3D's sign where a heading passes half a turn.

    Raises:
        MotionkitError: There are target lengths, and a clip's legs have none in frame 0.
    """
    clips, frames = joints.shape[:2]
    body = _tables(skeleton, joints.dtype, joints.device)
    placed = joints.permute(2, 3, 0, 1).contiguous()  # [N, T, J, 3] -> [J, 3, N, T]
    if skeleton.unit != 1.0:
        placed = placed / skeleton.unit
    root, others = placed[0], placed[1:]  # [3, N, T] and [J - 1, 3, N, T]
    links = others - placed.index_select(0, body.parents)
    lengths = _squares(links).sqrt()
    directions = links / lengths.clamp_min(torch.finfo(joints.dtype).tiny)[:, None]
    if bones is None:
        offsets = others - root
    else:
        stored = bones / skeleton.unit
        thigh, shin = skeleton.leg_joints
        old = lengths[thigh - 1, :, 0] + lengths[shin - 1, :, 0]
        check_legs(old)
        root = root * ((stored[thigh] + stored[shin]) / old)[:, None]
        # New bones along the old directions; a joint's offset from the root is the sum of the bones above it.
        moved = directions * stored[1:, None, None, None]
        offsets = (body.tree @ moved.flatten(1)).view_as(moved)
    first, heading = _headings(offsets, skeleton, align=align)
    # The turn from the file's axes into each frame's heading; aligned to frame 0 it starts at 0.
    turn = -torch.cat([first, heading[:, 1:]], dim=1)
    now, then = turn[:, :-1], turn[:, 1:]
    rate = _peer_rate(turn + first) if peer_turns else _rate(then - now)
    cos, sin = now.cos(), now.sin()
    # Row t holds frame t and the step to frame t + 1, so T frames make T - 1 rows.
    before, after = offsets[..., :-1], offsets[..., 1:]
    path = root[..., 1:] - root[..., :-1]
    height = root[1]
    if align:
        height = height - _lowest(offsets[:, 1] + height, height)
    height = height[:, :-1]
    x, y, z = before.unbind(1)
    x, z = _turned(x, z, cos, sin)
    places = torch.stack([x, y + height, z], dim=1)
    moves = torch.cat([path[None], after - before + path])
    # moves = displacement of every joint to the next frame, the root's first: [J, 3, N, T - 1]
    contacts = _squares(moves.index_select(0, body.feet)) < skeleton.contact_threshold
    x, y, z = moves.unbind(1)
    x, z = _turned(x, z, cos, sin)
    velocities = torch.stack([x, y, z], dim=1)
    velocity_x, velocity_z = _turned(path[0], path[2], then.cos(), then.sin())
    x, y, z = directions[..., :-1].unbind(1)
    x, z = _turned(x, z, first.cos(), -first.sin())
    directions = torch.stack([x, y, z], dim=1)
    if not lengths.amin().item() > 0.0:
        # A bone without length has no direction: it rests.
        directions = torch.where((lengths[..., :-1] == 0.0)[:, None], body.rest, directions)
    # Clips and frames flatten into one axis F = N (T - 1) for the rotations.
    rotations = local_turns(directions.flatten(2), (now + first).view(-1), skeleton)
    # The seven blocks of a row (`FeatureLayout`), [features, F] each.
    rows = [
        torch.stack([rate, velocity_x, velocity_z, height]).flatten(1),
        places.flatten(2).flatten(0, 1),
        rotations.flatten(0, 1),
        velocities.flatten(2).flatten(0, 1),
        contacts.flatten(1).to(joints.dtype),
    ]
    return torch.cat(rows).t().reshape(clips, frames - 1, skeleton.width)


@dataclass(frozen=True)
class _BodyTables:
    """What the steps need of a skeleton, without the root where joints are listed.

    Attributes:
        parents: ``[J - 1]``.
        tree: ``[J - 1, J - 1]``, row j marks j and what is above it.
        feet: ``[4]``, counted with the root.
        rest: ``[J - 1, 3, 1, 1]`` directions at rest.
    """

    parents: Tensor
    tree: Tensor
    feet: Tensor
    rest: Tensor


@lru_cache(maxsize=8)
def _tables(skeleton: Skeleton, dtype: torch.dtype, device: torch.device) -> _BodyTables:
    return _BodyTables(
        torch.tensor(skeleton.parents[1:], device=device),
        ancestors(skeleton.parents)[1:, 1:].to(device, dtype).contiguous(),
        torch.tensor(skeleton.feet, device=device),
        torch.tensor(skeleton.raw_offsets[1:], dtype=dtype, device=device)[..., None, None],
    )


def _headings(offsets: Tensor, skeleton: Skeleton, *, align: bool) -> tuple[Tensor, Tensor]:
    """Return the heading of frame 0 ``[N, 1]``, zero when clips stay as they lie, and the smoothed one ``[N, T]``."""
    right_hip, left_hip, right_shoulder, left_shoulder = (joint - 1 for joint in skeleton.face_joints)
    hips = offsets[left_hip] - offsets[right_hip]
    shoulders = offsets[right_shoulder] - offsets[left_shoulder]
    # HumanML3D turns frame 0 by hips plus shoulders, and takes the frames' heading from hips minus shoulders (it swaps
    # the hips there). Every public feature contains this.
    x, _, z = (shoulders[..., :1] - hips[..., :1]).unbind(0)
    first = torch.atan2(z, -x) if align else torch.zeros_like(x)
    return first, smooth_heading(*(hips + shoulders).unbind(0))


def _rate(step: Tensor) -> Tensor:
    """Return half of each turn, the turn brought into half a circle to either side."""
    return 0.5 * torch.atan2(step.sin(), step.cos())


def _peer_rate(angle: Tensor) -> Tensor:
    """Return the same from the turns since frame 0, with HumanML3D's sign where they pass half a circle."""
    half = 0.5 * torch.atan2(angle.sin(), angle.cos())
    return torch.asin((half[:, 1:] - half[:, :-1]).sin())


def _lowest(heights: Tensor, root: Tensor) -> Tensor:
    """Return the height of the lowest joint of each clip, ``[N, 1]``."""
    return torch.minimum(heights.amin(dim=-1).amin(dim=0), root.amin(dim=-1))[:, None]


def _squares(vectors: Tensor) -> Tensor:
    """Return the squared lengths of ``[J, 3, ...]`` vectors, ``[J, ...]``."""
    x, y, z = vectors.unbind(1)
    return torch.addcmul(torch.addcmul(x * x, y, y), z, z)


def _turned(x: Tensor, z: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and z after a turn about +Y; +Z turns towards +X."""
    return torch.addcmul(x * cos, z, sin), torch.addcmul(z * cos, x, sin, value=-1)
