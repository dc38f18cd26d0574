"""LeRobot datasets as episodes of motionkit-success; the light half."""

from motionkit.config import Group
from motionkit.plugins import Component


class Options(Group):
    """A LeRobot dataset has no options."""


component = Component(
    summary="LeRobot dataset",
    options=Options,
    factory="motionkit_lerobot.format:LeRobot",
    extra="motionkit-lerobot[files]",
)
