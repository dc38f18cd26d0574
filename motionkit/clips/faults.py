"""Faults of motions, a function for each kind; `motionkit.clips.check.check_motion` looks for all of them.

In this order: the size of the body, its sides and its bones; the floor; jumps, and stretches in which nothing moves;
a rest pose in the first frames. Each threshold is a constant above the functions that use it, with its reason.
`longest_clean_run` returns the part of a clip without errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from motionkit.geometry import angle_between, bones_from_positions
from motionkit.motion.motion import Ranges, ranges
from motionkit.rigs.bodymap import body_height
from motionkit.rigs.detect import PERSON_LEG, UNITS
from motionkit.rigs.roles import find_pairs, find_roles, hip_to_ankle
from motionkit.rigs.upright import trunk_of

Kind = Literal[
    "nan", "jump", "rest-pose", "penetration", "floating", "scale", "head-down", "frozen", "bone-length", "sides",
    "fps", "short",
]  # fmt: skip
Severity = Literal["error", "warning"]

KINDS: dict[Kind, str] = {
    "nan": "a value is not finite",
    "jump": "a joint moves or turns faster than a body can",
    "rest-pose": "the first frames are a T-pose, or the first is mixed with one",
    "penetration": "a joint is below the floor",
    "floating": "no joint is near the floor for longer than a jump lasts",
    "scale": "the body is not the size of an adult: a wrong unit, or a child",
    "head-down": "the head is below the hips in most frames: a handstand, or a wrong axis",
    "frozen": "nothing moves at all",
    "bone-length": "bones change their length",
    "sides": "a bone is longer on one side of the body",
    "fps": "the frame rate is implausible",
    "short": "too few frames for the clip's purpose",
}
"""Every kind of finding, in words."""

_IMPOSSIBLE = 1e6
"""Far above any length, speed or time of a motion; damaged files have values of 300 digits."""

_JOINED = frozenset({"jump"})
"""Kinds between a frame and the one before it: a run may begin at their frames, but not contain them."""


@dataclass(frozen=True)
class Finding:
    """One fault of one clip."""

    kind: Kind  # One of `KINDS`
    # Half-open ranges ``(start, stop)`` of frames, merged and in order; empty for the whole clip. A jump is at the
    # frame at which the joint arrives.
    frames: Ranges
    detail: str  # One sentence with the numbers
    severity: Severity = "error"  # ``error`` spoils the motion there; ``warning`` should be checked

    def document(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "frames": [list(span) for span in self.frames],
            "detail": self.detail,
        }


def count(frames: Ranges) -> int:
    """Return the number of frames in the ranges."""
    return sum(stop - start for start, stop in frames)


def amount(value: float, digits: int = 0) -> str:
    """Return a number as text with `digits` decimals; impossible values have three digits and an exponent."""
    if math.isinf(value):
        return "more than 1e308"
    return f"{value:.{digits}f}" if abs(value) < _IMPOSSIBLE else f"{value:.3g}"


def words(frames: Ranges, shown: int = 4) -> str:
    """Return ranges as text: ``frame 7``, ``frames 7, 12-15, ...``; the last frame of a range is inside it."""
    parts = [str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in frames[:shown]]
    more = ", ..." if len(frames) > shown else ""
    return f"frame{'s' if count(frames) > 1 else ''} {', '.join(parts)}{more}"


def longest_clean_run(frames: int, findings: Iterable[Finding]) -> tuple[int, int]:
    """Return the longest half-open run of frames without errors; the first of several equally long ones.

    A jump lies between two frames, so a run may begin at the frame after the jump; frames of all other errors are
    excluded. Warnings and findings about the whole clip are ignored. ``(0, 0)`` if no frame is clean.

    Example:
        >>> longest_clean_run(100, [Finding("nan", ((30, 32),), "a gap"), Finding("jump", ((80, 81),), "a jump")])
        (32, 80)
    """
    bad, breaks = [False] * frames, [False] * (frames + 1)
    for finding in findings:
        if finding.severity != "error":
            continue
        target = breaks if finding.kind in _JOINED else bad
        for start, stop in finding.frames:
            for frame in range(max(start, 0), min(stop, frames)):
                target[frame] = True
    best, start = (0, 0), 0
    for frame in range(frames):
        if bad[frame]:
            start = frame + 1
        elif breaks[frame]:
            start = frame
        if frame + 1 - start > best[1] - best[0]:
            best = (start, frame + 1)
    return best


LEG_RANGE = 0.40, 1.25
"""Metres from hip to ankle: a toddler's to a giant's. Units differ by 2.5 and more, so the wrong one falls outside."""

HEIGHT_RANGE = 1.40, 2.05
"""Metres of nearly all adults. Outside there are children and giants, and bodies read in the wrong unit: of public BVH
libraries, whose bodies are 1.5 to 1.9 m, one is 1.0 to 1.2 m tall in inches and 2.2 m in the next larger unit."""

SPAN, SPAN_RANGE = 2.3, (1.1, 3.6)
"""Metres of the longest path along the bones of a body, from finger to toe: used if no legs are found by name."""

STRETCH = 0.05
"""Relative change of a bone's length that is normal in recordings (markers slip on skin); generated joints often exceed
it."""

_UNLIKE, _UNLIKE_METRES = 0.25, 0.03
"""Part of the longer bone, and metres, by which two sides may differ; those of CMU's bodies do by 3 % and 1 cm."""

