"""All checks of one clip."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.clips.faults import (
    Finding,
    Severity,
    amount,
    bone_finding,
    bones_of,
    floor_findings,
    frames_at_rest,
    frozen,
    head_finding,
    root_shift,
    scale_finding,
    side_finding,
    speed_jumps,
    turn_jumps,
    words,
)
from motionkit.motion.motion import JointMotion, Motion, finite_frames, nearest_finite, ranges
from motionkit.rigs.roles import body_joints

FPS_RANGE = (5.0, 480.0)
"""Below this range no step of a walk has two frames; above it no motion capture is stored."""

FARTHEST = 1e6
"""Metres from the origin; no motion goes there, and squares of larger numbers soon overflow."""

_FEWEST = 2
"""Fewest frames with a movement."""


def check_motion(
    motion: Motion | JointMotion,
    *,
    positions: Tensor | None = None,
    floor: float | None = None,
    sound: Tensor | None = None,
    min_frames: int = 2,
    target_fps: float = 0.0,
) -> tuple[Finding, ...]:
    """Find the faults of a clip; see `KINDS`.

    Thresholds are constants of `motionkit.clips.faults`, with their reasons. They were set so that very few of the 228
    clips of a curated CMU set, each the longest clean run of its recording, have an error.

    Args:
        motion: The clip, in metres, Y up.
        positions: ``[T, J, 3]`` of it if known; they save a pass of forward kinematics.
        floor: Height of the floor in metres when it is known (0 in features); None estimates it.
        sound: ``[T]``, False for frames that are not finite in other data of the clip, such as features.
        min_frames: Fewest frames of a useful clip; fewer are a warning, less than two an error.
        target_fps: Frame rate at which `min_frames` counts; 0 for the clip's own.

    Returns:
        The findings, errors first.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> still = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.zeros(60, 22, 3), 20.0)
        >>> [(finding.kind, finding.severity) for finding in check_motion(still)]
        [('scale', 'warning'), ('frozen', 'warning')]
    """
    places = motion.positions() if positions is None else positions
    fps = motion.fps
    findings: list[Finding | None] = [_short(len(places), fps, min_frames, target_fps), _rate(fps)]
    finite = _finite(motion, places) if sound is None else _finite(motion, places) & sound
    if not bool(finite.all()):
        spans = ranges(~finite)
        far = " or further than 1000 km away" if bool(((places.abs() >= FARTHEST) & places.isfinite()).any()) else ""
        findings.append(Finding("nan", spans, f"a value is not finite (NaN or infinite){far} in {words(spans)}."))
    body = body_joints(motion.names, motion.parents)
    names, places = [motion.names[joint] for joint in body], places[:, body]
    parents = [body.index(parent) if parent in body else -1 for parent in (motion.parents[joint] for joint in body)]
    if bool(finite.any()):
        # Frames that are not finite, and a rest pose, are replaced by their neighbours: one fault, one finding.
        index = nearest_finite(finite)
        start = int(index[0])
        rest_frames = frames_at_rest(places[index][start:], fps=fps)
        if rest_frames and bool(finite[start : start + rest_frames + 1].all()):
            findings.append(_at_rest(start, start + rest_frames))
            index[: start + rest_frames] = start + rest_frames
        sound = places[index]
        # A step over missing frames lasts as long as they do and is not a jump.
        steps = sound.where(finite[:, None, None], torch.nan)
        findings.append(speed_jumps(steps, names, fps))
        findings.append(root_shift(steps, names, fps))
        if isinstance(motion, Motion):
            turns = _body_turns(motion, body)[index].where(finite[:, None, None, None], torch.nan)
            findings.append(turn_jumps(turns, names, fps))
        bones = bones_of(sound, parents)
        findings.append(scale_finding(sound, names, parents, bones))
        findings.append(head_finding(sound, names, parents))
        findings.append(bone_finding(bones, names))
        findings.append(side_finding(bones, names))
        findings.extend(floor_findings(sound, names, fps, floor))
        findings.append(frozen(places, fps))
    kept = [finding for finding in findings if finding is not None]
    return tuple(sorted(kept, key=lambda finding: finding.severity != "error"))


def _body_turns(motion: Motion, body: Sequence[int]) -> Tensor:
    """Return the rotations of a body's joints, its root's with those of the joints above it."""
    turns = motion.rotations[:, body]
    above = motion.parents[body[0]]
    while above >= 0:
        turns[:, 0] = motion.rotations[:, above] @ turns[:, 0]  # indexing with a list has made a copy
        above = motion.parents[above]
    return turns


def _finite(motion: Motion | JointMotion, places: Tensor) -> Tensor:
    """Return ``[T]`` whether positions and rotations of a frame are finite, and positions are below `FARTHEST`."""
    finite = finite_frames(places.where(places.abs() < FARTHEST, torch.nan))
    if isinstance(motion, Motion):
        finite = finite & finite_frames(motion.rotations)
    return finite


def _at_rest(start: int, stop: int) -> Finding:
    """Return the finding for a rest pose at the start."""
    spans = ((start, stop),)
    are = "is a rest pose (T-pose), or mixed with one" if stop == start + 1 else "are a rest pose (T-pose) that is held"
    return Finding("rest-pose", spans, f"{words(spans)} {are}: the motion does not start from it.")


def _short(frames: int, fps: float, least: int, target: float) -> Finding | None:
    """Find a clip with fewer than `least` frames at the target's rate."""
    severity: Severity = "warning" if frames >= _FEWEST else "error"
    rate = target or fps
    have = int((frames - 1) * rate / fps + 1e-6) + 1 if frames and fps > 0 else frames
    if have >= least:
        return None
    at = f" at {target:g} fps" if target else ""
    detail = f"it has {have} frame{'s' if have != 1 else ''}{at} ({amount(frames / fps if fps > 0 else 0.0, 2)} s); "
    return Finding("short", (), f"{detail}at least {least} are needed.", severity)


def _rate(fps: float) -> Finding | None:
    """Find an implausible frame rate."""
    low, high = FPS_RANGE
    if low <= fps <= high:
        return None
    return Finding("fps", (), f"it has {fps:g} frames per second; motions have {low:g} to {high:g}.", "warning")
