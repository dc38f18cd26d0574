"""Tasks of ManiSkill, simulated and drawn on the CPU. Light half; extra ``maniskill``."""

from motionkit.environments.maniskill._settings import ManiskillSettings
from motionkit.plugins import Component

component = Component(
    summary="A Panda arm brings a red cube to a green ball that is made visible; ManiSkill, on the CPU.",
    options=ManiskillSettings,
    factory="motionkit.environments.maniskill._environment:open_maniskill",
    needs=("mani_skill",),
    extra="maniskill",
)
