"""Edits of a clip before it is written: trim, repair, mirror, turn, scale, loop, bring to one place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import torch

from motionkit.clips.faults import floor_height
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.metrics import joint_jerk
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.motion import JointMotion, Motion
from motionkit.page.wording import count
from motionkit.rigs import (
    Rig,
    Step,
    find_feet,
    fix_feet,
    in_place,
    make_loop,
    mirrored,
    onto_rig,
    repeated,
    root_below_body,
    scaled,
    seam_of,
    solve,
    standing_slide,
    turned,
    without_jitter,
)
from motionkit.text import mirror_text, reads_sides

Fix = Literal["clean", "feet", "jitter"]

_AROUND = 2.0
"""Seconds of repetitions before and after a loop while it is repaired, so that it has no ends then."""

_GLIDES = 0.6
"""m/s above which a foot near the ground swings and must not be held."""

_PAIRS = (("hands", "wrist"), ("feet", "ankle"))

HEIGHTS = 0.1, 10.0
"""Smallest and largest height of a body in metres."""


@dataclass(frozen=True)
class Edits:
    """Changes of a clip, in the order in which they are done.

    Example:
        >>> Edits(loop=True, fixes=("feet",)).any, Edits().any
        (True, False)
    """

    start: float = 0.0  # Seconds of the clip at which it begins
    end: float = 0.0  # Seconds at which it ends; 0 keeps the end
    fixes: tuple[Fix, ...] = ()  # ``clean``: longest clean run; ``jitter``: filtered; ``feet``: held while they stand
    height: float = 0.0  # Height of the body in metres; 0 keeps it
    mirror: bool = False  # Left and right swapped
    yaw: float = 0.0  # Degrees of a turn to its left, about the place of its start
    loop: bool = False  # Cut and blended so that it can be repeated
    in_place: bool = False  # Without its path over the ground
    floor: bool = False  # Standing feet at height 0
    rig: Rig | None = None  # Skeleton that it is retargeted to

    @property
    def any(self) -> bool:
        """Whether anything but the length is changed."""
        return replace(self, start=0.0, end=0.0, fixes=tuple(fix for fix in self.fixes if fix != "clean")) != Edits()

    def __post_init__(self) -> None:
        if not (0 <= self.start < math.inf and 0 <= self.end < math.inf):
            raise MotionkitError("--start and --end are seconds from the beginning, 0 or more.")
        if self.end and self.end <= self.start:
            raise MotionkitError(f"--end {self.end:g} is not after --start {self.start:g}.", fix="give a later end.")
        if self.height and not HEIGHTS[0] <= self.height <= HEIGHTS[1]:
            raise MotionkitError(f"--height {self.height:g}: a body is {HEIGHTS[0]:g} to {HEIGHTS[1]:g} m tall.")
        if self.height and self.rig is not None:
            raise MotionkitError("--height does not act with --rig.", why="the rig has its own.", fix="leave one out.")
        if not math.isfinite(self.yaw):
            raise MotionkitError(f"--yaw {self.yaw:g} is not an angle.", fix="give degrees, such as --yaw 90.")


UNEDITED = Edits()
"""No change."""


def read_fixes(text: str) -> tuple[Fix, ...]:
    """Return the repairs that ``--fix`` names: ``clean``, ``feet``, ``jitter``, separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = get_args(Fix)
    for word in words:
        if word not in known:
            fix = did_you_mean(word, known) or f"known: {', '.join(known)}."
            raise MotionkitError(f"--fix {word} is not a repair.", fix=fix, choices=list(known))
    return tuple(cast("list[Fix]", list(dict.fromkeys(words))))


def trimmed(clip: Clip, edits: Edits) -> Clip:
    """Return the part of a clip between start and end."""
    if not edits.start and not edits.end:
        return clip
    fps, frames = clip.motion.fps, clip.motion.frames
    start, stop = round(edits.start * fps), round(edits.end * fps) if edits.end else frames
    for flag, seconds, frame in (("--start", edits.start, start + 1), ("--end", edits.end, stop)):
        if frame > frames:
            raise MotionkitError(
                f"{flag} {seconds:g} is beyond the end.", why=f"the clip lasts {frames / fps:.4g} s ({frames} frames)."
            )
    if stop - start < 2:
        raise MotionkitError(
            f"{edits.start:g} to {stop / fps:.4g} s are {count(stop - start, 'frame')}.", fix="give a later --end."
        )
    return clip.cut(start, stop)


