"""Clips of the starter: one action performed once, at any frame rate."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import pi
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.starter import _actions as arms
from motionkit.starter import _actions as jumps
from motionkit.starter import _locomotion as foot
from motionkit.starter import _trunk_and_legs as legs
from motionkit.starter import _trunk_and_legs as torso
from motionkit.starter._solve import Array, Controls, Take, joined, overreach, smooth, solve

if TYPE_CHECKING:
    from torch import Tensor


# One entry of the catalogue: a class of movements and its captions.

SUBJECTS = ("a person", "someone", "a man", "the person", "a woman")


@dataclass(frozen=True)
class CatalogueEntry:
    """A class of movements with the same meaning."""

    action: str  # Such as ``wave``
    variant: str  # Side, speed, direction
    make: Callable[..., Controls]  # Function of a `Take` and `options`
    options: Mapping[str, Any]  # Keyword arguments of `make`
    mirrored: bool  # Whether left and right of the controls are exchanged
    phrases: tuple[str, ...]  # Verb phrases in the third person, all with the same meaning

    @property
    def name(self) -> str:
        """Unique name: ``action/variant``."""
        return f"{self.action}/{self.variant}"

    def sentences(self, phrase: int) -> tuple[str, ...]:
        """Return the captions of one phrase: with two subjects, rotating over the catalogue."""
        first = sum(map(ord, self.name)) + 2 * phrase
        return tuple(f"{SUBJECTS[(first + i) % len(SUBJECTS)]} {self.phrases[phrase]}." for i in (0, 1))

    @property
    def captions(self) -> tuple[str, ...]:
        """All captions, phrase by phrase."""
        return tuple(text for phrase in range(len(self.phrases)) for text in self.sentences(phrase))


@cache
def _phrases() -> dict[str, list[str]]:
    document: dict[str, list[str]] = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))
    return document


def one(name: str, make: Callable[..., Controls], **options: Any) -> list[CatalogueEntry]:
    """Return a class without a mirror image, called ``action/variant``; its phrases are in ``phrases.json``."""
    action, variant = name.split("/")
    return [CatalogueEntry(action, variant, make, options, False, tuple(_phrases()[name]))]


def pair(name: str, make: Callable[..., Controls], *, native: str, **options: Any) -> list[CatalogueEntry]:
    """Return a class and its mirror image.

    Args:
        name: ``action/variant`` with the placeholder ``{side}``, as in ``phrases.json``; there, ``{side}`` and
            ``{other}`` become left and right.
        make: Function of a take.
        native: The side that `make` performs.
        options: Keyword arguments of `make`.
    """
    entries = []
    for side, other in (("left", "right"), ("right", "left")):
        action, variant = name.format(side=side).split("/")
        texts = tuple(phrase.format(side=side, other=other) for phrase in _phrases()[name])
        entries.append(CatalogueEntry(action, variant, make, options, side != native, texts))
    return entries


# The catalogue, part two: movements in place.

_AKIMBO = (1.0, -0.1, -0.35)

PLACE: list[CatalogueEntry] = [
    *pair("wave/{side}", arms.wave, native="right", side="right"),
    *one("wave/both", arms.wave, side="both"),
    *pair("wave/low-{side}", arms.wave, native="right", side="right", high=False),
    *pair("kick/low-{side}", legs.kick, native="right", height=0.38),
    *pair("kick/high-{side}", legs.kick, native="right", height=0.98),
    *pair("kick/side-{side}", legs.kick, native="right", height=0.72, side_way=True),
    *pair("kick/back-{side}", legs.kick, native="right", height=0.5, back=True),
    *pair("punch/{side}", arms.punch, native="right", side="right"),
    *one("punch/both", arms.punch, side="both"),
    *pair("throw/over-{side}", arms.throw, native="right"),
    *pair("throw/under-{side}", arms.throw, native="right", under=True),
    *one("clap/chest", arms.clap),
    *one("clap/overhead", arms.clap, overhead=True),
    *one("raise/both-up", arms.raise_arms, side="both", goal=(0.16, 0.93, 0.08)),
    *one("raise/sides", arms.raise_arms, side="both", goal=(0.96, 0.06, 0.03)),
    *one("raise/front", arms.raise_arms, side="both", goal=(-0.02, 0.05, 0.95)),
    *one("raise/flap", arms.raise_arms, side="both", goal=(0.85, 0.4, 0.0), hold=False),
    *pair("raise/{side}", arms.raise_arms, native="right", side="right", goal=(0.12, 0.94, 0.08)),
    *pair("point/{side}", arms.hold, native="right", side="right", goal=(-0.08, 0.03, 0.95)),
    *pair("salute/{side}", arms.hold, native="right", side="right", goal=(-0.05, 0.5, 0.28), elbow=(1.0, 0.0, 0.1)),
    *pair("phone/{side}", arms.hold, native="right", side="right", goal=(-0.02, 0.38, 0.22), elbow=(0.5, -1.0, 0.1)),
    *pair(
        "scratch/{side}",
        arms.hold,
        native="right",
        side="right",
        goal=(-0.22, 0.62, 0.12),
        elbow=(1.0, 0.1, 0.1),
        shake=0.06,
        rate=2.6,
        nod=0.1,
    ),
    *pair("drink/{side}", arms.drink, native="right"),
    *one("pose/hips", arms.hold, side="both", goal=(0.16, -0.5, 0.13), elbow=_AKIMBO),
    *one("pose/pray", arms.hold, side="both", goal=(-0.27, -0.2, 0.42), elbow=(1.0, -0.5, 0.0), nod=0.3),
    *one("pose/head", arms.hold, side="both", goal=(-0.12, 0.55, 0.05), elbow=(1.0, 0.1, 0.1)),
    *one("swing-arms/front", arms.swing_arms),
    *one("swing-arms/across", arms.swing_arms, across=True),
    *one("arm-circles/both", arms.arm_circles, side="both"),
    *pair("arm-circles/{side}", arms.arm_circles, native="right", side="right"),
    *one("stretch/up", arms.stretch),
    *one("push/forward", arms.push),
    *one("pull/back", arms.push, pull=True),
    *one("shrug/both", arms.shrug),
    *one("bow/deep", torso.bow, depth=1.15),
    *one("bow/slight", torso.bow, depth=0.5),
    *pair("pick-up/{side}", torso.pick_up, native="right", hands="right"),
    *one("pick-up/both", torso.pick_up, hands="both"),
    *one("put-down/both", torso.pick_up, hands="both", place=True),
    *one("look/around", torso.look_around),
    *pair("look/{side}", torso.look_around, native="left", both=False),
    *one("nod/yes", torso.nod),
    *one("nod/no", torso.nod, shake=True),
    *pair("side-bend/{side}", torso.side_bend, native="right"),
    *one("touch-toes/normal", torso.touch_toes),
    *one("twist/trunk", torso.twist_trunk),
    *one("dance/sway", torso.sway),
    *one("dance/twist", torso.twist_dance),
    *one("dance/step-clap", torso.step_touch),
    *one("dance/step-arms", torso.step_touch, arms="up"),
    *one("knee/alternate", legs.knee_raise, alternate=True),
    *pair("knee/{side}", legs.knee_raise, native="right"),
    *pair("balance/arms-{side}", legs.balance, native="left"),
    *pair("balance/hips-{side}", legs.balance, native="left", arms=False),
    *one("squat/deep", legs.squat, depth=0.45),
    *one("squat/half", legs.squat, depth=0.2, period=1.6),
    *one("crouch/hold", legs.squat, depth=0.46, hold=True),
    *one("sit/down", legs.chair, direction="down"),
    *one("sit/up", legs.chair, direction="up"),
    *one("sit/both", legs.chair, direction="both"),
    *pair("kneel/down-{side}", legs.kneel, native="right"),
    *one("kneel/both", legs.kneel, both=True),
    *pair("kneel/up-{side}", legs.kneel, native="right", rise=True),
    *pair("lunge/front-{side}", legs.lunge, native="right"),
    *pair("lunge/side-{side}", legs.lunge, native="right", direction="side"),
]


# The catalogue, part one: movements that travel, turn or leave the ground.

_SLOW = replace(foot.WALK, cadence=1.25, arms=0.25, lift=0.07, push=0.6, duty=0.66)
_FAST = replace(foot.WALK, cadence=2.15, arms=0.6, lean=0.09, push=0.9, duty=0.58)
_BACK = replace(foot.WALK, push=0.35, arms=0.25, lean=-0.02, cadence=1.6)
_SIDE = replace(foot.WALK, push=0.25, arms=0.08, width=0.3, cadence=2.0, lift=0.08, duty=0.58)
_TIPTOE = replace(foot.SNEAK, tiptoe=0.6, lower=0.05, lean=0.12, lift=0.12, cadence=1.5)
_SPRINT = replace(foot.RUN, cadence=2.95, lift=0.24, arms=0.8, lean=0.3, duty=0.34)

TRAVEL: list[CatalogueEntry] = [
    *one("walk/normal", foot.travel, speed=1.1),
    *one("walk/slow", foot.travel, gait=_SLOW, speed=0.6),
    *one("walk/fast", foot.travel, gait=_FAST, speed=1.6),
    *one("walk/backward", foot.travel, gait=_BACK, speed=0.75, angle=pi),
    *pair("walk/circle-{side}", foot.travel, native="left", speed=0.95, turn=0.95),
    *pair("walk/turn-{side}", foot.walk_bend, native="left", angle=pi / 2),
    *one("walk/turn-back", foot.walk_bend, angle=pi * 0.98),
    *one("walk/zigzag", foot.zigzag),
    *one("walk/tiptoe", foot.travel, gait=_TIPTOE, speed=0.6),
    *one("sneak/forward", foot.travel, gait=foot.SNEAK, speed=0.6),
    *pair("limp/{side}", foot.limp, native="left"),
    *one("walk/drunk", foot.drunk),
    *one("stumble/forward", foot.stumble),
    *one("walk/arms-up", foot.with_arms, pose="up"),
    *one("walk/arms-side", foot.with_arms, pose="side"),
    *one("walk/hands-on-hips", foot.with_arms, pose="hips"),
    *one("walk/zombie", foot.with_arms, pose="front"),
    *one("step/forward", foot.one_step, direction=1.0),
    *one("step/back", foot.one_step, direction=-1.0),
    *pair("side-step/{side}", foot.travel, native="left", gait=_SIDE, speed=0.55, angle=pi / 2),
    *one("walk/in-place", foot.in_place),
    *one("march/forward", foot.travel, gait=foot.MARCH, speed=0.85),
    *one("march/in-place", foot.in_place, gait=foot.MARCH, lift=0.3),
    *one("run/normal", foot.travel, gait=foot.RUN, speed=2.6),
    *one("run/sprint", foot.travel, gait=_SPRINT, speed=3.3),
    *one("jog/forward", foot.travel, gait=foot.JOG, speed=1.8),
    *pair("jog/circle-{side}", foot.travel, native="left", gait=foot.JOG, speed=1.7, turn=1.1),
    *one("jog/in-place", foot.in_place, gait=replace(foot.JOG, ahead=0.5), lift=0.22),
    *one("skip/forward", foot.skip),
    *pair("turn/quarter-{side}", foot.turn_round, native="left", angle=pi / 2),
    *pair("turn/around-{side}", foot.turn_round, native="left", angle=pi),
    *one("jump/up", jumps.leap, height=0.22),
    *one("jump/high", jumps.leap, height=0.36, arms="up"),
    *one("jump/tuck", jumps.leap, height=0.34, tuck=0.2, arms="up"),
    *one("jump/forward", jumps.leap, height=0.2, forward=0.8),
    *one("jump/backward", jumps.leap, height=0.16, forward=-0.45),
    *pair("jump/turn-{side}", jumps.leap, native="left", height=0.22, turn=pi / 2),
    *pair("hop/place-{side}", jumps.hop, native="left"),
    *pair("hop/forward-{side}", jumps.hop, native="left", forward=0.42),
    *one("jacks/arms", jumps.jumping_jacks),
    *one("jacks/hips", jumps.jumping_jacks, arms=0.0),
    *one("rope/normal", jumps.skip_rope),
    *one("bounce/knees", jumps.bounce),
]


CATALOGUE: tuple[CatalogueEntry, ...] = (*TRAVEL, *PLACE)
"""Every class of movements of the starter, in a fixed order."""

_BY_NAME = {entry.name: entry for entry in CATALOGUE}


@dataclass(frozen=True)
class Order:
    """An order for one clip."""

    name: str  # ``action/variant`` of the catalogue
    frames: int  # Length
    seed: int  # Seeds all randomness of the clip, together with the name
    tempo: float | None = None  # Speed of the movement, 1 = usual; drawn from 0.88 to 1.14 if None
    size: float | None = None  # Amplitude, 1 = usual; drawn from 0.86 to 1.14 if None
    scale: float = 1.0  # Size of the body; 1 is the HumanML3D target skeleton


@dataclass(frozen=True)
class StarterClip:
    """One generated clip."""

    joints: Array  # ``[T, 22, 3]`` metres, Y up, floor at 0, facing +Z and standing at the origin in frame 0
    # ``[T, 22, 3, 3]`` local rotation matrices relative to `motionkit.starter.OFFSETS`; joint 0 global.
    rotations: Array
    root: Array  # ``[T, 3]`` pelvis position, metres
    contacts: np.ndarray  # ``[T, 4]`` bool, ball and ankle on the floor: left ankle, left foot, right ankle, right foot
    fps: float  # Frames per second
    captions: tuple[str, ...]  # All captions of the movement
    action: str
    variant: str


def actions() -> dict[str, tuple[str, ...]]:
    """Return the variants of every action."""
    found: dict[str, list[str]] = {}
    for entry in CATALOGUE:
        found.setdefault(entry.action, []).append(entry.variant)
    return {action: tuple(variants) for action, variants in found.items()}


def find(name: str) -> CatalogueEntry:
    """Return the catalogue's entry called ``action/variant``."""
    if name not in _BY_NAME:
        raise MotionkitError(f"the starter has no movement {name!r}.", fix="motionkit.starter.actions() lists them.")
    return _BY_NAME[name]


