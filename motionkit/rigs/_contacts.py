"""Feet of a motion: soft contacts from height and speed, a soft gait for each frame, and the phase of each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rigs.roles import find_roles, toe_of

Feet = tuple[tuple[int, ...], tuple[int, ...]]
"""Joints of the left foot and of the right one, in the same order."""

GAITS = ("idle", "walk", "run", "jump")
"""Gaits, in the order of every array of them."""


def find_feet(names: Sequence[str], parents: Sequence[int]) -> Feet | None:
    """Find ankles and toes by their names.

    Args:
        names: Joint names.
        parents: Parent of each joint; if no toe is named, the first joint below the ankle is taken for it.

    Returns:
        (ankle, toe) of the left foot and of the right one, without toes if a foot has none; None if an ankle is not
        found.
    """
    roles = find_roles(names, parents)
    feet = []
    for side in ("left", "right"):
        ankle = roles.get(f"{side} ankle")
        if ankle is None:
            return None
        feet.append([ankle, toe_of(roles, parents, side)])
    if min(feet[0] + feet[1]) < 0:
        feet = [foot[:1] for foot in feet]
    return tuple(feet[0]), tuple(feet[1])


@dataclass(frozen=True)
class ContactSpec:
    """Numbers of the score, named and measured as in ``meta.foot_evidence.soft_score_spec`` of exported JSON."""

    dist0_cm: float = 0.5  # Distance to the ground at which its part of the score is one half
    alpha_dist: float = 2.0  # Steepness of that part, per cm
    vz0_cmps: float = 40.0  # The same for the vertical speed, cm/s
    alpha_vz: float = 0.5  # Steepness, per cm/s
    vxy0_cmps: float = 96.2  # The same for the horizontal speed, cm/s
    alpha_vxy: float = 0.2  # Steepness, per cm/s


PLAIN = ContactSpec()
"""The exporter's numbers before it adapts the speeds to a clip."""

_AT_ONCE = 4_000_000
"""Heights per call of `nanquantile`; torch refuses more than 16 million."""

_UNEVEN = 0.03
"""Metres by which the height of a standing foot varies in captured motion."""

_DRIFT = 0.06
"""Metres by which captured ground rises and falls along a clip; a still foot above that is in the air."""

_NEVER_DOWN = 0.05
"""A foot that stays this many metres above the standing level of the other one never comes down."""


def contact_score(distance: Tensor, vertical: Tensor, horizontal: Tensor, spec: ContactSpec = PLAIN) -> Tensor:
    """Return the soft contact of a point: the geometric mean of three logistic functions.

    The cube root of ``s(a_d (d0 - d)) s(a_z (z0 - |v_z|)) s(a_xy (xy0 - v_xy))`` in cm and cm/s. The formula is not
    published: it was fitted to exported clips, whose scores it reproduces within 1e-4. A point at rest on the ground
    has 0.90, not 1, because `dist0_cm` is small.

    Args:
        distance: Metres above the ground, any shape.
        vertical: Vertical speed, m/s, of either sign.
        horizontal: Horizontal speed, m/s.
        spec: The numbers of the formula.

    Returns:
        Scores in (0, 1).
    """
    total = torch.nn.functional.logsigmoid(spec.alpha_dist * (spec.dist0_cm - 100.0 * distance))
    total = total + torch.nn.functional.logsigmoid(spec.alpha_vz * (spec.vz0_cmps - 100.0 * vertical.abs()))
    total = total + torch.nn.functional.logsigmoid(spec.alpha_vxy * (spec.vxy0_cmps - 100.0 * horizontal))
    return (total / 3.0).exp()


def soft_contacts(positions: Tensor, fps: float, feet: Feet, *, spec: ContactSpec = PLAIN) -> Tensor:
    """Score how much each foot stands on the ground.

    Each joint of a foot is scored by `contact_score`; a foot has the score of its best joint, so that heel and toes
    can both stand. The ground height of a joint is measured over the second before and after each frame, since the
    ground of captured motion is not level: of the frames in which the joint hardly moves, those within 3 cm of the
    lowest tenth are taken, and of their heights the 80th percentile. If that is more than 6 cm above the value for the
    whole clip, the latter is used. Each joint has its own ground, since captured bodies are lopsided by a centimetre
    or two; one that stays 5 cm above that of the opposite foot, because it never comes down, uses the latter's. Stairs
    count as air.

    Args:
        positions: ``[T, J, 3]`` metres, Y up, any floor height.
        fps: Frames per second, any.
        feet: Joints of the left foot and of the right one, in the same order (`find_feet`).
        spec: The numbers of the score.

    Returns:
        ``[T, 2]``, left and right, each in [0, 1]; the dtype of `positions`.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=80)
        >>> feet = find_feet(HUMANML.joint_names, HUMANML.parents)
        >>> contacts = soft_contacts(torch.from_numpy(walk.joints), walk.fps, feet)
        >>> contacts.shape, bool((contacts[20:60] > 0.5).any(dim=1).all())
        (torch.Size([80, 2]), True)
    """
    return joint_contacts(positions, fps, feet, spec=spec).amax(dim=-1)


