"""glTF 2.0 binary files: reading the skeleton and the animations of one, and writing a motion as one."""

from motionkit.formats.glb.animate import read_glb_rig, write_animated
from motionkit.formats.glb.read import read_glb, read_glb_pose
from motionkit.formats.glb.write import write_glb

__all__ = ["read_glb", "read_glb_pose", "read_glb_rig", "write_animated", "write_glb"]
