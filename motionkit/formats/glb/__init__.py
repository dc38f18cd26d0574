"""glTF 2.0 binary files: a moving skeleton with a mesh of its bones, for Blender, three.js, Unity and viewers."""

from motionkit.formats.glb._write import write_glb

__all__ = ["write_glb"]
