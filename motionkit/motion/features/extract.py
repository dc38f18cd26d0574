"""From joint positions to HumanML3D features (Guo et al., CVPR 2022), batched and in any float precision.

`joints_to_features` computes them a few clips at once (`feature_rows`). There, every quantity is kept as separate
components with the frames last (``[J, 3, clips, frames]``), so that each step runs over long contiguous rows; bones are
turned by unit quaternions written out, never by small matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from motionkit.errors import MotionkitError
from motionkit.geometry import ancestors, bones_from_positions, heading, positions_from_bones, rotate_yaw
from motionkit.motion.skeleton import Skeleton

_PASS = 1400
"""Frames computed at once, so that intermediate results stay in a core's cache."""


def joints_to_features(
    joints: Tensor,
    skeleton: Skeleton,
    lengths: Tensor | None = None,
    *,
    target: bool = True,
    bones: Tensor | None = None,
    align: bool = True,
    peer_turns: bool = False,
) -> Tensor:
    """Compute features from joint positions, as HumanML3D's ``process_file`` does.

    Give float64 joints where the last digits matter; the result has the dtype of `joints`.

    Args:
        joints: ``[..., T, J, 3]`` metres, Y up; one frame more than the features will have.
        skeleton: Body whose format the features have.
        lengths: ``[...]`` int64 joint frames of each sample; padding may hold anything. The result then has
            ``lengths - 1`` valid frames and zeros after them.
        target: First move the motion onto the skeleton's target bones (`retarget`).
        bones: ``[J]`` other target bone lengths in metres; a body that publishes none (KIT) needs them.
        align: First put it on the floor, at the origin, facing +Z (`canonicalise`).
        peer_turns: Reproduce HumanML3D where a heading passes half a turn from +Z: its arcsin of a quaternion
            component has the wrong sign in that frame, so that the recovered body is off by twice that frame's turn
            from there on. All other frames are the same either way.

    Returns:
        ``[..., T - 1, D]``.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> joints = torch.from_numpy(generate("walk", frames=41).joints)
        >>> joints_to_features(joints, HUMANML).shape
        torch.Size([40, 263])
    """
    if joints.ndim < 3 or joints.shape[-2:] != (skeleton.joints, 3) or joints.shape[-3] < 2:
        raise MotionkitError(
            f"joints have shape {list(joints.shape)}; expected [..., frames >= 2, {skeleton.joints}, 3] for the "
            f"{skeleton.name} body."
        )
    if lengths is not None:
        joints = _hold_last(joints, lengths)
    goal = target_bones(skeleton, bones).to(joints) if target else None
    clips = joints.reshape(-1, *joints.shape[-3:])
    frames = joints.shape[-3]
    step = max(_PASS // frames, 1) if joints.device.type == "cpu" else max(len(clips), 1)
    features = joints.new_empty(0)
    for start in range(0, len(clips), step):
        rows = feature_rows(clips[start : start + step], skeleton, goal, align=align, peer_turns=peer_turns)
        if len(rows) == len(clips):
            features = rows
        else:
            features = features if start else joints.new_empty(len(clips), frames - 1, skeleton.width)
            features[start : start + step] = rows
    features = features.reshape(*joints.shape[:-3], frames - 1, skeleton.width)
    if lengths is not None:
        valid = torch.arange(features.shape[-2], device=features.device) < (lengths - 1)[..., None]
        features = torch.where(valid[..., None], features, features.new_zeros(()))
    return features


def _hold_last(joints: Tensor, lengths: Tensor) -> Tensor:
    """Replace padding by the last valid frame: it moves nothing, and smoothing holds the ends anyway."""
    frames = torch.arange(joints.shape[-3], device=joints.device)
    index = torch.minimum(frames, (lengths - 1)[..., None])
    return torch.take_along_dim(joints, index[..., None, None], dim=-3)


# Putting a motion onto the target bones, onto the floor and in front of the viewer.


def retarget(joints: Tensor, skeleton: Skeleton, bones: Tensor | None = None) -> Tensor:
    """Give a motion the target bone lengths, keeping every bone's direction (HumanML3D's ``uniform_skeleton``).

    HumanML3D runs inverse kinematics to rotations and forward kinematics back with other bones; because each
    rotation is the smallest one that reaches the bone's direction, the outcome is that direction times the new length.
    The root path is scaled by the ratio of leg lengths in frame 0.

    Args:
        joints: ``[..., T, J, 3]`` metres.
        skeleton: Body with `target_offsets`.
        bones: ``[J]`` target bone lengths in metres; None takes the skeleton's own.

    Returns:
        ``[..., T, J, 3]``.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> child = torch.from_numpy(generate("walk", frames=40, scale=0.6).joints)
        >>> adult = retarget(child, HUMANML)
        >>> thigh = adult[:, HUMANML.index("right_knee")] - adult[:, HUMANML.index("right_hip")]
        >>> round(float(thigh[0].norm()), 4)
        0.3902
    """
    bones = target_bones(skeleton, bones).to(joints)
    source = bones_from_positions(joints, skeleton.parents)
    lengths = source.norm(dim=-1, keepdim=True)
    leg = list(skeleton.leg_joints)
    source_leg = lengths[..., :1, leg, 0].sum(dim=-1)
    check_legs(source_leg)
    scale = bones[leg].sum() / source_leg
    directions = source / lengths.clamp_min(torch.finfo(joints.dtype).tiny)
    moved = directions * bones[:, None]
    root = joints[..., :1, :] * scale[..., None, None]
    return positions_from_bones(torch.cat([root, moved[..., 1:, :]], dim=-2), skeleton.parents)


def target_bones(skeleton: Skeleton, bones: Tensor | None) -> Tensor:
    """Return ``[J]`` target bone lengths in metres: `bones`, or the skeleton's own."""
    if bones is None:
        if skeleton.target_offsets is None:
            raise MotionkitError(
                f"the {skeleton.name} body has no published target bones.",
                fix="pass bones (kit_bones() has some), or extract with target=False.",
            )
        return _own_bones(skeleton)
    if bones.shape != (skeleton.joints,):
        raise MotionkitError(f"bones have shape {list(bones.shape)}; the {skeleton.name} body has {skeleton.joints}.")
    return bones


@lru_cache(maxsize=4)
def _own_bones(skeleton: Skeleton) -> Tensor:
    bones: Tensor = torch.tensor(skeleton.target_offsets, dtype=torch.float64).norm(dim=-1)
    return bones


def check_legs(lengths: Tensor) -> None:
    """Refuse leg lengths that no scale can be taken from."""
    if not bool((lengths > 0).all()):
        raise MotionkitError("the legs have no length in the first frame.", why="the body's scale is taken from them.")


def canonicalise(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Put the lowest joint of the clip on y = 0, the first root at x = z = 0, the first frame facing +Z.

    Args:
        joints: ``[..., T, J, 3]``.
        skeleton: Their body, for hips and shoulders.

    Returns:
        ``[..., T, J, 3]``.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> placed = canonicalise(torch.from_numpy(generate("walk", frames=40).joints) + 3.0, HUMANML)
        >>> [round(float(value), 6) + 0.0 for value in placed[0, 0, [0, 2]]]
        [0.0, 0.0]
    """
    floor = joints[..., 1].amin(dim=(-1, -2))[..., None, None]
    first = joints[..., 0, :, :]
    shift = torch.stack([first[..., :1, 0][..., None], floor, first[..., :1, 2][..., None]], dim=-1)
    joints = joints - shift
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    across = first[..., right_hip, :] - first[..., left_hip, :]
    across = across + first[..., right_shoulder, :] - first[..., left_shoulder, :]
    forward = torch.stack([across[..., 2], torch.zeros_like(across[..., 0]), -across[..., 0]], dim=-1)
    return rotate_yaw(joints, -heading(forward)[..., None, None])


# The rows, and the smoothed heading that they are expressed in.

_SMOOTHING = 20.0
"""Standard deviation, in frames, of the Gaussian that smooths the forward direction."""


def feature_rows(joints: Tensor, skeleton: Skeleton, bones: Tensor | None, *, align: bool, peer_turns: bool) -> Tensor:
    """Return the features ``[N, T - 1, D]`` of clips ``[N, T, J, 3]`` in metres; see `joints_to_features`.

    Args:
        joints: ``[N, T, J, 3]`` metres.
        skeleton: Their body.
        bones: ``[J]`` target lengths in metres; None keeps the clips' own.
        align: Put the lowest joint on the floor and turn frame 0 to +Z.
        peer_turns: Keep HumanML3D's sign where a heading passes half a turn.
    """
    clips, frames = joints.shape[:2]
    body = _tables(skeleton, joints.dtype, joints.device)
    placed = joints.permute(2, 3, 0, 1).contiguous()  # [N, T, J, 3] -> [J, 3, N, T]
    if skeleton.unit != 1.0:
        placed = placed / skeleton.unit
    root, children = placed[0], placed[1:]  # [3, N, T] and [J - 1, 3, N, T]
    links = children - placed.index_select(0, body.parents)
    lengths = _squares(links).sqrt()
    directions = links / lengths.clamp_min(torch.finfo(joints.dtype).tiny)[:, None]
    if bones is None:
        offsets = children - root
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
    """Constants of a skeleton; lists of joints have no root."""

    parents: Tensor  # ``[J - 1]``
    tree: Tensor  # ``[J - 1, J - 1]``, row j marks j and what is above it
    feet: Tensor  # ``[4]``, counted with the root
    rest: Tensor  # ``[J - 1, 3, 1, 1]`` directions at rest


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


def _rate(step: Tensor) -> Tensor:
    """Return half of each turn, wrapped to -pi to pi."""
    return 0.5 * torch.atan2(step.sin(), step.cos())


def _peer_rate(angle: Tensor) -> Tensor:
    """Return the same from the turns since frame 0, with HumanML3D's sign where they pass half a turn."""
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


# The rotations of a row: each bone's smallest turn from rest, relative to the bone before it.

_SCALE = 2.0**0.25
"""Length of the quaternions below: products of two then have the length whose squares are rotation entries. A
quaternion (1 + cosine, ...) of a unit direction has the squared length 2 (1 + cosine) before it is scaled."""

_TINY = 1e-30

_FAR = 0.1
"""Value of 1 + cosine below which a bone counts as pointing against its rest direction."""


def local_turns(directions: Tensor, angle: Tensor, skeleton: Skeleton) -> Tensor:
    """Return 6D rotations, ``[J - 1, 6, F]``: the first two columns of each local rotation.

    The smallest turn from rest to a direction is the half-angle quaternion ``(1 + u.v, u x v)``. HumanML3D's root
    quaternion takes the world into the heading frame, and its chains start from that quaternion, not from its inverse;
    recovery from rotations undoes it the same way. Opposite directions have no smallest turn: half a turn about a
    perpendicular axis is taken there (HumanML3D's code divides by zero).

    Args:
        directions: ``[J - 1, 3, F]`` unit vectors from each joint's parent.
        angle: ``[F]`` turn from the world into the heading frame, radians.
        skeleton: The body.
    """
    body = _rotation_tables(skeleton, directions.dtype, directions.device)
    # Six rows: w, x, y, z and x, y again, so that cross products are products of shifted slices.
    turns = torch.baddbmm(body.bias, body.products, directions)
    if not turns[:, 0].amin().item() >= _FAR:
        turns = _opposite(turns, body.across)
    turns = turns * (turns[:, :1] * math.sqrt(2.0)).rsqrt()  # to length 2^(1/4), see _SCALE
    zero = torch.zeros_like(angle)
    cos, sin = _SCALE * torch.cos(0.5 * angle), _SCALE * torch.sin(0.5 * angle)
    heading = torch.stack([cos, zero, sin, zero, zero, sin])
    # A local rotation is conj(q_before) q_own: the turn of the bone before it in the chain, undone first.
    before = turns.index_select(0, body.before)
    before = before.index_copy(0, body.heads, heading.expand(len(body.heads), -1, -1))
    # Real part w0 w1 + v0.v1, vector part w0 v1 - w1 v0 - v0 x v1.
    w = (before[:, 0] * turns[:, 0]).addcmul(before[:, 1], turns[:, 1])
    w = w.addcmul(before[:, 2], turns[:, 2]).addcmul(before[:, 3], turns[:, 3])
    v = (before[:, :1] * turns[:, 1:4]).addcmul(turns[:, :1], before[:, 1:4], value=-1)
    v = v.addcmul(before[:, 2:5], turns[:, 3:6], value=-1).addcmul(before[:, 3:6], turns[:, 2:5])
    x, y, z = v.unbind(1)
    # The product has length sqrt(2): x x here is the 2 x x of the unit quaternion in the entries of a rotation.
    xx, yy, zz = (v * v).unbind(1)
    wx, wy, wz = (w[:, None] * v).unbind(1)
    xy, xz, yz, one_minus_zz = x * y, x * z, y * z, 1.0 - zz
    return torch.stack([one_minus_zz - yy, xy + wz, xz - wy, xy - wz, one_minus_zz - xx, yz + wx], dim=1)


def _opposite(turns: Tensor, across: Tensor) -> Tensor:
    """Recompute 1 + cosine where it is small, without its rounding; give opposite directions an axis."""
    w, axis = turns[:, :1], turns[:, 1:4]
    square = axis.square().sum(dim=1, keepdim=True)
    opposite = (w < _FAR) & (square.sqrt() <= 1e-7)
    # The clamp changes nothing that is taken: where a bone is as at rest, 2 - w is 0, and its gradient would be NaN.
    w = torch.where(w < _FAR, square / (2.0 - w.clamp(max=_FAR)), w).masked_fill(opposite, _TINY)
    axis = torch.where(opposite, across * math.sqrt(2.0 * _TINY), axis)
    return torch.cat([w, axis, axis[:, :2]], dim=1)


@dataclass(frozen=True)
class _RestTables:
    """Constants of a skeleton, one entry per joint without the root."""

    products: Tensor  # ``[J - 1, 6, 3]``, takes a direction v to (u.v, u x v) and the first two of u x v again
    bias: Tensor  # ``[J - 1, 6, 1]``, 1 in the first row
    across: Tensor  # ``[J - 1, 3, 1]``, an axis at right angles to u
    before: Tensor  # ``[J - 1]`` joint that a joint's turn is relative to; any for the heads
    heads: Tensor  # Joints whose turn is relative to the heading


@lru_cache(maxsize=8)
def _rotation_tables(skeleton: Skeleton, dtype: torch.dtype, device: torch.device) -> _RestTables:
    rest = torch.tensor(skeleton.raw_offsets, dtype=dtype, device=device)[1:]
    eye = torch.eye(3, dtype=dtype, device=device)
    cross = torch.linalg.cross(rest[:, None], eye.expand(len(rest), 3, 3), dim=-1).transpose(1, 2)
    bias = torch.zeros(len(rest), 6, 1, dtype=dtype, device=device)
    bias[:, 0] = 1.0
    across = torch.linalg.cross(rest, eye[rest.abs().argmin(dim=1)], dim=-1)
    before = torch.tensor([parent - 1 for parent in skeleton.rotation_parents[1:]], device=device)
    return _RestTables(
        torch.cat([rest[:, None], cross, cross[:, :2]], dim=1).contiguous(),
        bias,
        across[..., None],
        before.clamp_min(0),
        (before < 0).nonzero()[:, 0],
    )
