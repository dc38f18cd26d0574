"""Between skeletons: finding a body in a rig by its joints' names, resting bodies, rotations from joints."""

from motionkit.motion.rigs._body import to_body
from motionkit.motion.rigs._bodymap import BodyMap, map_body
from motionkit.motion.rigs._kit import body_to_kit, clip_bones, kit_bones

__all__ = ["BodyMap", "body_to_kit", "clip_bones", "kit_bones", "map_body", "to_body"]