_SHORTEST_BONE = 0.03
"""Metres; the length of a shorter bone is not checked."""

_MISTAKES = (
    ("mm", "m"), ("cm", "m"), ("cm", "dm"), ("in", "m"), ("cm", "in"), ("in", "cm"), ("dm", "cm"), ("m", "cm"),
    ("m", "mm"),
)  # fmt: skip
"""The unit of a file and the unit it was read as; of pairs with the same factor the most common."""


class Bones(NamedTuple):
    """Lengths of the bones of a clip in metres; a bone is named by the joint at its end."""

    lengths: Tensor  # ``[T, J]``; 0 for roots
    usual: Tensor  # ``[J]``, their medians over the frames


def bones_of(positions: Tensor, parents: Sequence[int]) -> Bones:
    """Return the bones of ``[T, J, 3]`` finite positions in metres."""
    lengths: Tensor = bones_from_positions(positions, parents).norm(dim=-1)
    lengths = lengths * torch.tensor([float(parent >= 0) for parent in parents], dtype=lengths.dtype)
    return Bones(lengths, lengths.median(dim=0).values)


def scale_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int], bones: Bones) -> Finding | None:
    """Find a body whose size is not a person's, and guess the unit that was meant.

    Args:
        positions: ``[T, J, 3]`` metres; finite.
        names: Joint names; legs are found by them.
        parents: Parent of each joint.
        bones: Its bones.
    """
    leg = hip_to_ankle(find_roles(names, parents), positions[0])
    what, size, usual, (low, high) = (
        ("legs measure", leg, PERSON_LEG, LEG_RANGE)
        if leg > 0
        else ("longest chain of bones measures", _span(bones.usual.tolist(), parents), SPAN, SPAN_RANGE)
    )
    if low <= size <= high:
        return None if is_plausible(height := body_height(names, parents, positions[0])) else _unusual(height)
    if size <= 1e-6:
        # The predictor's JSON may hold rotations only: enough for training, but positions are all 0.
        return Finding("scale", (), "all joints are in one place: bone lengths are not known.", "warning")
    mistakes = [(UNITS[taken].metres / UNITS[unit].metres, unit, taken) for unit, taken in _MISTAKES]
    factor, unit, taken = min(mistakes, key=lambda mistake: abs(math.log(size / usual / mistake[0])))
    guess = (
        f"about {factor:.4g} times that of a person, as if {UNITS[unit].words} were read as {UNITS[taken].words}"
        if abs(math.log(size / usual / factor)) < 0.5
        else "the unit may be wrong"
    )
    detail = f"the body's {what} {size:.3g} m, a person's {low:g} to {high:g} m; {guess}."
    return Finding("scale", (), detail)


