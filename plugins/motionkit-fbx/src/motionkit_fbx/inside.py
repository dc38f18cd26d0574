"""What Blender runs: FBX files to GLB and back. It imports nothing of motionkit, and bpy in its functions alone.

``blender --background --factory-startup --disable-autoexec --python inside.py -- FOLDER``, or ``python inside.py --
FOLDER`` with a Python that has bpy. FOLDER holds ``jobs.json``, a list of tables:

- ``read``, ``write``: the files; the ending of ``read`` says which way.
- ``meshes``: of an FBX file, whether its meshes come with the skeleton.
- ``fps``: of a GLB file, the rate to write; its own keys lie at `NOMINAL`.

After each job a line of JSON is added to FOLDER's ``answers.jsonl``: an empty table, or ``error`` with what went wrong.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CENTIMETRES = 100.0
"""Of a metre. FBX files are in centimetres, as Maya, Unreal and Mixamo write them: then no joint has a scale."""

NOMINAL = 30
"""Frames per second while Blender reads or writes GLB: a rate with a fraction shifts the keys there (Blender 4.2)."""


class JobError(Exception):
    """What is wrong with a file, as a person should read it."""


def start() -> Any:
    """Return an empty scene."""
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    set_rate(scene, NOMINAL)
    return scene


def set_rate(scene: Any, fps: float) -> None:
    """Set frames per second."""
    scene.render.fps = max(1, round(fps))
    scene.render.fps_base = scene.render.fps / fps


def to_glb(read: str, write: str, meshes: bool) -> None:
    """Write the skeleton of an FBX file with every animation of it, a key for each frame, and its meshes if wanted."""
    import bpy

    scene = start()
    try:
        bpy.ops.import_scene.fbx(
            filepath=read, anim_offset=0.0, use_image_search=False, use_custom_props=False, ignore_leaf_bones=False
        )
    except RuntimeError as error:
        raise JobError(last_line(error)) from error
    fps = scene.render.fps / scene.render.fps_base
    onto_frames(fps / scene.render.fps)
    set_rate(scene, NOMINAL)
    leave_out_images(Path(read).parent)
    if not meshes:
        for thing in [thing for thing in bpy.data.objects if thing.type not in ("ARMATURE", "EMPTY")]:
            bpy.data.objects.remove(thing)
    armatures = [thing for thing in bpy.data.objects if thing.type == "ARMATURE"]
    for armature in armatures:
        if not any(armature in skeletons(thing) for thing in bpy.data.objects):
            bind_triangle(armature)
    join_stacks()
    bpy.ops.export_scene.gltf(
        filepath=write, export_format="GLB", export_yup=True, export_skins=True, export_def_bones=False,
        export_animation_mode="NLA_TRACKS", export_force_sampling=True, export_optimize_animation_size=False,
        export_frame_range=False, export_rest_position_armature=True, export_morph=meshes,
        export_materials="EXPORT" if meshes else "NONE", export_cameras=False, export_lights=False, export_apply=False,
    )  # fmt: skip
    if fps != NOMINAL:
        stretch(Path(write), NOMINAL / fps)


def leave_out_images(folder: Path) -> None:
    """Leave out pictures that a file names outside its own folder: what it is made into would hold them."""
    import bpy

    for image in list(bpy.data.images):
        place = Path(bpy.path.abspath(image.filepath)).resolve()
        if image.packed_file is None and not place.is_relative_to(folder.resolve()):
            bpy.data.images.remove(image)


def onto_frames(factor: float) -> None:
    """Move keys to the frames of a rate with a fraction, such as 29.97, where Blender placed them by the whole rate.

    4.2 does. Keys are told by where more of them lie on frames.

    Args:
        factor: The rate divided by the whole rate.
    """
    import bpy

    if factor == 1.0:
        return
    keys = [key for action in bpy.data.actions for curve in curves(action) for key in curve.keyframe_points]
    times = sorted({key.co.x for key in keys})
    off, off_moved = (sum(abs(time - round(time)) for time in those) for those in (times, [factor * x for x in times]))
    if off_moved < off:
        for key in keys:
            for point in (key.co, key.handle_left, key.handle_right):
                point.x *= factor


def stretch(path: Path, factor: float) -> None:
    """Multiply the times of the animations of a GLB file."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 12)
    document = json.loads(data[20 : 20 + length])
    binary = bytearray(data[20 + length + 8 :])
    times = {sampler["input"] for animation in document.get("animations", []) for sampler in animation["samplers"]}
    for accessor in (document["accessors"][number] for number in times):
        view = document["bufferViews"][accessor["bufferView"]]
        place = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        form = f"<{accessor['count']}f"
        values = [factor * value for value in struct.unpack_from(form, binary, place)]
        struct.pack_into(form, binary, place, *values)
        accessor["min"], accessor["max"] = [min(values)], [max(values)]
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    head = [struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(binary)), struct.pack("<I4s", len(text), b"JSON")]
    path.write_bytes(b"".join([*head, text, struct.pack("<I4s", len(binary), b"BIN\0"), binary]))


