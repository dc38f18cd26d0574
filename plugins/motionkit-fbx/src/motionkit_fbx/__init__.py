"""FBX files of motions for motionkit, which a Blender that the user has reads and writes in a process of its own."""

from motionkit.formats import Format, Reader, Setting, Writer

FBX = Format(
    "fbx",
    "FBX (by a Blender of yours)",
    (".fbx",),
    Reader(
        "motionkit_fbx.files:read_fbx",
        ("fps", "up", "unit", "joint_map", "clip"),
        retimed=True,
        prepare="motionkit_fbx.files:prepare_fbx",
        pose="motionkit_fbx.files:read_fbx_pose",
        metres=True,
        rig="motionkit_fbx.files:read_fbx_rig",
    ),
    Writer("motionkit_fbx.files:write_fbx_clip", options=("model",)),
    settings=(
        Setting(
            "blender",
            "Your Blender, or a Python with bpy, which reads FBX; default: MOTIONKIT_BLENDER.",
            writing="Your Blender, or a Python with bpy, for FBX; default: MOTIONKIT_BLENDER.",
            variable="MOTIONKIT_BLENDER",
            code="it is a program that is started.",
            needed="FBX, which a Blender reads (--blender)",
        ),
    ),
    ready="motionkit_fbx.blender:require_blender",
    help="Reads and writes FBX with a Blender that you have.",
    after="glb",
)