def _controls(order: Order, fps: float) -> Controls:
    entry = find(order.name)
    if order.frames < 2:
        raise MotionkitError(f"a clip needs at least 2 frames, got {order.frames}.")
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(order.name.encode()), order.seed]))
    drawn = rng.uniform([0.88, 0.86], [1.14, 1.14])
    take = Take(
        t=np.arange(order.frames) / fps,
        duration=order.frames / fps,
        rng=rng,
        tempo=float(drawn[0] if order.tempo is None else order.tempo),
        size=float(drawn[1] if order.size is None else order.size),
    )
    controls = entry.make(take, **entry.options)
    for name, seconds in (
        ("hand", 0.05),
        ("elbow", 0.06),
        ("spine", 0.05),
        ("head", 0.05),
        ("knee", 0.05),
        ("foot", 0.025),
        ("turn", 0.04),
        ("pelvis", 0.03),
    ):
        setattr(controls, name, smooth(getattr(controls, name), fps, seconds))
    # Lower the pelvis before a planted foot is out of reach: the maximum over a short window, smoothed.
    drop = overreach(controls)
    if drop.max() > 1e-4:
        wide = max(1, round(0.09 * fps))
        padded = np.pad(drop, wide, mode="edge")
        peak = np.lib.stride_tricks.sliding_window_view(padded, 2 * wide + 1).max(axis=-1)
        controls.pelvis[:, 1] -= smooth(peak, fps, 0.055)
    return controls.mirrored() if entry.mirrored else controls