def join_stacks() -> None:
    """Put the actions of each animation stack into tracks of one name, which become one animation.

    Blender makes an action for each object of a stack, called ``Object|Stack`` or ``Object|Stack|Layer``.
    """
    import bpy

    for thing in bpy.data.objects:
        if thing.animation_data is None:
            continue
        thing.animation_data.action = None
        for action in bpy.data.actions:
            if action.name.startswith(f"{thing.name}|"):
                track = thing.animation_data.nla_tracks.new()
                track.name = action.name.removeprefix(f"{thing.name}|")
                track.strips.new(action.name, round(action.frame_range[0]), action)


def skeletons(thing: Any) -> list[Any]:
    """Return the armatures that bend a mesh."""
    # Only some kinds of Blender's objects have modifiers.
    return [modifier.object for modifier in getattr(thing, "modifiers", ()) if modifier.type == "ARMATURE"]


def bind_triangle(armature: Any) -> None:
    """Bind a triangle of a tenth of a millimetre to an armature: GLB files name joints where a mesh has a skin."""
    import bpy

    mesh = bpy.data.meshes.new("triangle")
    mesh.from_pydata([(0.0, 0.0, 0.0), (1e-4, 0.0, 0.0), (0.0, 1e-4, 0.0)], [], [(0, 1, 2)])
    thing = bpy.data.objects.new("triangle", mesh)
    bpy.context.scene.collection.objects.link(thing)
    thing.parent = armature
    for bone in armature.data.bones[:1]:
        thing.vertex_groups.new(name=bone.name).add([0, 1, 2], 1.0, "REPLACE")
    thing.modifiers.new("skin", "ARMATURE").object = armature


def to_fbx(read: str, write: str, fps: float) -> None:
    """Write the only animation of a GLB file, a key for each frame, with its skeleton and meshes."""
    import bpy

    scene = start()
    bpy.ops.import_scene.gltf(filepath=read, bone_heuristic="BLENDER")
    armatures = [thing for thing in bpy.data.objects if thing.type == "ARMATURE"]
    shapes = {bone.custom_shape for armature in armatures for bone in armature.pose.bones}
    for shape in filter(None, shapes):
        bpy.data.objects.remove(shape)
    set_rate(scene, fps)
    keep_pictures()
    enlarge(CENTIMETRES)
    scene.unit_settings.scale_length = 1.0 / CENTIMETRES
    ends = [action.frame_range for action in bpy.data.actions]
    scene.frame_start = round(min((end[0] for end in ends), default=0.0))
    scene.frame_end = round(max((end[1] for end in ends), default=0.0))
    for number, armature in enumerate(armatures):
        armature.name = "Armature" if number == 0 else f"Armature {number + 1}"
    bpy.ops.export_scene.fbx(
        filepath=write, object_types={"ARMATURE", "MESH", "EMPTY"}, add_leaf_bones=False, bake_anim=True,
        bake_anim_use_all_bones=True, bake_anim_use_nla_strips=False, bake_anim_use_all_actions=False,
        bake_anim_force_startend_keying=True, bake_anim_step=1.0, bake_anim_simplify_factor=0.0,
        primary_bone_axis="Y", secondary_bone_axis="X", axis_forward="-Z", axis_up="Y", path_mode="COPY",
        embed_textures=True, use_armature_deform_only=False, mesh_smooth_type="OFF",
    )  # fmt: skip


