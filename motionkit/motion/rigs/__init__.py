"""Between skeletons: finding a body in a rig by its joints' names, resting bodies, rotations from joints."""

from motionkit.motion.rigs._body import to_body
from motionkit.motion.rigs._bodymap import BodyMap, map_body

__all__ = ["BodyMap", "map_body", "to_body"]
