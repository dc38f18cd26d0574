"""BVH: reading any dialect of it, and writing one that Blender and MotionBuilder take."""

from motionkit.motion.formats.bvh._read import read_bvh

__all__ = ["read_bvh"]