def perform(orders: Sequence[Order], *, fps: float = 20.0) -> list[StarterClip]:
    """Perform many orders in one vectorised pass; a clip does not depend on the other orders.

    Example:
        >>> clip = perform([Order("wave/right", frames=60, seed=0)], fps=20.0)[0]
        >>> clip.joints.shape, clip.rotations.shape
        ((60, 22, 3), (60, 22, 3, 3))
    """
    if not orders:
        return []
    parts = [_controls(order, fps) for order in orders]
    joints, rotations = solve(joined(parts))
    clips, start = [], 0
    for order, part in zip(orders, parts, strict=True):
        stop, entry = start + order.frames, find(order.name)
        place = joints[start:stop].copy()
        place[..., [0, 2]] -= place[0, 0, [0, 2]]
        place[..., 1] -= place[..., 1].min()
        place *= order.scale
        planted = part.plant > 0.5
        flat = planted & (np.abs(part.foot[..., 1]) < 0.12)
        contacts = np.stack([flat[:, 0], planted[:, 0], flat[:, 1], planted[:, 1]], axis=-1)
        root, local = place[:, 0].copy(), rotations[start:stop]
        clips.append(StarterClip(place, local, root, contacts, fps, entry.captions, entry.action, entry.variant))
        start = stop
    return clips


