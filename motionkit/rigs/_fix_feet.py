"""Feet that stand stay where they are: locked on measured contacts by inverse kinematics of the legs (`two_bones`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, matrix_from_rotvec, rotation_between
from motionkit.metrics import CONTACT
from motionkit.motion.motion import END, Motion
from motionkit.rigs._contacts import find_feet, joint_contacts
from motionkit.rigs.roles import find_roles, is_below

BLEND = 0.1
"""Seconds over which a correction fades in before a foot stands and out after; shorter pauses do not end a stand."""

_SLOW = 0.3
"""m/s below which a foot certainly stands."""

_FAST = 2.0
"""A foot also stands below this times the median speed of a stand: feet that always slide are held too."""

_STRETCH = 0.997
"""Part of its length to which a leg is stretched at most, unless it was stretched further. Near the full length a
millimetre turns the knee by degrees."""

_FURTHEST = 0.3
"""Largest correction, as part of the length of the leg; a foot that glides further is not held."""

_ROUNDS = 50
"""Steps of the search for a place that a leg reaches in all frames of a stand."""

_NEAR = 1e-4
"""Metres by which it may be missed."""

_STRAIGHT = 0.02
"""Weight of the usual hinge axis; it dominates if the sine of the knee's bend is smaller (a straight knee has none)."""

_NEVER_BENT = 1e-3
"""Mean sine of a knee's bend below which a clip does not show how it bends."""

_LEG = ("hip", "knee", "ankle")
_LEAST = 1e-12


class FixedFeet(NamedTuple):
    """A motion with feet that stand still."""

    motion: Motion  # The motion
    before: float  # Mean m/s by which standing feet slid along the ground; NaN if none stands
    after: float  # The same now, because of legs that are too short
    stands: int  # Number of stands of a foot, from touching the ground to lifting
    left: int  # How many of them were left as they were, because the foot glides further than a leg reaches
    short: float  # Share of the standing time of the others in which a leg was too short to reach the place