def joint_contacts(positions: Tensor, fps: float, feet: Feet, *, spec: ContactSpec = PLAIN) -> Tensor:
    """Score how much each joint of the feet stands on the ground; `soft_contacts` is the best of a foot.

    Args:
        positions: As in `soft_contacts`.
        fps: The same.
        feet: P joints of the left foot and of the right one, in the same order.
        spec: The same.

    Returns:
        ``[T, 2, P]``, each in [0, 1].
    """
    left, right = feet
    if len(left) != len(right) or not left:
        raise MotionkitError(
            f"the feet have {len(left)} and {len(right)} joints; the same number is needed, 1 or more."
        )
    if fps <= 0:
        raise MotionkitError(f"frames per second are {fps}; they are more than 0.")
    points = positions[:, [*left, *right]]  # [T, 2 P, 3]: the left foot's joints, then the right one's
    velocity = _velocity(points, fps)
    vertical, horizontal = velocity[..., 1], velocity[..., ::2].norm(dim=-1)
    heights = points[..., 1]
    ground = _ground(heights, velocity.norm(dim=-1), len(left), fps, spec.vxy0_cmps / 400.0)
    scores = contact_score((heights - ground).clamp_min(0.0), vertical, horizontal, spec)
    by_foot: Tensor = scores.unflatten(-1, (2, len(left)))
    return by_foot


def _velocity(points: Tensor, fps: float) -> Tensor:
    """Return central differences ``[T, P, 3]`` in m/s over about 1/30 s, shorter where the clip ends."""
    frames = len(points)
    reach = max(1, round(fps / 60.0))
    place = torch.arange(frames)
    before, after = (place - reach).clamp_min(0), (place + reach).clamp_max(frames - 1)
    seconds = ((after - before) / fps).clamp_min(1e-9).to(points)
    return (points[after] - points[before]) / seconds[:, None, None]


def _ground(heights: Tensor, speeds: Tensor, joints: int, fps: float, slow: float) -> Tensor:
    """Return the ground height ``[T, 2 joints]`` of each column, the left foot's first."""
    still = speeds < slow
    columns = range(2 * joints)
    lowest = torch.stack([_standing(heights[:, k], still[:, k]) for k in columns])
    opposite = lowest.roll(joints)
    lowest = torch.where(lowest > opposite + _NEVER_DOWN, opposite, lowest)
    around = torch.stack([_standing_around(heights[:, k], still[:, k], fps) for k in columns], dim=-1)
    return torch.where(around < lowest + _DRIFT, around, lowest)


def _standing(height: Tensor, still: Tensor) -> Tensor:
    """Return a joint's ground height over the clip: the 80th percentile of its lowest heights while it is still."""
    if still.sum() >= 0.05 * len(height):  # else it always slides, or never comes down
        height = height[still]
    low = height[height <= torch.quantile(height, 0.1) + _UNEVEN]
    return torch.quantile(low, 0.8)


