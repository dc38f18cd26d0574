"""Between skeletons: a body found by names of joints, rest poses, rotations from joints, feet that stand."""

from motionkit.rigs._contacts import (
    GAITS,
    ContactSpec,
    contact_score,
    find_feet,
    joint_contacts,
    leg_length,
    soft_contacts,
    soft_gait,
    soft_period,
)
from motionkit.rigs._fix_feet import fix_feet, two_bones
from motionkit.rigs.bodymap import Side, body_height, body_yaw, head_joint, map_body, mirror_order, sides, to_body
from motionkit.rigs.rest import body_to_kit, kit_bones, rest_rig
from motionkit.rigs.solver import Retarget, count_flips, solve

__all__ = [
    "GAITS",
    "ContactSpec",
    "Retarget",
    "Side",
    "body_height",
    "body_to_kit",
    "body_yaw",
    "contact_score",
    "count_flips",
    "find_feet",
    "fix_feet",
    "head_joint",
    "joint_contacts",
    "kit_bones",
    "leg_length",
    "map_body",
    "mirror_order",
    "rest_rig",
    "sides",
    "soft_contacts",
    "soft_gait",
    "soft_period",
    "solve",
    "to_body",
    "two_bones",
]