@dataclass(frozen=True)
class Leg:
    """Joints of a leg; `foot` are the joints of the foot that can stand, the ankle first."""

    hip: int
    knee: int
    ankle: int
    foot: tuple[int, ...]

    def bones(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors ``[T, 3]`` from hip to knee and from knee to ankle."""
        hip, knee, ankle = (positions[:, joint] for joint in (self.hip, self.knee, self.ankle))
        return knee - hip, ankle - knee


def fix_feet(motion: Motion, *, fastest: float = math.inf) -> FixedFeet:
    """Return a motion whose feet stay in their places while they stand.

    Stands are found by height and speed (`soft_contacts`). The toe is held if it stands, else the ankle. The place is
    the mean over the stand, or the nearest that the leg reaches. The leg follows by `two_bones`: the knee keeps its
    bending direction, bones keep their lengths, the foot and the toes keep their rotation in the world, and nothing
    else of the body moves. If the leg is too short, the foot goes as far as it can on the line to its place, so that it
    stays on the ground. A correction fades in and out within `BLEND` seconds before and after; other frames are
    unchanged.

    Args:
        motion: Any rig with hips, knees and ankles that are found by their names, in metres, Y up.
        fastest: Largest mean speed of a stand in m/s; a faster foot swings low and is not held.

    Example:
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.rigs import solve
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=60)
        >>> joints = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> fixed = fix_feet(solve(joints).motion)
        >>> fixed.after < 0.2 * fixed.before
        True
    """
    legs = find_legs(motion)
    if not bool(motion.rotations.isfinite().all() and motion.translations.isfinite().all()):
        raise MotionkitError("the motion has values that are not finite.", fix="motionkit convert --fix drops them.")
    positions, fps = motion.positions(), motion.fps
    if motion.frames < 2:
        return FixedFeet(motion, float("nan"), float("nan"), 0, 0, 0.0)
    scores = joint_contacts(positions, fps, (legs[0].foot, legs[1].foot))
    world = accumulate_rotations(motion.rotations, motion.parents)
    across = positions[:, legs[0].hip] - positions[:, legs[1].hip]
    rotations = motion.rotations.clone()
    feet, short, held_frames = [], 0, 0
    for side, leg in enumerate(legs):
        foot = _hold(positions, leg, scores[:, side], fps, fastest)
        turned, part = shifted_leg(motion, world, positions, leg, foot.shift, across)
        for joint, local in turned.items():
            rotations[:, joint] = local
        feet.append(foot)
        short, held_frames = short + int((part[foot.held] < 1).sum()), held_frames + int(foot.held.sum())
    fixed = replace(motion, rotations=rotations)
    before, after = (_slide(values, feet, fps) for values in (positions, fixed.positions()))
    stands, left = sum(foot.stands for foot in feet), sum(foot.left for foot in feet)
    return FixedFeet(fixed, before, after, stands, left, short / max(1, held_frames))


def standing_slide(reference: Motion, motions: Sequence[Motion], *, fastest: float = math.inf) -> list[float]:
    """Return the mean speed in m/s by which feet slide along the ground while they stand.

    Args:
        reference: Motion whose stands are taken.
        motions: Motions of the same rig and length that are measured.
        fastest: See `fix_feet`.

    Returns:
        One number for each; NaN if no foot stands.
    """
    legs, places = find_legs(reference), reference.positions()
    scores = joint_contacts(places, reference.fps, (legs[0].foot, legs[1].foot))
    feet = [_hold(places, leg, scores[:, side], reference.fps, fastest) for side, leg in enumerate(legs)]
    return [_slide(motion.positions(), feet, reference.fps) for motion in motions]


def find_legs(motion: Motion) -> tuple[Leg, Leg]:
    """Return the left and the right leg, found by names; refuse a rig without them."""
    roles = find_roles(motion.names, motion.parents)
    required = [f"{side} {joint}" for side in ("left", "right") for joint in _LEG]
    if missing := [role for role in required if role not in roles]:
        raise MotionkitError(
            f"feet cannot be fixed: the rig has no joint that looks like: {', '.join(missing)}.",
            why=f"its joints are {', '.join(name for name in motion.names if not name.endswith(END))}.",
            fix="name them in a table: convert --check IN --write-joint-map FILE, then convert --joint-map FILE.",
        )
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None, "there are ankles"
    legs = []
    for side, foot in zip(("left", "right"), feet, strict=True):
        hip, knee, ankle = (roles[f"{side} {joint}"] for joint in _LEG)
        for lower, upper in ((knee, hip), (ankle, knee)):
            if not is_below(lower, upper, motion.parents):
                names = motion.names[lower], motion.names[upper]
                raise MotionkitError(f"feet cannot be fixed: {names[0]} does not hang on {names[1]}.")
        legs.append(Leg(hip, knee, ankle, foot))
    return legs[0], legs[1]


def shifted_leg(
    motion: Motion, world: Tensor, positions: Tensor, leg: Leg, shift: Tensor, across: Tensor
) -> tuple[dict[int, Tensor], Tensor]:
    """Return the rotations ``[T, 3, 3]`` of hip, knee and ankle that move an ankle, and the part of the shift ``[T]``.

    Args:
        motion: The motion.
        world: ``[T, J, 3, 3]`` its rotations in the world.
        positions: ``[T, J, 3]``.
        leg: The leg.
        shift: ``[T, 3]`` that the ankle should move, as far as the leg reaches; frames with 0 stay as they are.
        across: ``[T, 3]`` from the right hip to the left one.
    """
    target, part = _reachable(positions, leg, shift)
    hinge = _hinge(world[:, leg.hip], positions, leg, across)
    turned = _turned(motion, world, positions, leg, target, hinge)
    moved = (shift != 0).any(-1)[:, None, None]
    return {joint: torch.where(moved, local, motion.rotations[:, joint]) for joint, local in turned.items()}, part


@dataclass(frozen=True)
class _Hold:
    """How a foot is held."""

    shift: Tensor  # ``[T, 3]`` metres by which the foot moves; 0 away from stands
    held: Tensor  # ``[T]`` bool: frames in which it is held
    steps: Tensor  # ``[T - 1]`` bool: steps from frame to frame in which it stands, held or not
    joint: Tensor  # ``[T - 1]`` the joint that stands in each
    stands: int  # Number of stands
    left: int  # How many of them are left as they are


def _hold(positions: Tensor, leg: Leg, scores: Tensor, fps: float, fastest: float) -> _Hold:
    """Find the stands of a foot and the corrections that hold it; `scores` ``[T, P]`` of its joints."""
    frames = len(positions)
    stands = scores > CONTACT  # [T, P]: ankle, toe
    blend = max(1, round(BLEND * fps))
    spans = _spans(stands.any(-1), blend)
    joint = _standing_joint(stands, leg)
    # The standing joint's steps, reversed: their sum over a stand is the correction that keeps it in place.
    back = -positions.diff(dim=0).gather(1, joint[:, None, None].expand(-1, 1, 3))[:, 0]
    upper, lower = leg.bones(positions)
    furthest = _FURTHEST * float((upper.norm(dim=-1) + lower.norm(dim=-1)).mean())
    limit = _limit(upper, lower)
    steps, is_held = torch.zeros(frames - 1, dtype=torch.bool), torch.zeros(frames, dtype=torch.bool)
    shift = torch.zeros_like(positions[:, 0])
    kept: list[tuple[int, int]] = []
    speeds = fps * back.norm(dim=-1)
    for start, stop in (_still(speeds, *span) for span in spans):
        if stop - start > 1 and float(speeds[start : stop - 1].mean()) > fastest:
            continue
        steps[start : stop - 1] = True
        away = torch.cat([back.new_zeros(1, 3), back[start : stop - 1].cumsum(0)])
        away = away - away.mean(0)
        if float(away.norm(dim=-1).max()) <= furthest:
            shift[start:stop] = _placed(away, (upper + lower)[start:stop], limit[start:stop])
            is_held[start:stop] = True
            kept.append((start, stop))
    _blend(shift, kept, blend)
    return _Hold(shift, is_held, steps, joint, len(spans), len(spans) - len(kept))


def _still(speeds: Tensor, start: int, stop: int) -> tuple[int, int]:
    """Return a stand without the frames at its ends in which the foot still comes down or already lifts.

    Contacts are measured up to 1 m/s; holding a foot that fast would straighten the knee. `speeds` are ``[T - 1]`` m/s
    of the standing joint.
    """
    inside = speeds[start : stop - 1]
    slow = (inside <= (_FAST * inside.median()).clamp_min(_SLOW)).nonzero() if len(inside) else inside
    return (start + int(slow[0]), start + int(slow[-1]) + 2) if len(slow) else (start, stop)


def _placed(shift: Tensor, away: Tensor, limit: Tensor) -> Tensor:
    """Return corrections ``[T, 3]`` to a place on the ground that the leg reaches in all frames, if there is one.

    The reachable places of a frame are a disc; the place moves towards the disc that it misses most, by ever smaller
    steps, so that it ends between discs that do not meet (subgradient method on the largest miss).

    Args:
        shift: ``[T, 3]`` corrections to the mean place.
        away: ``[T, 3]`` from hip to ankle.
        limit: ``[T]`` how far the ankle may be from the hip.
    """
    ankle = away + shift
    radius = (limit.square() - ankle[:, 1].square()).clamp_min(0.0).sqrt()
    change = torch.zeros_like(ankle[0, ::2])
    for step in range(_ROUNDS):
        flat = ankle[:, ::2] + change
        distance = flat.norm(dim=-1)
        miss, worst = (distance - radius).max(0)
        if float(miss) <= _NEAR:
            break
        change = change - flat[worst] / distance[worst] * miss / (1 + step / 10)
    moved = shift.clone()
    moved[:, ::2] += change
    return moved


def _limit(upper: Tensor, lower: Tensor) -> Tensor:
    """Return how far ``[T]`` an ankle may be from its hip, for bones ``[T, 3]``."""
    return torch.maximum((upper + lower).norm(dim=-1), _STRETCH * (upper.norm(dim=-1) + lower.norm(dim=-1)))


def _spans(stands: Tensor, pause: int) -> list[tuple[int, int]]:
    """Return first and last frame + 1 of each stand ``[T]``; pauses shorter than `pause` frames do not end it."""
    spans: list[tuple[int, int]] = []
    for frame in stands.nonzero()[:, 0].tolist():
        if spans and frame - spans[-1][1] < pause:
            spans[-1] = (spans[-1][0], frame + 1)
        else:
            spans.append((frame, frame + 1))
    return spans


def _standing_joint(stands: Tensor, leg: Leg) -> Tensor:
    """Return the joint that stands in each step ``[T - 1]``: the last of the foot that stands before and after."""
    both = stands[1:] & stands[:-1]
    joint, last = [], leg.foot[-1]
    for step, before in zip(both.tolist(), stands[:-1].tolist(), strict=True):
        # A step that no joint stands through belongs to the joint that stood before it.
        for on_joints in (step, before):
            if any(on_joints):
                last = [member for member, on in zip(leg.foot, on_joints, strict=True) if on][-1]
                break
        joint.append(last)
    return torch.tensor(joint, dtype=torch.long)


def _blend(shift: Tensor, spans: list[tuple[int, int]], frames: int) -> None:
    """Fade corrections in before a stand and out after it, within `frames`; two that meet are blended."""
    total = len(shift)
    for place, (start, stop) in enumerate(spans):
        before = start - (spans[place - 1][1] if place else -frames)
        after = (spans[place + 1][0] if place + 1 < len(spans) else total + frames) - stop
        for sign, edge, room in ((-1, start, before), (1, stop - 1, after)):
            span = min(frames, room + 1)
            for step in range(1, span):
                at = edge + sign * step
                if 0 <= at < total:
                    part = 1 - step / span
                    shift[at] += part * part * (3 - 2 * part) * shift[edge]


def _reachable(positions: Tensor, leg: Leg, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ankle's new place ``[T, 3]``, along its shift as far as the leg reaches, and that part ``[T]``."""
    upper, lower = leg.bones(positions)
    away = upper + lower
    limit = _limit(upper, lower)
    # |away + part shift| = limit
    a, b, c = shift.square().sum(-1), (away * shift).sum(-1), away.square().sum(-1) - limit.square()
    root = (b.square() - a * c).clamp_min(0.0).sqrt()
    part = torch.where(a > 0, (root - b) / a.clamp_min(1e-30), torch.ones_like(a)).clamp(0.0, 1.0)
    return positions[:, leg.ankle] + part[:, None] * shift, part