def is_plausible(height: float) -> bool:
    """Whether a height in metres is that of an adult, see `HEIGHT_RANGE`; 0 stands for an unknown one."""
    return height == 0 or HEIGHT_RANGE[0] <= height <= HEIGHT_RANGE[1]


def _unusual(height: float) -> Finding:
    low, high = HEIGHT_RANGE
    who = "a child" if height < low else "a giant"
    detail = f"the body is {height:.2f} m tall, most adults are {low:.2f} to {high:.2f} m: {who}, or --units is needed."
    return Finding("scale", (), detail, "warning")


def side_finding(bones: Bones, names: Sequence[str]) -> Finding | None:
    """Find bones that are longer on one side of the body than on the other, such as a misplaced end site.

    Args:
        bones: The clip's bones.
        names: Joint names; an end site belongs to the side of its joint.
    """
    lengths = bones.usual.tolist()
    unlike = [
        (abs(lengths[left] - lengths[right]), left, right)
        for left, right in find_pairs(names)
        if abs(lengths[left] - lengths[right]) > max(_UNLIKE_METRES, _UNLIKE * max(lengths[left], lengths[right]))
    ]
    if not unlike:
        return None
    _, left, right = max(unlike)
    more = f", and {len(unlike) - 1} more" if len(unlike) > 1 else ""
    detail = (
        f"the bone to {names[left]} is {amount(100 * lengths[left], 1)} cm long, the one to {names[right]} "
        f"{amount(100 * lengths[right], 1)} cm{more}: left and right of a body are alike."
    )
    return Finding("sides", (), detail, "warning")


_DOWN = 0.3
"""Part of the trunk by which the head is below the hips: 17 degrees. Who lies is level."""


def head_finding(positions: Tensor, names: Sequence[str], parents: Sequence[int]) -> Finding | None:
    """Find a body whose head, or shoulders, are below its hips in most frames: it stands on its hands, or upside down.

    Args:
        positions: ``[T, J, 3]`` metres, Y up; finite.
        names: Joint names.
        parents: Parent of each joint.
    """
    trunk = trunk_of(positions, names, parents)
    if trunk is None:
        return None
    down = trunk[:, 1] < -_DOWN
    frames = int(down.sum())
    if 2 * frames <= len(down):
        return None
    detail = (
        f"the head is below the hips in {frames} of {len(down)} frames: a handstand, or another direction is up in the "
        "file (--up)."
    )
    return Finding("head-down", ranges(down), detail, "warning")


def bone_finding(bones: Bones, names: Sequence[str]) -> Finding | None:
    """Find frames in which a bone is longer or shorter than its median by more than `STRETCH`.

    Bones under 3 cm are skipped: rounding alone changes them. The root's distance from the origin is not a bone
    (nor is the pelvis' from a root on the ground: `motionkit.rigs.roles.body_joints`).

    Args:
        bones: The clip's bones.
        names: Joint names.
    """
    lengths, usual = bones
    change = torch.where(usual > _SHORTEST_BONE, (lengths - usual).abs() / usual.clamp_min(1e-9), 0.0)
    spans = ranges(change.amax(1) > STRETCH)
    if not spans:
        return None
    joint = int(change.amax(0).argmax())
    detail = (
        f"the bone to {names[joint]} changes by up to {amount(100 * float(change[:, joint].max()))} % of its "
        f"{amount(100 * float(usual[joint]))} cm; some bone by more than {100 * STRETCH:.0f} % in {words(spans)}."
    )
    return Finding("bone-length", spans, detail, "warning")


