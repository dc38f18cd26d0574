"""The catalogue, part one: movements that travel, turn or leave the ground."""

from __future__ import annotations

from dataclasses import replace
from math import pi

from motionkit.starter import _jumps as jumps
from motionkit.starter import _locomotion as foot
from motionkit.starter._entry import CatalogueEntry, one, pair

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
