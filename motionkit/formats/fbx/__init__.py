"""FBX files, which a Blender that the user has reads and writes in a process of its own."""

from motionkit.formats.fbx.blender import VARIABLE, find_blender
from motionkit.formats.fbx.files import prepare_fbx, read_fbx, read_fbx_pose, read_fbx_rig, write_fbx

__all__ = ["VARIABLE", "find_blender", "prepare_fbx", "read_fbx", "read_fbx_pose", "read_fbx_rig", "write_fbx"]