def generate(
    action: str,
    *,
    variant: str = "",
    fps: float = 20.0,
    frames: int = 80,
    seed: int = 0,
    tempo: float | None = None,
    size: float | None = None,
    scale: float = 1.0,
) -> StarterClip:
    """Perform one action.

    Args:
        action: Name from `actions`, or ``action/variant``.
        variant: Variant of the action; by default the first one.
        fps: Frames per second, any.
        frames: Length.
        seed: Same seed, same clip.
        tempo: Speed of the movement, 1 = usual; drawn by seed if None.
        size: Amplitude, 1 = usual; drawn by seed if None.
        scale: Size of the body.
    """
    if "/" not in action:
        variants = actions()
        if action not in variants:
            raise MotionkitError(
                f"the starter has no action {action!r}.", fix=f"one of: {', '.join(variants)}", choices=variants
            )
        action = f"{action}/{variant or variants[action][0]}"
    return perform([Order(action, frames, seed, tempo, size, scale)], fps=fps)[0]


# The shipped data of the starter: stored text embeddings and trained weights.

WEIGHTS = ("mdm", "tmr", "judge", "evaluator")


def captions() -> tuple[str, ...]:
    """Return every caption of the starter once, in the catalogue's order."""
    return tuple(dict.fromkeys(text for entry in CATALOGUE for text in entry.captions))


