"""The changes by name: what each means, which clips it applies to, and how it is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from motionkit.motion.changes import place_and_time as changed
from motionkit.motion.changes.poses import (
    Poses,
    held_frame,
    joint_ranges,
    limbs,
    lively_statue,
    mean_pose,
    running_mean,
    still_limb,
    swing_times,
)
from motionkit.motion.skeleton import Skeleton
from motionkit.text import names_direction, names_side, names_travel, reads_sides, tempo_of

LEAST_RANGE = 0.1
"""Metres that some joint moves relative to the root, unless the clip is a still pose."""

LEAST_TRAVEL = 0.5
"""Metres from its start that a clip gets to, if it travels."""

_LEAST_TURN = math.radians(45.0)
_LEAST_PART = 0.4
_MOVES = "a joint moves more than 0.1 m"

Family = Literal["stillness", "order", "tempo", "place", "side", "physics", "harmless"]


@dataclass(frozen=True)
class Scene:
    """A clip that is to be changed, with what a change may use."""

    joints: Tensor  # ``[F, J, 3]`` metres, Y up: all frames of the clip (`motionkit.motion.with_frame_after`)
    skeleton: Skeleton  # Their body
    fps: float  # Frames per second
    caption: str = ""  # A caption of the clip; empty for none
    other: Tensor | None = None  # ``[G, J, 3]`` joints of a clip of another class, for `lively-statue`
    longest: int = 10_000  # Frames that a changed clip may have at most
    generator: torch.Generator = field(default_factory=torch.Generator)  # Random numbers for changes


@dataclass(frozen=True)
class Change:
    """A change of a motion."""

    name: str  # Its name in options and tables
    family: Family  # What it removes; ``harmless``: nothing that a caption asks for
    meaning: str  # What it does
    where: str  # Which clips it applies to, in words; empty for all
    # Returns the changed joints ``[F', J, 3]`` of a scene, frame 0 facing +Z, on the clip's own floor.
    make: Callable[[Scene], Tensor]
    applies: Callable[[Scene], bool]  # Whether the change is meaningful for a scene


def moves(joints: Tensor, skeleton: Skeleton, fps: float) -> bool:
    """Whether some joint moves more than `LEAST_RANGE` relative to the root; joints ``[F, J, 3]``."""
    return bool(joint_ranges(joints, skeleton, fps).max() > LEAST_RANGE)


def travels(joints: Tensor) -> bool:
    """Whether the root gets more than `LEAST_TRAVEL` away from its start; joints ``[F, J, 3]``, Y up."""
    ground = joints[:, 0, [0, 2]]
    return bool((ground - ground[0]).norm(dim=-1).max() > LEAST_TRAVEL)


def goes_one_way(joints: Tensor, skeleton: Skeleton, fps: float) -> bool:
    """Whether a clip ends elsewhere than it begins, so that the reversed clip is a different motion.

    It does if it travels, if its heading changes by more than 45 degrees, or if the mean place of a joint (the root's
    height included) differs between its halves by 0.1 m and 0.4 of the joint's range. Cyclic movements in place, and
    those that return to their start, do not: waving, jumping on the spot, a squat.

    Args:
        joints: ``[F, J, 3]`` metres, Y up.
        skeleton: Their body.
        fps: Frames per second.
    """
    if travels(joints):
        return True
    poses = Poses.of(joints, skeleton, fps)
    if abs(float(poses.yaw[-1] - poses.yaw[0])) > _LEAST_TURN:
        return True
    places = poses.offsets()
    places[:, :, 1] += poses.height[:, None]
    half = len(places) // 2
    change = (places[half:].mean(0) - places[:half].mean(0)).norm(dim=-1)
    ranges = (places.amax(0) - places.amin(0)).norm(dim=-1)
    return bool(((change > LEAST_RANGE) & (change > _LEAST_PART * ranges)).any())


def _always(scene: Scene) -> bool:
    return True


def _moves(scene: Scene) -> bool:
    return moves(scene.joints, scene.skeleton, scene.fps)


def _limb_moves(scene: Scene) -> bool:
    ranges = joint_ranges(scene.joints, scene.skeleton, scene.fps)
    return bool(ranges[[limb[-1] for limb in limbs(scene.skeleton)]].max() > LEAST_RANGE)


def _swing(name: str, factor: float) -> Change:
    return Change(
        name,
        "stillness",
        f"every bone's turn from the mean pose times {factor:g}",
        _MOVES,
        lambda scene: swing_times(scene.joints, scene.skeleton, scene.fps, factor=factor),
        _moves,
    )


def _averaged(name: str, seconds: float) -> Change:
    return Change(
        name,
        "stillness",
        f"the mean pose of {seconds:g} s around each frame",
        _MOVES,
        lambda scene: running_mean(scene.joints, scene.skeleton, scene.fps, seconds=seconds),
        _moves,
    )


def _held(scene: Scene) -> Tensor:
    frame = int(torch.randint(len(scene.joints), (), generator=scene.generator))
    return held_frame(scene.joints, scene.skeleton, scene.fps, frame=frame)


def _lively(scene: Scene) -> Tensor:
    assert scene.other is not None
    return lively_statue(scene.joints, scene.skeleton, scene.fps, other=scene.other)


def _noise(scene: Scene, *, radians: float, metres: float, smooth: float) -> Tensor:
    return changed.trembling(
        scene.joints,
        scene.skeleton,
        scene.fps,
        radians=radians,
        metres=metres,
        smooth=smooth,
        generator=scene.generator,
    )


def _turned(scene: Scene) -> Tensor:
    angle = 2.0 * math.pi * float(torch.rand((), generator=scene.generator))
    return changed.turned(scene.joints, scene.skeleton, angle)


_CHANGES = (
    Change(
        "mean-pose",
        "stillness",
        "the clip's mean pose in every frame; path and heading go on",
        _MOVES,
        lambda scene: mean_pose(scene.joints, scene.skeleton, scene.fps),
        _moves,
    ),
    Change("held-frame", "stillness", "the pose of one frame in every frame", _MOVES, _held, _moves),
    _swing("swing-0.1", 0.1),
    _swing("swing-0.3", 0.3),
    _swing("swing-0.6", 0.6),
    _averaged("running-mean-0.5", 0.5),
    _averaged("running-mean-1", 1.0),
    Change(
        "still-limb",
        "stillness",
        "the limb that moves most keeps its mean pose",
        "a limb moves more than 0.1 m",
        lambda scene: still_limb(scene.joints, scene.skeleton, scene.fps),
        _limb_moves,
    ),
    Change(
        "lively-statue",
        "stillness",
        "the clip's mean pose with another clip's movement around it",
        _MOVES,
        _lively,
        lambda scene: scene.other is not None and _moves(scene),
    ),
    Change(
        "shuffled-pieces",
        "order",
        "pieces of at least 0.5 s in another order, joined over 0.2 s",
        "clips of at least 1.5 s in which a joint moves more than 0.1 m",
        lambda scene: changed.shuffled_pieces(scene.joints, scene.skeleton, scene.fps, generator=scene.generator),
        lambda scene: changed.can_shuffle(len(scene.joints), scene.fps) and _moves(scene),
    ),
    Change(
        "swapped-quarters",
        "order",
        "the first and second quarter, and the third and fourth, change places",
        "clips of at least 1 s in which a joint moves more than 0.1 m",
        lambda scene: changed.swapped_quarters(scene.joints, scene.skeleton, scene.fps),
        lambda scene: len(scene.joints) >= scene.fps and _moves(scene),
    ),
    Change(
        "reversed",
        "order",
        "the clip played backwards",
        "the clip ends elsewhere than it begins: no cyclic and no symmetric movements",
        lambda scene: changed.reversed_time(scene.joints, scene.skeleton),
        lambda scene: goes_one_way(scene.joints, scene.skeleton, scene.fps),
    ),
    Change(
        "shuffled-frames",
        "order",
        "all frames in any order",
        _MOVES,
        lambda scene: changed.shuffled_frames(scene.joints, scene.skeleton, scene.fps, generator=scene.generator),
        _moves,
    ),
    Change(
        "tempo-0.5",
        "tempo",
        "half as fast",
        "captions that ask for a fast movement",
        lambda scene: changed.tempo_times(scene.joints, scene.skeleton, scene.fps, factor=0.5),
        lambda scene: tempo_of(scene.caption) == "fast" and 2 * len(scene.joints) - 2 <= scene.longest,
    ),
    Change(
        "tempo-2",
        "tempo",
        "twice as fast",
        "captions that ask for a slow movement",
        lambda scene: changed.tempo_times(scene.joints, scene.skeleton, scene.fps, factor=2.0),
        lambda scene: tempo_of(scene.caption) == "slow" and len(scene.joints) >= 2 * scene.fps,
    ),
    Change(
        "no-path",
        "place",
        "the same movement on the spot",
        "the clip goes more than 0.5 m",
        lambda scene: changed.path_times(scene.joints, 0.0),
        lambda scene: travels(scene.joints),
    ),
    Change(
        "half-path",
        "place",
        "half the way",
        "the clip goes more than 0.5 m",
        lambda scene: changed.path_times(scene.joints, 0.5),
        lambda scene: travels(scene.joints),
    ),
    Change(
        "other-direction",
        "place",
        "the same movement, the body glides the other way",
        "the clip goes more than 0.5 m, and the caption says which way",
        lambda scene: changed.path_times(scene.joints, -1.0),
        lambda scene: travels(scene.joints) and names_direction(scene.caption) and names_travel(scene.caption),
    ),
    Change(
        "mirrored",
        "side",
        "left and right exchanged",
        "captions that name a side",
        lambda scene: changed.mirrored(scene.joints, scene.skeleton, scene.fps),
        lambda scene: names_side(scene.caption),
    ),
    Change("above-floor", "physics", "0.2 m higher", "", lambda scene: changed.lifted(scene.joints, 0.2), _always),
    Change("below-floor", "physics", "0.2 m lower", "", lambda scene: changed.lifted(scene.joints, -0.2), _always),
    Change(
        "sliding-feet",
        "physics",
        "the body sways 0.1 m to and fro, feet included",
        "",
        lambda scene: changed.sliding(scene.joints, scene.fps),
        _always,
    ),
    Change(
        "noise",
        "physics",
        "bones tremble by 0.06 rad, the root by 1 cm, in every frame",
        "",
        lambda scene: _noise(scene, radians=0.06, metres=0.01, smooth=0.0),
        _always,
    ),
    Change(
        "mirrored-unsided",
        "harmless",
        "left and right exchanged",
        "captions, in English or Chinese, that name no side",
        lambda scene: changed.mirrored(scene.joints, scene.skeleton, scene.fps),
        lambda scene: reads_sides(scene.caption) and not names_side(scene.caption),
    ),
    Change("turned", "harmless", "another heading at the start", "", _turned, _always),
    Change(
        "later-start",
        "harmless",
        "starts 0.2 s later",
        "clips of at least 1 s",
        lambda scene: changed.later_start(scene.joints, scene.skeleton, scene.fps, seconds=0.2),
        lambda scene: len(scene.joints) >= scene.fps,
    ),
    Change(
        "smaller-body",
        "harmless",
        "a body a tenth smaller",
        "",
        lambda scene: changed.resized(scene.joints, 0.9),
        _always,
    ),
    Change(
        "little-noise",
        "harmless",
        "bones tremble by 0.01 rad and the root by 2 mm, smoothed over half a second",
        "",
        lambda scene: _noise(scene, radians=0.01, metres=0.002, smooth=0.5),
        _always,
    ),
)

CHANGES: Mapping[str, Change] = {change.name: change for change in _CHANGES}
"""All changes of motions by name, by family."""