def _turned(
    motion: Motion, world: Tensor, positions: Tensor, leg: Leg, target: Tensor, hinge: Tensor
) -> dict[int, Tensor]:
    """Return the rotations ``[T, 3, 3]`` of hip, knee and ankle that bring the ankle to its target."""
    hip, knee, ankle = (positions[:, joint] for joint in (leg.hip, leg.knee, leg.ankle))
    thigh, shank = two_bones(hip, knee, ankle, target, hinge)
    above = motion.parents[leg.hip]
    base = world[:, above] if above >= 0 else torch.eye(3).to(world).expand_as(thigh)
    return {
        leg.hip: base.mT @ thigh @ world[:, leg.hip],
        leg.knee: (thigh @ world[:, motion.parents[leg.knee]]).mT @ shank @ world[:, leg.knee],
        leg.ankle: (shank @ world[:, motion.parents[leg.ankle]]).mT @ world[:, leg.ankle],
    }


def _hinge(thigh: Tensor, positions: Tensor, leg: Leg, across: Tensor) -> Tensor:
    """Return the axis ``[T, 3]`` about which the knee bends; if it is straight, the usual one of the clip.

    Args:
        thigh: ``[T, 3, 3]`` rotations of the hip joint in the world.
        positions: ``[T, J, 3]``.
        leg: The leg.
        across: ``[T, 3]`` from the right hip to the left one, for a leg that never bends.
    """
    upper, lower = (torch.nn.functional.normalize(bone, dim=-1) for bone in leg.bones(positions))
    bend = torch.linalg.cross(upper, lower, dim=-1)
    usual = (thigh.mT @ bend[..., None]).mean(0)  # in the frame of the thigh
    if float(usual.norm()) < _NEVER_BENT:
        usual = (thigh.mT @ across[..., None]).mean(0)
    axis = (thigh @ torch.nn.functional.normalize(usual, dim=0))[..., 0]
    # A knee that is slightly hyperextended bends the right way when it bends more.
    side = torch.where((bend * axis).sum(-1, keepdim=True) < 0, -1.0, 1.0)
    hinge: Tensor = side * bend + _STRAIGHT * axis
    return hinge


