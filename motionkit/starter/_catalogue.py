"""The catalogue of the starter: every class of movements with its captions, and the data that ships for them.

`CATALOGUE` has an entry per class: the action that performs it, its options, and its phrases (``phrases.json``). The
shipped data are text embeddings of the captions and trained networks, in the folder ``weights``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from math import pi
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit.errors import MotionkitError
from motionkit.starter import _gestures as arms
from motionkit.starter import _jumps as jumps
from motionkit.starter import _locomotion as locomotion
from motionkit.starter import _trunk_and_legs as body
from motionkit.starter._solve import Controls

if TYPE_CHECKING:
    from torch import Tensor

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
        """Return the two captions of a phrase, each with another subject; subjects rotate over classes and phrases."""
        first = sum(map(ord, self.name)) + 2 * phrase
        return tuple(f"{SUBJECTS[(first + i) % len(SUBJECTS)]} {self.phrases[phrase]}." for i in (0, 1))

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """All captions, phrase by phrase."""
        return tuple(text for phrase in range(len(self.phrases)) for text in self.sentences(phrase))


@cache
def _phrases() -> dict[str, list[str]]:
    document: dict[str, list[str]] = json.loads(files(__package__).joinpath("phrases.json").read_text(encoding="utf-8"))
    return document


def single(name: str, make: Callable[..., Controls], **options: Any) -> list[CatalogueEntry]:
    """Return a class without a mirror image; `name`, its ``action/variant``, is a key of ``phrases.json``."""
    action, variant = name.split("/")
    return [CatalogueEntry(action, variant, make, options, False, tuple(_phrases()[name]))]


def pair(name: str, make: Callable[..., Controls], *, native: str, **options: Any) -> list[CatalogueEntry]:
    """Return a class and its mirror image.

    Args:
        name: ``action/variant`` with the placeholder ``{side}``, as in ``phrases.json``; there, ``{side}`` and
            ``{other}`` become left and right.
        make: Function of a take and `options`.
        native: The side that `make` performs.
        options: Keyword arguments of `make`.
    """
    entries = []
    for side, other in (("left", "right"), ("right", "left")):
        action, variant = name.format(side=side).split("/")
        texts = tuple(phrase.format(side=side, other=other) for phrase in _phrases()[name])
        entries.append(CatalogueEntry(action, variant, make, options, side != native, texts))
    return entries


_SLOW = replace(locomotion.WALK, cadence=1.25, arms=0.25, lift=0.07, push=0.6, duty=0.66)
_FAST = replace(locomotion.WALK, cadence=2.15, arms=0.6, lean=0.09, push=0.9, duty=0.58)
_BACK = replace(locomotion.WALK, push=0.35, arms=0.25, lean=-0.02, cadence=1.6)
_SIDE = replace(locomotion.WALK, push=0.25, arms=0.08, width=0.3, cadence=2.0, lift=0.08, duty=0.58)
_TIPTOE = replace(locomotion.SNEAK, tiptoe=0.6, lower=0.05, lean=0.12, lift=0.12, cadence=1.5)
_SPRINT = replace(locomotion.RUN, cadence=2.95, lift=0.24, arms=0.8, lean=0.3, duty=0.34)

TRAVEL: list[CatalogueEntry] = [
    *single("walk/normal", locomotion.travel, speed=1.1),
    *single("walk/slow", locomotion.travel, gait=_SLOW, speed=0.6),
    *single("walk/fast", locomotion.travel, gait=_FAST, speed=1.6),
    *single("walk/backward", locomotion.travel, gait=_BACK, speed=0.75, angle=pi),
    *pair("walk/circle-{side}", locomotion.travel, native="left", speed=0.95, turn=0.95),
    *pair("walk/turn-{side}", locomotion.walk_bend, native="left", angle=pi / 2),
    *single("walk/turn-back", locomotion.walk_bend, angle=pi * 0.98),
    *single("walk/zigzag", locomotion.zigzag),
    *single("walk/tiptoe", locomotion.travel, gait=_TIPTOE, speed=0.6),
    *single("sneak/forward", locomotion.travel, gait=locomotion.SNEAK, speed=0.6),
    *pair("limp/{side}", locomotion.limp, native="left"),
    *single("walk/drunk", locomotion.drunk),
    *single("stumble/forward", locomotion.stumble),
    *single("walk/arms-up", locomotion.with_arms, pose="up"),
    *single("walk/arms-side", locomotion.with_arms, pose="side"),
    *single("walk/hands-on-hips", locomotion.with_arms, pose="hips"),
    *single("walk/zombie", locomotion.with_arms, pose="front"),
    *single("step/forward", locomotion.one_step, direction=1.0),
    *single("step/back", locomotion.one_step, direction=-1.0),
    *pair("side-step/{side}", locomotion.travel, native="left", gait=_SIDE, speed=0.55, angle=pi / 2),
    *single("walk/in-place", locomotion.in_place),
    *single("march/forward", locomotion.travel, gait=locomotion.MARCH, speed=0.85),
    *single("march/in-place", locomotion.in_place, gait=locomotion.MARCH, lift=0.3),
    *single("run/normal", locomotion.travel, gait=locomotion.RUN, speed=2.6),
    *single("run/sprint", locomotion.travel, gait=_SPRINT, speed=3.3),
    *single("jog/forward", locomotion.travel, gait=locomotion.JOG, speed=1.8),
    *pair("jog/circle-{side}", locomotion.travel, native="left", gait=locomotion.JOG, speed=1.7, turn=1.1),
    *single("jog/in-place", locomotion.in_place, gait=replace(locomotion.JOG, ahead=0.5), lift=0.22),
    *single("skip/forward", locomotion.skip),
    *pair("turn/quarter-{side}", locomotion.turn_round, native="left", angle=pi / 2),
    *pair("turn/around-{side}", locomotion.turn_round, native="left", angle=pi),
    *single("jump/up", jumps.leap, height=0.22),
    *single("jump/high", jumps.leap, height=0.36, arms="up"),
    *single("jump/tuck", jumps.leap, height=0.34, tuck=0.2, arms="up"),
    *single("jump/forward", jumps.leap, height=0.2, forward=0.8),
    *single("jump/backward", jumps.leap, height=0.16, forward=-0.45),
    *pair("jump/turn-{side}", jumps.leap, native="left", height=0.22, turn=pi / 2),
    *pair("hop/place-{side}", jumps.hop, native="left"),
    *pair("hop/forward-{side}", jumps.hop, native="left", forward=0.42),
    *single("jacks/arms", jumps.jumping_jacks),
    *single("jacks/hips", jumps.jumping_jacks, arms=0.0),
    *single("rope/normal", jumps.skip_rope),
    *single("bounce/knees", body.bounce),
]
"""Movements that travel, turn, jump or bounce."""

_AKIMBO = (1.0, -0.1, -0.35)

PLACE: list[CatalogueEntry] = [
    *pair("wave/{side}", arms.wave, native="right", side="right"),
    *single("wave/both", arms.wave, side="both"),
    *pair("wave/low-{side}", arms.wave, native="right", side="right", high=False),
    *pair("kick/low-{side}", body.kick, native="right", height=0.38),
    *pair("kick/high-{side}", body.kick, native="right", height=0.98),
    *pair("kick/side-{side}", body.kick, native="right", height=0.72, side_way=True),
    *pair("kick/back-{side}", body.kick, native="right", height=0.5, back=True),
    *pair("punch/{side}", arms.punch, native="right", side="right"),
    *single("punch/both", arms.punch, side="both"),
    *pair("throw/over-{side}", arms.throw, native="right"),
    *pair("throw/under-{side}", arms.throw, native="right", under=True),
    *single("clap/chest", arms.clap),
    *single("clap/overhead", arms.clap, overhead=True),
    *single("raise/both-up", arms.raise_arms, side="both", goal=(0.16, 0.93, 0.08)),
    *single("raise/sides", arms.raise_arms, side="both", goal=(0.96, 0.06, 0.03)),
    *single("raise/front", arms.raise_arms, side="both", goal=(-0.02, 0.05, 0.95)),
    *single("raise/flap", arms.raise_arms, side="both", goal=(0.85, 0.4, 0.0), hold=False),
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
    *single("pose/hips", arms.hold, side="both", goal=(0.16, -0.5, 0.13), elbow=_AKIMBO),
    *single("pose/pray", arms.hold, side="both", goal=(-0.27, -0.2, 0.42), elbow=(1.0, -0.5, 0.0), nod=0.3),
    *single("pose/head", arms.hold, side="both", goal=(-0.12, 0.55, 0.05), elbow=(1.0, 0.1, 0.1)),
    *single("swing-arms/front", arms.swing_arms),
    *single("swing-arms/across", arms.swing_arms, across=True),
    *single("arm-circles/both", arms.arm_circles, side="both"),
    *pair("arm-circles/{side}", arms.arm_circles, native="right", side="right"),
    *single("stretch/up", arms.stretch),
    *single("push/forward", arms.push),
    *single("pull/back", arms.push, pull=True),
    *single("shrug/both", arms.shrug),
    *single("bow/deep", body.bow, depth=1.15),
    *single("bow/slight", body.bow, depth=0.5),
    *pair("pick-up/{side}", body.pick_up, native="right", hands="right"),
    *single("pick-up/both", body.pick_up, hands="both"),
    *single("put-down/both", body.pick_up, hands="both", place=True),
    *single("look/around", body.look_around),
    *pair("look/{side}", body.look_around, native="left", both=False),
    *single("nod/yes", body.nod),
    *single("nod/no", body.nod, shake=True),
    *pair("side-bend/{side}", body.side_bend, native="right"),
    *single("touch-toes/normal", body.touch_toes),
    *single("twist/trunk", body.twist_trunk),
    *single("dance/sway", body.sway),
    *single("dance/twist", body.twist_dance),
    *single("dance/step-clap", body.step_touch),
    *single("dance/step-arms", body.step_touch, arms="up"),
    *single("knee/alternate", body.knee_raise, alternate=True),
    *pair("knee/{side}", body.knee_raise, native="right"),
    *pair("balance/arms-{side}", body.balance, native="left"),
    *pair("balance/hips-{side}", body.balance, native="left", arms=False),
    *single("squat/deep", body.squat, depth=0.45),
    *single("squat/half", body.squat, depth=0.2, period=1.6),
    *single("crouch/hold", body.squat, depth=0.46, hold=True),
    *single("sit/down", body.chair, direction="down"),
    *single("sit/up", body.chair, direction="up"),
    *single("sit/both", body.chair, direction="both"),
    *pair("kneel/down-{side}", body.kneel, native="right"),
    *single("kneel/both", body.kneel, both=True),
    *pair("kneel/up-{side}", body.kneel, native="right", rise=True),
    *pair("lunge/front-{side}", body.lunge, native="right"),
    *pair("lunge/side-{side}", body.lunge, native="right", direction="side"),
]
"""Movements in place."""

CATALOGUE: tuple[CatalogueEntry, ...] = (*TRAVEL, *PLACE)
"""Every class of movements, in a fixed order."""

_BY_NAME = {entry.name: entry for entry in CATALOGUE}


def actions() -> dict[str, tuple[str, ...]]:
    """Return the variants of every action."""
    variants: dict[str, list[str]] = {}
    for entry in CATALOGUE:
        variants.setdefault(entry.action, []).append(entry.variant)
    return {action: tuple(names) for action, names in variants.items()}


def find(name: str) -> CatalogueEntry:
    """Return the catalogue's entry called ``action/variant``."""
    if name not in _BY_NAME:
        raise MotionkitError(f"the starter has no movement {name!r}.", fix="motionkit.starter.CATALOGUE lists them.")
    return _BY_NAME[name]


def captions() -> tuple[str, ...]:
    """Return every caption of the starter once, in the catalogue's order."""
    return tuple(dict.fromkeys(text for entry in CATALOGUE for text in entry.captions))


POLICY = "mdm"
"""The pack's policy: the plugin that opens it, and the folder of its weights."""

EXAMPLE = "a person walks | a person waves"
"""Texts that the policy knows."""

WEIGHTS = (POLICY, "tmr", "judge", "evaluator")
"""The networks that ship, each in a folder below `weights`."""


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