def edited(clip: Clip, edits: Edits) -> tuple[Clip, dict[str, float]]:
    """Return a clip with all changes but the trim and the cut to a clean run, and figures about them.

    Rotations are solved if the clip has none. Features are dropped.

    Returns:
        The clip, and ``residual_mean``, ``residual_max`` (m) and ``flips`` of solved rotations; ``skate``
        (m/s), ``jerk`` (m/s^3), each ``_before`` and ``_after``, ``moved_mean`` and ``moved_max`` (m) of repairs;
        ``rig_hands``, ``rig_feet``, ``rig_head`` (m), ``rig_scale``, ``rig_contacts`` (shares) of another rig
        (`motionkit.rigs.OnRig`); ``seam_cut``, ``seam``, ``seam_max``, ``seam_inside`` (m), ``loop_start`` and
        ``loop_stop`` (frames) of a loop.
    """
    if not edits.any:
        return clip, {}
    figures: dict[str, float] = {}
    motion = clip.motion
    if isinstance(motion, JointMotion):
        solved = solve(motion)
        motion = solved.motion
        figures |= {"residual_mean": solved.residual_mean, "residual_max": solved.residual_max}
        figures |= {"flips": float(solved.flips)}
    if edits.height:
        motion = scaled(motion, edits.height)
    if edits.mirror:
        motion, clip = mirrored(motion), _mirrored_texts(clip)
    if edits.yaw or edits.loop or edits.in_place:
        motion = root_below_body(motion)
    if edits.yaw:
        motion = _turned_left(motion, math.radians(edits.yaw))
    step: Step | None = None
    if edits.loop:
        loop = make_loop(motion)
        motion, step = loop.motion, loop.step
        clip = clip.cut(loop.start, loop.stop + 1)
        figures |= {"seam_cut": loop.cut, "loop_start": float(loop.start), "loop_stop": float(loop.stop)}
    before = motion
    if {"feet", "jitter"} & set(edits.fixes):
        motion = _repaired(motion, edits.fixes) if step is None else _repaired_loop(motion, step, edits.fixes)
        figures |= _repairs(before, motion)
    if step is not None:
        figures |= dict(zip(("seam", "seam_max", "seam_inside"), seam_of(motion, step), strict=True))
    if edits.in_place:
        motion = in_place(motion, step)
    if edits.floor:
        lift = torch.tensor([0.0, -floor_height(motion.positions(), motion.fps), 0.0], dtype=torch.float64)
        motion = turned(motion, 0.0, lift)
    if edits.rig is not None:
        # A loop in place is repeated before and after, so that rotations, which are solved over time, meet at its ends.
        around = motion.frames - 1 if step is not None and edits.in_place else 0
        fit = onto_rig(repeated(motion, Step(0.0, torch.zeros(3)), 3) if around else motion, edits.rig)
        motion, miss = fit.motion.cut(around, around + motion.frames), fit.misses
        figures |= {f"rig_{end}": (miss[f"left {joint}"] + miss[f"right {joint}"]) / 2 for end, joint in _PAIRS}
        figures |= {"rig_head": miss["head"], "rig_scale": fit.scale}
        figures |= {} if math.isnan(fit.contacts) else {"rig_contacts": fit.contacts}
    return replace(clip, motion=motion, features=None), figures


def _mirrored_texts(clip: Clip) -> Clip:
    """Return the clip with its captions mirrored; those whose sides cannot be read are left out."""

    def turn(captions: Sequence[Caption]) -> tuple[Caption, ...]:
        return tuple(
            Caption(mirror_text(caption.text), (), caption.start, caption.end)
            for caption in captions
            if reads_sides(caption.text)
        )

    return replace(clip, captions=turn(clip.captions), timed=turn(clip.timed))


def _turned_left(motion: Motion, angle: float) -> Motion:
    """Return a motion turned about the vertical axis through the start of its root."""
    start = motion.translations[0, motion.parents.index(-1)] * torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    return turned(turned(motion, 0.0, -start), angle, start)


def _repaired(motion: Motion, fixes: Sequence[Fix]) -> Motion:
    if "jitter" in fixes:
        motion = without_jitter(motion)
    return fix_feet(motion, fastest=_GLIDES).motion if "feet" in fixes else motion


def _repaired_loop(motion: Motion, step: Step, fixes: Sequence[Fix]) -> Motion:
    """Repair a loop with repetitions before and after it, so that it has no ends."""
    frames = motion.frames - 1
    around = math.ceil(_AROUND * motion.fps / frames)
    repeats = _repaired(repeated(motion, step, 2 * around + 1), fixes)
    middle = step.times(repeats.cut(around * frames, (around + 1) * frames), -around)
    last = step.times(middle.cut(0, 1), 1)
    return replace(
        motion,
        rotations=torch.cat([middle.rotations, last.rotations]),
        translations=torch.cat([middle.translations, last.translations]),
    )


def _repairs(before: Motion, after: Motion) -> dict[str, float]:
    """Return skate and jerk before and after, and how far joints moved; skate is over the stands before."""
    places, repaired = before.positions(), after.positions()
    moved = (repaired - places).norm(dim=-1)
    figures = {"moved_mean": float(moved.mean()), "moved_max": float(moved.max())}
    if len(places) > 3:
        jerks = [float(joint_jerk(positions[None], before.fps).mean()) for positions in (places, repaired)]
        figures |= {"jerk_before": jerks[0], "jerk_after": jerks[1]}
    if find_feet(before.names, before.parents) is not None and len(places) > 1:
        slides = standing_slide(before, [before, after], fastest=_GLIDES)
        if not math.isnan(slides[0]):
            figures |= {"skate_before": slides[0], "skate_after": slides[1]}
    return figures