def _span(lengths: Sequence[float], parents: Sequence[int]) -> float:
    """Return the longest path between two joints along the bones; parents come before their children."""
    deepest, longest = [0.0] * len(parents), 0.0
    for joint in range(len(parents) - 1, -1, -1):
        parent = parents[joint]
        if parent >= 0:
            reach = deepest[joint] + lengths[joint]
            longest = max(longest, deepest[parent] + reach)
            deepest[parent] = max(deepest[parent], reach)
    return longest


PENETRATION = 0.05
"""Metres below the floor above which there is a warning. Toes of recordings dip 1-3 cm when a foot rolls off."""

DEEP_PENETRATION = 0.10
"""Metres that are an error: more than the thickness of a foot, so no skeleton's choice of toe joint explains them."""

FLOATING_HEIGHT = 0.10
"""Metres above the floor within which some joint is near it."""

FLOATING_SECONDS = 1.0
"""Seconds without such a joint after which there is a warning. The best human jump (0.6 m at the centre of mass) keeps
a body in the air for 0.7 s."""

_PLANTED_SPEED, _PLANTED_FRAMES = 0.3, 5
"""Speed in m/s below which the lowest joint stands, and fewest such frames from which the floor is estimated."""

_LOW = 0.05
"""Quantile of the lowest joint's height that is the floor without them."""


def floor_height(positions: Tensor, fps: float) -> float:
    """Estimate the height of the floor: that of the lowest joint while it stands still.

    The median over the frames in which the lowest joint is slower than 0.3 m/s is taken, so that neither jumps nor a
    few frames below the floor move it; without such frames, the 5 % quantile of the lowest joint's height.

    Args:
        positions: ``[T, J, 3]`` metres, Y up, finite.
        fps: Frames per second.

    Example:
        >>> floor_height(torch.full((20, 22, 3), 0.25), fps=20.0)
        0.25
    """
    low, joint = positions[..., 1].min(dim=1)
    if len(positions) > 1:
        speed = (positions[1:] - positions[:-1]).norm(dim=-1) * fps
        speed = torch.cat([speed[:1], speed]).gather(1, joint[:, None])[:, 0]
        if int((planted := speed < _PLANTED_SPEED).sum()) >= _PLANTED_FRAMES:
            return float(low[planted].median())
    return float(low.quantile(_LOW))


def floor_findings(positions: Tensor, names: Sequence[str], fps: float, floor: float | None = None) -> list[Finding]:
    """Find joints below the floor, and stretches in which no joint is near it.

    Stairs and rough ground are reported as well: the estimate is one flat floor for the whole clip.

    Args:
        positions: ``[T, J, 3]`` metres, Y up, finite.
        names: Joint names.
        fps: Frames per second.
        floor: Height of the floor if it is known; None estimates it.
    """
    height = floor_height(positions, fps) if floor is None else floor
    low, joint = positions[..., 1].min(dim=1)
    depth, findings = height - low, []
    deep = depth > DEEP_PENETRATION
    for mask, severity in ((deep, "error"), ((depth > PENETRATION) & ~deep, "warning")):
        if spans := ranges(mask):
            worst = int(torch.where(mask, depth, depth.new_tensor(-1.0)).argmax())
            deepest = f"{names[int(joint[worst])]} is up to {amount(100 * float(depth[worst]))} cm below the floor"
            about = f"floor at {amount(height, 2)} m{'' if floor is not None else ', estimated from standing feet'}"
            detail = f"{deepest} in {words(spans)} ({about})."
            findings.append(Finding("penetration", spans, detail, "error" if severity == "error" else "warning"))
    spans = tuple((a, b) for a, b in ranges(low > height + FLOATING_HEIGHT) if b - a > FLOATING_SECONDS * fps)
    if spans:
        longest = max(b - a for a, b in spans) / fps
        detail = (
            f"no joint is within {100 * FLOATING_HEIGHT:.0f} cm of the floor in {words(spans)}, for up to "
            f"{amount(longest, 1)} s: something is climbed on, or the floor is wrong."
        )
        findings.append(Finding("floating", spans, detail, "warning"))
    return findings


