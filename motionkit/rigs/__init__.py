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
from motionkit.rigs._fix_feet import fix_feet, standing_slide
from motionkit.rigs._loops import Loop, Step, make_loop, repeated, seam_of, turned
from motionkit.rigs._placing import in_place, mirrored, root_below_body, scaled, without_jitter
from motionkit.rigs._retarget import OnRig, Retarget, onto_rig
from motionkit.rigs._solve_rotations import joint_frames
from motionkit.rigs.bodymap import body_height, body_yaw, to_body
from motionkit.rigs.named import Rig, named_rig
from motionkit.rigs.rest import RestRig, default_rest, kit_bones
from motionkit.rigs.roles import Side, head_joint, mirror_order, sides
from motionkit.rigs.solver import solve

__all__ = [
    "GAITS",
    "ContactSpec",
    "Loop",
    "OnRig",
    "RestRig",
    "Retarget",
    "Rig",
    "Side",
    "Step",
    "body_height",
    "body_yaw",
    "contact_score",
    "default_rest",
    "find_feet",
    "fix_feet",
    "head_joint",
    "in_place",
    "joint_frames",
    "kit_bones",
    "leg_length",
    "make_loop",
    "mirror_order",
    "mirrored",
    "named_rig",
    "onto_rig",
    "repeated",
    "root_below_body",
    "scaled",
    "seam_of",
    "sides",
    "soft_contacts",
    "soft_gait",
    "soft_period",
    "solve",
    "standing_slide",
    "to_body",
    "turned",
    "without_jitter",
]
