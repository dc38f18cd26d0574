"""Movement reward: limbs that swing as far and as fast as in real clips of the action. Light half, no torch."""

from __future__ import annotations

from motionkit.config import Group
from motionkit.plugins import Component


class MovementOptions(Group):
    """`movement` has no options."""


component = Component(
    "Energy of hands and feet by frequency, against real clips of the same action",
    MovementOptions,
    "motionkit.rewards.movement._reward:Movement",
    gradient=True,
)