def _slide(positions: Tensor, feet: list[_Hold], fps: float) -> float:
    """Return the mean m/s along the ground of joints that stand; NaN if none does."""
    speed = fps * positions[..., ::2].diff(dim=0).norm(dim=-1)  # [T - 1, J]
    standing = [speed.gather(1, stand.joint[:, None])[stand.steps, 0] for stand in feet]
    return float(torch.cat(standing).mean())


def two_bones(start: Tensor, middle: Tensor, end: Tensor, target: Tensor, hinge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rotations of two bones in the world that bring the end of the second one to a target.

    First the second bone turns about the hinge, until the end is as far from the start as the target is (law of
    cosines); then the limb turns about the start by the smallest rotation towards the target, so that the middle joint
    keeps its bending direction. A limb that bends about the hinge does not turn if its end is at the target. A target
    out of reach, too far or too near, is approached as closely as possible.

    Args:
        start: ``[..., 3]`` the joint that stays: a hip.
        middle: ``[..., 3]`` the joint between the bones: a knee.
        end: ``[..., 3]`` the joint that is brought to the target: an ankle.
        target: ``[..., 3]``.
        hinge: ``[..., 3]`` axis of any length about which the second bone turns when the middle joint bends more. It
            need not be perpendicular to the bones.

    Returns:
        ``[..., 3, 3]`` turns of the first and of the second bone:
        ``start + first (middle - start) + second (end - middle)`` is the target.

    Example:
        >>> place = torch.tensor([[0.0, 2, 0], [0.0, 1, 0], [0.0, 0, 0]], dtype=torch.float64)  # a straight leg
        >>> hinge = torch.tensor([1.0, 0, 0], dtype=torch.float64)
        >>> first, second = two_bones(*place, torch.tensor([0.0, 1, 0], dtype=torch.float64), hinge)
        >>> (place[0] + first @ (place[1] - place[0])).round(decimals=3).tolist()  # the knee, ahead
        [0.0, 1.5, 0.866]
    """
    upper, lower = middle - start, end - middle
    length = upper.norm(dim=-1, keepdim=True).clamp_min(_LEAST)
    along = upper / length
    hinge = hinge - (hinge * along).sum(-1, keepdim=True) * along
    axis = hinge / hinge.norm(dim=-1, keepdim=True).clamp_min(_LEAST)
    # upper . (lower turned by phi) = fixed + cosine cos(phi) + sine sin(phi), and it must be `product`.
    fixed = (lower * axis).sum(-1) * (upper * axis).sum(-1)
    cosine = (upper * lower).sum(-1) - fixed
    sine = (upper * torch.linalg.cross(axis, lower, dim=-1)).sum(-1)
    distance = (target - start).square().sum(-1)
    product = (distance - upper.square().sum(-1) - lower.square().sum(-1)) / 2
    most = torch.hypot(cosine, sine).clamp_min(_LEAST)
    bend = torch.acos(((product - fixed) / most).clamp(-1.0, 1.0))
    angle = torch.atan2(sine, cosine) + bend
    second = matrix_from_rotvec(axis * angle[..., None])
    reached = upper + (second @ lower[..., None])[..., 0]
    first = rotation_between(reached, target - start)
    return first, first @ second