FASTEST_JOINT = 25.0
"""m/s. The hand of a professional throwing a ball passes 25 m/s for a few milliseconds; mocap of daily motion and
sports stays under 19 (the fastest joint of 228 CMU clips, a jump)."""

FASTEST_ROOT = 12.5
"""m/s. The fastest sprint ever measured peaked at 12.4."""

ROOT_SHIFT = 3.0
"""m/s by which one step of the root may differ from both the step before and the step after it. A pelvis that weighs
30 kg and more does not: in 228 CMU clips it stays under 1.7 at 12.5, 20, 30 and 60 fps. A shift of the whole body by
15 cm at 20 fps passes it, which is far below what a sprinter covers in the same time."""

FASTEST_ROOT_TURN = 840.0
"""Degrees per second: 14 degrees a frame at 60 fps, the bound by which CMU clips with swapped markers are cleaned;
a figure skater's spin passes it, a dancer's does not."""

FASTEST_JOINT_TURN = 2520.0
"""Degrees per second: 42 degrees a frame at 60 fps, from the same."""

FROZEN_SECONDS = 1.0
"""Seconds of equal values after which a recording has stopped: a standing body sways."""

_EQUAL = 1e-9
"""Metres between frames up to which a joint has not moved."""


def speed_jumps(positions: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which a joint arrives faster than `FASTEST_JOINT`, or the root faster than `FASTEST_ROOT`.

    Args:
        positions: ``[T, J, 3]`` metres, the root first; frames that are not finite are passed over.
        names: Joint names.
        fps: Frames per second.
    """
    finite = positions.isfinite().all(-1)
    # A step between finite places may overflow; it is still a jump.
    speed = (positions[1:] - positions[:-1]).norm(dim=-1).where(finite[1:] & finite[:-1], 0.0) * fps
    limit = torch.full((len(names),), FASTEST_JOINT, dtype=speed.dtype)
    limit[0] = FASTEST_ROOT
    return _beyond(speed, limit, names, "moves at up to {} m/s (people stay below {:g} m/s there)")


def root_shift(positions: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which the whole body shifts: the root's step differs from the steps on both sides of it.

    Steps that `speed_jumps` reports are skipped.

    Args:
        positions: ``[T, J, 3]`` metres, the root first; frames that are not finite are passed over.
        names: Joint names.
        fps: Frames per second.
    """
    velocity = (positions[1:, 0] - positions[:-1, 0]) * fps
    if len(velocity) < 3:
        return None
    change = velocity.diff(dim=0).norm(dim=-1)
    alone = torch.minimum(change[:-1], change[1:])
    marked = (alone > ROOT_SHIFT) & (velocity[1:-1].norm(dim=-1) <= FASTEST_ROOT)
    # Of a single frame out of place, the step there and the step back are both found.
    spans = ranges(torch.nn.functional.pad(marked, (2, 1)))
    if not spans:
        return None
    worst = float(alone[marked].max())
    total = count(spans)
    detail = (
        f"{total} shift{'s' if total > 1 else ''} of the whole body, at {words(spans)}: the step of {names[0]} is "
        f"up to {amount(100 * worst / fps)} cm ({amount(worst, 1)} m/s) off the steps before and after it."
    )
    return Finding("jump", spans, detail)


def turn_jumps(rotations: Tensor, names: Sequence[str], fps: float) -> Finding | None:
    """Find frames at which a joint turns faster than `FASTEST_JOINT_TURN`, or the root than `FASTEST_ROOT_TURN`.

    Args:
        rotations: ``[T, J, 3, 3]`` relative to the parent, the root first; what is not finite is passed over.
        names: Joint names.
        fps: Frames per second.
    """
    angle = angle_between(rotations[:-1], rotations[1:])
    speed = torch.rad2deg(angle).nan_to_num(0.0) * fps
    limit = torch.full((len(names),), FASTEST_JOINT_TURN, dtype=speed.dtype)
    limit[0] = FASTEST_ROOT_TURN
    text = "turns at up to {} degrees/s (the bound is {:g}: {} degrees a frame)"
    return _beyond(speed, limit, names, text, 1.0 / fps)


def frozen(positions: Tensor, fps: float) -> Finding | None:
    """Find stretches longer than `FROZEN_SECONDS` in which no joint moves at all."""
    same = ((positions[1:] - positions[:-1]).abs() <= _EQUAL).flatten(1).all(1)
    # k equal steps are k + 1 equal frames.
    spans = tuple((a, b + 1) for a, b in ranges(same) if b - a > FROZEN_SECONDS * fps)
    if not spans:
        return None
    longest = max(b - a for a, b in spans) / fps
    detail = (
        f"nothing moves in {words(spans)}, for up to {amount(longest, 1)} s: the values are the same in every frame."
    )
    return Finding("frozen", spans, detail, "warning")


def _beyond(speed: Tensor, limit: Tensor, names: Sequence[str], text: str, *more: float) -> Finding | None:
    """Report steps ``[T-1, J]`` above their joint's limit, with the joint that is furthest above."""
    over = speed > limit
    if not bool(over.any()):
        return None
    spans = ranges(torch.nn.functional.pad(over.any(1), (1, 0)))
    joint = int((speed / limit).amax(0).argmax())
    bound = float(limit[joint])
    numbers = (amount(float(speed[:, joint].max())), bound, *(amount(bound * factor) for factor in more))
    total = count(spans)
    what = f"{total} jump{'s' if total > 1 else ''}, at {words(spans)}: {names[joint]} {text.format(*numbers)}."
    return Finding("jump", spans, what)


_STEP = 0.08
"""Metres that some joint moves between the rest pose and the motion, relative to the root."""

_RATIO = 4.0
"""Least ratio of that step to any of the following ones. Inside of 228 CMU clips, from any start, the ratio stays under
2.5; clips whose first frame is a sixth of the way back to the rest pose, because of a filter, have 4.3 to 6.3; a
complete rest pose has far more."""

_HELD = 1e-3
"""Metres between frames below which a pose is held, but for rounding. A person who stands before walking sways, and has
no step above `_STEP` that is four times as long as the following ones."""

_SECONDS = 1.0 / 3.0
"""Seconds of the steps that follow and are compared with it."""

_SLOW_FPS = 30.0
"""Below this rate steps are longer and fewer, and a hand that stops may move 4 times as far in one step as in the next,
so the ratio is larger unless a pose was held before."""


def frames_at_rest(positions: Tensor, fps: float = 60.0) -> int:
    """Return the number of frames at the start that do not belong to the motion, such as a T-pose put before it.

    They are the first frame, or a pose held over several, if the step after it is unlike the following ones. Limbs are
    compared relative to the root, because a rest pose is often at the origin.

    Args:
        positions: ``[T, J, 3]`` metres, the root first, at the file's own rate.
        fps: That rate, in frames per second.

    Example:
        >>> import torch
        >>> positions = torch.zeros(40, 2, 3)
        >>> positions[1:, 1, 0] = 0.5 + 0.01 * torch.arange(39)  # half a metre in the first step
        >>> frames_at_rest(positions)
        1
    """
    limbs = positions - positions[:, :1]
    steps = (limbs[1:] - limbs[:-1]).norm(dim=-1).amax(dim=-1)
    moving = (steps > _HELD).nonzero()
    first = int(moving[0]) if len(moving) else len(steps)
    following = steps[first + 1 : first + 1 + max(6, round(fps * _SECONDS))]
    if len(following) < 2:
        return 0
    step, most = float(steps[first]), float(following.max())
    if first and most <= _HELD:
        # From one still pose to another: a jump if it is far enough; either of the two may be the motion.
        return 0
    ratio = _RATIO if fps >= _SLOW_FPS or first else 1.5 * _RATIO
    return first + 1 if step > _STEP and step > ratio * most else 0
