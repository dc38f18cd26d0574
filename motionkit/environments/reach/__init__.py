"""Reach: a planar arm of two joints, seen by a camera, moves its gripper to a green disc. Needs no simulator."""

from motionkit.environments.reach._settings import ReachSettings
from motionkit.plugins import Component

component = Component(
    summary="A planar arm of two joints reaches for a green disc; 64 x 64 camera, thousands of frames a second.",
    options=ReachSettings,
    factory="motionkit.environments.reach._arm:open_reach",
)