def _standing_around(height: Tensor, still: Tensor, fps: float) -> Tensor:
    """Return the same over the second before and after each frame; NaN if the joint is never still in it."""
    step, reach = max(1, round(fps / 10.0)), max(1, round(fps))
    edge = height.new_full((reach,), torch.nan)
    padded = torch.cat([edge, torch.where(still, height, torch.nan), edge])
    # Windows [T / step, 2 reach + 1] about every step-th frame; their level holds for the next step frames.
    levels = []
    for windows in padded.unfold(0, 2 * reach + 1, step).split(max(1, _AT_ONCE // (2 * reach + 1))):
        low = windows <= windows.nanquantile(0.1, dim=-1, keepdim=True) + _UNEVEN
        levels.append(torch.where(low, windows, torch.nan).nanquantile(0.8, dim=-1))
    return torch.cat(levels).repeat_interleave(step)[: len(height)]


_GRAVITY = 9.81
_MOVING, _RUNNING = 0.1, math.sqrt(0.5)
"""Speeds as shares of sqrt(gravity x leg). People break into a run at half the Froude number 1 (Alexander 1989)."""

_SOFT = 0.1
"""Width of a change from one gait to the next, as a share of its speed."""

_WINDOW = 0.5
"""Seconds that the speed is averaged over."""

_FLIGHT = 0.25
"""Shortest time without a foot on the ground, in seconds, that is a jump; a running step is shorter."""

_AIR = 0.1
"""Width of the sigmoid for a jump, in units of the air score."""


def leg_length(names: Sequence[str], parents: Sequence[int], offsets: Tensor) -> float:
    """Return the length of the legs in metres, from the root to the ankles; 0 if a skeleton has no known feet.

    Args:
        names: Joint names.
        parents: Parent of each joint, -1 for the root.
        offsets: ``[J, 3]`` metres from the parent.
    """
    feet = find_feet(names, parents)
    if feet is None:
        return 0.0
    lengths = []
    for ankle, *_ in feet:
        joint, total = ankle, 0.0
        while joint > 0:
            total += float(offsets[joint].norm())
            joint = parents[joint]
        lengths.append(total)
    return sum(lengths) / len(lengths)


def soft_gait(steps: Tensor, contacts: Tensor | None, fps: float, leg: float) -> Tensor:
    """Return soft weights of the gaits for each frame.

    With velocity v over the ground, averaged over half a second as a vector (swaying in place is not a walk), and
    u = |v| / sqrt(9.81 leg): moving m = sigmoid((u - 0.1) / 0.01), running r = sigmoid((u - 0.707) / 0.0707); for a leg
    of 0.9 m the thresholds are 0.3 and 2.1 m/s. Air a = (1 - left) (1 - right), without runs shorter than a quarter of
    a second (running steps), and jump j = sigmoid((a - 0.5) / 0.1). Then idle (1 - j) (1 - m), walk (1 - j) m (1 - r),
    run (1 - j) m r, jump j. Windows are centred, so later frames count as well as earlier ones.

    Args:
        steps: ``[T, 3]`` of the root from the frame before, in its heading: metres to the left and ahead, radians.
        contacts: ``[T, 2]`` left and right foot; None if they are not known: then nothing is a jump.
        fps: Frames per second.
        leg: Length of the legs, metres.

    Returns:
        ``[T, 4]`` idle, walk, run, jump; rows sum to 1.

    Example:
        >>> steps = torch.tensor([[0.0, 1.2 / 30, 0.0]]).expand(60, 3)
        >>> soft_gait(steps, torch.ones(60, 2), 30.0, 0.9).mean(0).round(decimals=1).tolist()
        [0.0, 1.0, 0.0, 0.0]
    """
    if not leg > 0:
        raise MotionkitError("a gait needs the length of the legs.", why=f"it is {leg:g} m.")
    velocity = _averaged(steps[:, :2] * fps, round(_WINDOW * fps))
    pace = velocity.norm(dim=-1) / math.sqrt(_GRAVITY * leg)
    moving = ((pace - _MOVING) / (_SOFT * _MOVING)).sigmoid()
    running = ((pace - _RUNNING) / (_SOFT * _RUNNING)).sigmoid()
    jump = torch.zeros_like(pace)
    if contacts is not None and len(contacts):
        flown = _lasting((1 - contacts).prod(-1), max(1, math.ceil(_FLIGHT * fps)))
        jump = ((flown - 0.5) / _AIR).sigmoid()
    ground = 1 - jump
    return torch.stack(
        [ground * (1 - moving), ground * moving * (1 - running), ground * moving * running, jump], dim=-1
    )


def _averaged(values: Tensor, frames: int) -> Tensor:
    """Return the mean of ``[T, C]`` over about `frames` frames around each, fewer at the ends."""
    half = max(0, frames // 2)
    total = torch.cat([values.new_zeros(1, values.shape[1]), values.cumsum(0)])
    place = torch.arange(len(values), device=values.device)
    low, high = (place - half).clamp_min(0), (place + half + 1).clamp_max(len(values))
    return (total[high] - total[low]) / (high - low)[:, None]


def _lasting(values: Tensor, frames: int) -> Tensor:
    """Remove runs shorter than `frames` from ``[T]``: a morphological opening (minimum, then maximum filter)."""
    if len(values) < frames:
        return torch.zeros_like(values)
    lowest = values.unfold(0, frames, 1).amin(-1)
    edge = lowest.new_zeros(frames - 1)  # a maximum of values in 0 to 1 is not changed by zeros
    return torch.cat([edge, lowest, edge]).unfold(0, frames, 1).amax(-1)


_HIGHEST = 5.0
"""Highest frequency of a gait in Hz; faster changes are flicker of contacts."""


def soft_period(
    contacts: Tensor, *, method: Literal["edges", "hilbert"] = "edges", fps: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Return a phase per foot from soft contacts, 0 where the foot comes down.

    ``edges`` is the definition of the predictor's original: between two frames in which a foot's score rises above
    0.5 the phase goes from 0 to 2 pi; before the first such frame from -2 pi to 0, after the last from 0 to 2 pi at
    the end of the clip, and from 0 to 2 pi over the whole clip if there is none.

    ``hilbert`` is the phase of the analytic signal of (left - right) without its mean, plus a quarter turn; the right
    foot is half a turn behind. It needs no score above 0.5 and changes smoothly with the scores.

    Args:
        contacts: ``[T, 2]`` scores, left and right.
        method: Which of the two.
        fps: Frames per second, for ``hilbert`` to remove frequencies above 5 Hz; 0 keeps all.

    Returns:
        ``[T, 4]``: sin left, sin right, cos left, cos right; and ``[T, 2]`` confidence in [0, 1]. For ``edges`` it is
        1 between two contacts of the foot, 0.5 before the first and after the last, 0 without any; for ``hilbert``
        the amplitude of the analytic signal.

    Example:
        >>> contacts = torch.tensor([[0.0, 1], [1, 0], [0, 1], [1, 0]]).repeat_interleave(5, dim=0)
        >>> period, confidence = soft_period(contacts)
        >>> period.shape, confidence[:, 0].unique().tolist()
        (torch.Size([20, 4]), [0.5, 1.0])
    """
    if contacts.ndim != 2 or contacts.shape[1] != 2:
        raise MotionkitError(f"contacts have shape {list(contacts.shape)}; expected [frames, 2].")
    phase, confidence = _edges(contacts) if method == "edges" else _hilbert(contacts, fps)
    return torch.cat([phase.sin(), phase.cos()], dim=-1), confidence


def _edges(contacts: Tensor) -> tuple[Tensor, Tensor]:
    frames = len(contacts)
    high = contacts > 0.5
    place = torch.arange(frames, device=contacts.device)
    phases, confidences = [], []
    for foot in range(2):
        rises = (high[1:, foot] & ~high[:-1, foot]).nonzero()[:, 0] + 1
        bounds = torch.cat([rises.new_zeros(1), rises, rises.new_full((1,), frames)])
        section = torch.searchsorted(rises, place, right=True)
        start, stop = bounds[section], bounds[section + 1]
        turn = (place - start).to(contacts.dtype) / (stop - start).clamp_min(1)
        if len(rises):  # the part before the first contact counts up to it: the same place on the circle
            turn = turn - (section == 0).to(turn)
        outside = (section == 0) | (section == len(rises))
        phases.append(2.0 * math.pi * turn)
        confidences.append(torch.where(outside, 0.5 if len(rises) else 0.0, 1.0).to(contacts.dtype))
    return torch.stack(phases, dim=-1), torch.stack(confidences, dim=-1)


def _hilbert(contacts: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    frames = len(contacts)
    signal = contacts[:, 0] - contacts[:, 1]
    spectrum = torch.fft.fft(signal - signal.mean())
    # Analytic signal: drop negative frequencies, double positive ones; the Nyquist frequency of an even count stays.
    weight = torch.zeros_like(signal)
    weight[1 : (frames + 1) // 2] = 2.0
    if frames % 2 == 0 and frames:
        weight[frames // 2] = 1.0
    if fps > 0:
        weight = torch.where(torch.fft.fftfreq(frames, 1.0 / fps, device=signal.device) > _HIGHEST, 0.0, weight)
    analytic = torch.fft.ifft(spectrum * weight)
    amplitude = analytic.abs()
    angle = torch.where(amplitude > 1e-9, analytic.angle() + 0.5 * math.pi, torch.zeros_like(amplitude))
    phase = torch.stack([angle, angle + math.pi], dim=-1)
    return phase, amplitude.clamp_max(1.0)[:, None].expand(-1, 2)
