"""Between skeletons: a body found by names of joints, rest poses, rotations from joints, feet that stand."""

from motionkit.rigs._bodymap import BodyMap, body_height, map_body, to_body
from motionkit.rigs._contacts import ContactSpec, contact_score, find_feet, joint_contacts, soft_contacts
from motionkit.rigs._facing import body_yaw
from motionkit.rigs._fix_feet import FixedFeet, fix_feet
from motionkit.rigs._flips import count_flips
from motionkit.rigs._gait import GAITS, leg_length, soft_gait
from motionkit.rigs._kit import body_to_kit, kit_bones
from motionkit.rigs._period import soft_period
from motionkit.rigs._rest import RestRig, rest_rig
from motionkit.rigs._retarget import Retarget
from motionkit.rigs._sides import Side, head_joint, mirror_order, sides
from motionkit.rigs._solve import Solved, solve
from motionkit.rigs._solve_bones import fit_rig
from motionkit.rigs._two_bones import two_bones

__all__ = [
    "GAITS",
    "BodyMap",
    "ContactSpec",
    "FixedFeet",
    "RestRig",
    "Retarget",
    "Side",
    "Solved",
    "body_height",
    "body_to_kit",
    "body_yaw",
    "contact_score",
    "count_flips",
    "find_feet",
    "fit_rig",
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