def keep_pictures() -> None:
    """Let the FBX file have the pictures of colours, as they are: with a name of a file, no factor, a lit surface."""
    import bpy

    for number, image in enumerate(bpy.data.images):
        image.filepath = f"//picture-{number}.{'jpg' if image.file_format == 'JPEG' else 'png'}"
    for material in (material for material in bpy.data.materials if material.use_nodes):
        tree = material.node_tree
        kinds = {node.type: node for node in tree.nodes}
        surface = kinds.get("BSDF_PRINCIPLED")
        picture = kinds.get("TEX_IMAGE") if surface is None else picture_of(surface.inputs["Base Color"])
        if picture is None:
            continue
        if surface is None:  # a glTF material without light
            surface = tree.nodes.new("ShaderNodeBsdfPrincipled")
            tree.links.new(surface.outputs["BSDF"], kinds["OUTPUT_MATERIAL"].inputs["Surface"])
        tree.links.new(picture.outputs["Color"], surface.inputs["Base Color"])


def picture_of(socket: Any) -> Any:
    """Return the picture that an input of a material's node comes from, through factors; None where there is none."""
    for link in socket.links:
        node = link.from_node
        found = node if node.type == "TEX_IMAGE" else next(filter(None, map(picture_of, node.inputs)), None)
        if found is not None:
            return found
    return None


def enlarge(scale: float) -> None:
    """Make everything larger: bones, vertices, places of objects and what moves them; no object gets a scale."""
    import bpy
    from mathutils import Matrix

    whole = Matrix.Scale(scale, 4)
    for armature in bpy.data.armatures:
        armature.transform(whole)
    for mesh in bpy.data.meshes:
        mesh.transform(whole, shape_keys=True)
    for thing in bpy.data.objects:
        thing.location *= scale
        thing.matrix_parent_inverse.translation *= scale
    for action in bpy.data.actions:
        for curve in curves(action):
            if curve.data_path.endswith("location"):
                for key in curve.keyframe_points:
                    key.co.y *= scale
                    key.handle_left.y *= scale
                    key.handle_right.y *= scale


def curves(action: Any) -> Iterator[Any]:
    """Yield the curves of an action; Blender 5 keeps them in layers alone."""
    if hasattr(action, "fcurves"):
        yield from action.fcurves
        return
    for layer in action.layers:
        for strip in layer.strips:
            for bag in strip.channelbags:
                yield from bag.fcurves


def answer(job: dict[str, Any]) -> dict[str, str]:
    """Do a job and return the line of it."""
    try:
        if job["read"].lower().endswith(".fbx"):
            to_glb(job["read"], job["write"], job["meshes"])
        else:
            to_fbx(job["read"], job["write"], job["fps"])
    except JobError as error:
        return {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {last_line(error)}"}
    return {}


def last_line(error: Exception) -> str:
    """Return the end of a message: Blender puts the traceback of what it ran before it."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")


def main(folder: str) -> None:
    """Do all jobs of a folder."""
    jobs = json.loads(Path(folder, "jobs.json").read_text(encoding="utf-8"))
    with Path(folder, "answers.jsonl").open("a", encoding="utf-8") as answers:
        for job in jobs:
            answers.write(json.dumps(answer(job)) + "\n")
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--") + 1])
    sys.stdout.flush()
    os._exit(0)  # bpy as a module can end in a fault of memory when Python clears it away
