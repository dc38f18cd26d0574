"""Run by Blender for `check.py`: where the bones and vertices of a file are, and a picture of it."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np


def look(job: dict) -> None:
    """Import a file as a person would and write what is there."""
    import bpy

    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    if job["read"].endswith(".fbx"):
        bpy.ops.import_scene.fbx(filepath=job["read"], anim_offset=0.0)
        fps = scene.render.fps / scene.render.fps_base  # the file says its rate
        step = scene.render.fps / fps  # Blender 4.2 places keys by the whole rate
    else:
        # A rate with a fraction shifts the keys that Blender 4.2 reads; a whole one does not, whichever it is.
        scene.render.fps, scene.render.fps_base = 30, 1.0
        bpy.ops.import_scene.gltf(filepath=job["read"])
        fps = job["fps"]
        step = 30.0 / fps
    (armature,) = [thing for thing in bpy.data.objects if thing.type == "ARMATURE"]
    shapes = {bone.custom_shape for bone in armature.pose.bones}
    meshes = [thing for thing in bpy.data.objects if thing.type == "MESH" and thing not in shapes]
    names = [bone.name for bone in armature.pose.bones]
    last = round(max(action.frame_range[1] for action in bpy.data.actions) / step)
    heads, vertices = [], []
    for frame in job["frames"]:
        scene.frame_set(int(frame * step), subframe=frame * step % 1.0)
        heads.append([armature.matrix_world @ bone.head for bone in armature.pose.bones])
        graph = bpy.context.evaluated_depsgraph_get()
        points = []
        for mesh in meshes:
            bent = mesh.evaluated_get(graph)
            points += [bent.matrix_world @ vertex.co for vertex in bent.to_mesh().vertices]
            bent.to_mesh_clear()
        vertices.append(points)
    np.savez(job["write"], names=np.array(names), heads=y_up(heads), vertices=y_up(vertices), last=last, fps=fps)
    if job["picture"]:
        paint(scene, y_up(vertices)[-1], job["picture"])


def y_up(points: list) -> np.ndarray:
    """Return points of Blender, whose vertical axis is Z, with Y up."""
    x, y, z = np.moveaxis(np.array(points, float).reshape(len(points), -1, 3), -1, 0)
    return np.stack([x, z, -y], axis=-1)


def paint(scene: Any, points: np.ndarray, path: str) -> None:
    """Render the last frame by Cycles, a few samples, from the front and the side."""
    import bpy
    from mathutils import Vector

    low, high = points.min(0), points.max(0)
    middle = Vector(((low[0] + high[0]) / 2, -(low[2] + high[2]) / 2, (low[1] + high[1]) / 2))
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.type = "ORTHO"
    camera.data.ortho_scale = 1.2 * float((high - low).max())
    camera.location = middle + Vector((2.0, -4.0, 1.0))
    camera.rotation_euler = (middle - camera.location).to_track_quat("-Z", "Y").to_euler()
    light = bpy.data.objects.new("sun", bpy.data.lights.new("sun", "SUN"))
    light.data.energy = 3.0
    light.rotation_euler = (0.7, 0.3, 0.5)
    for thing in (camera, light):
        scene.collection.objects.link(thing)
    scene.camera = camera
    scene.render.engine = "CYCLES"
    scene.cycles.samples = 4
    scene.cycles.use_denoising = False
    scene.render.resolution_x = scene.render.resolution_y = 320
    scene.world = bpy.data.worlds.new("world")
    scene.world.color = (0.3, 0.3, 0.3)
    scene.render.filepath = path
    bpy.ops.render.render(write_still=True)


if __name__ == "__main__":
    try:
        look(json.loads(Path(sys.argv[sys.argv.index("--") + 1]).read_text()))
    except Exception:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(0)