def table_path() -> Path:
    """Return the path of the stored MiniLM embeddings of `captions` (``text.safetensors``, with ``text.json``)."""
    return Path(__file__).parent / "weights" / "text.safetensors"


def student_path() -> Path:
    """Return the path of the student of MiniLM (``student.safetensors``, with ``student.json``)."""
    return Path(__file__).parent / "weights" / "student.safetensors"


def embeddings() -> tuple[tuple[str, ...], Tensor]:
    """Return the captions and their stored embeddings ``[N, 384]`` float32, each of length 1 (to float16)."""
    from motionkit.text import read_table

    texts, vectors = read_table(table_path())
    return tuple(texts), vectors


def weights_path(name: str) -> Path:
    """Return the folder of one of the shipped networks.

    Args:
        name: ``mdm`` (policy), ``tmr`` (reward), ``judge`` (a second TMR, never a reward) or ``evaluator`` (of
            text-to-motion figures).
    """
    if name not in WEIGHTS:
        raise MotionkitError(f"the starter pack has no network {name!r}.", fix=f"one of: {', '.join(WEIGHTS)}")
    folder = Path(__file__).parent / "weights" / name
    if not folder.is_dir():
        raise MotionkitError(
            f"the starter's {name} weights are not part of this installation.",
            why=f"{folder} does not exist.",
            fix="reinstall motionkit, or rebuild them with the commands of motionkit/starter/README.md.",
        )
    return folder
