"""glTF 2.0 binary files: a moving skeleton with a mesh of its bones, for Blender, three.js, Unity and viewers."""
