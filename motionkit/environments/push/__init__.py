"""Push: a finger pushes a block to a green disc by contact and friction, seen by a camera. Needs no simulator."""

from motionkit.environments.push._settings import PushSettings
from motionkit.plugins import Component

component = Component(
    summary="A finger pushes a block to a green disc on a table that it can fall from; 64 x 64 camera.",
    options=PushSettings,
    factory="motionkit.environments.push._environment:Push",
)
