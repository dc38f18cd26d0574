"""Between skeletons: finding a body in a rig by its joints' names, resting bodies, rotations from joints."""

from motionkit.motion.rigs._body import to_body
from motionkit.motion.rigs._bodymap import BodyMap, looks_lying, map_body
from motionkit.motion.rigs._kit import body_to_kit

__all__ = ["BodyMap", "body_to_kit", "looks_lying", "map_body", "to_body"]
