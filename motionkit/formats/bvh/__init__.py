"""BVH: reading any dialect of it, and writing one that Blender and MotionBuilder take."""

from motionkit.formats.bvh.read import read_bvh, read_bvh_pose
from motionkit.formats.bvh.write import write_bvh

__all__ = ["read_bvh", "read_bvh_pose", "write_bvh"]
