"""Between skeletons: finding a body in a rig by its joints' names, resting bodies, rotations from joints."""

from motionkit.rigs._body import to_body
from motionkit.rigs._bodymap import BodyMap, map_body
from motionkit.rigs._kit import body_to_kit, kit_bones
from motionkit.rigs._rest import Rig, rest_rig
from motionkit.rigs._solve import Solved, solve
from motionkit.rigs._solve_fit import fit_rig
from motionkit.rigs._solve_flips import count_flips

__all__ = [
    "BodyMap",
    "Rig",
    "Solved",
    "body_to_kit",
    "count_flips",
    "fit_rig",
    "kit_bones",
    "map_body",
    "rest_rig",
    "solve",
    "to_body",
]
