"""Between skeletons: a body found by names of joints, rest poses, rotations from joints, feet that stand."""

from motionkit.rigs._contacts import (
    GAITS,
    ContactSpec,
    contact_score,
    find_feet,
    leg_length,
    soft_contacts,
    soft_gait,
    soft_period,
)
from motionkit.rigs._fix_feet import fix_feet
from motionkit.rigs.bodymap import Side, body_height, body_yaw, head_joint, mirror_order, sides, to_body
from motionkit.rigs.rest import default_rest, kit_bones
from motionkit.rigs.solver import Retarget, solve

__all__ = [
    "GAITS",
    "ContactSpec",
    "Retarget",
    "Side",
    "body_height",
    "body_yaw",
    "contact_score",
    "default_rest",
    "find_feet",
    "fix_feet",
    "head_joint",
    "kit_bones",
    "leg_length",
    "mirror_order",
    "sides",
    "soft_contacts",
    "soft_gait",
    "soft_period",
    "solve",
    "to_body",
]
