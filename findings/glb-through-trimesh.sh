#!/usr/bin/env bash
# An animated VRM model, opened by trimesh and written again.
#
# One would guess: what the library does not know is kept, or left out with a word.
# What happens: the skin and the animation are gone without a word, and the nodes are in another order, while the VRM
# table, which names bones by the numbers of nodes, is written as it was. The hips of the new file are the mesh.
# So a file whose extensions were kept is not the same model: read which node is which bone from the first file.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet trimesh==5.2.0 numpy==2.4.6

venv/bin/python - <<'PY'
import json
import struct
import warnings

import numpy as np
import trimesh

warnings.simplefilter("error")
data, views, accessors = bytearray(), [], []


def put(values, kind, component, shape, **more):
    values = np.asarray(values, kind)
    views.append({"buffer": 0, "byteOffset": len(data), "byteLength": values.nbytes})
    data.extend(values.tobytes() + b"\0" * (-values.nbytes % 4))
    accessors.append({"bufferView": len(views) - 1, "componentType": component, "count": len(values), "type": shape, **more})
    return len(accessors) - 1


place = put([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4", 5126, "VEC3", min=[0, 0, 0], max=[1, 1, 0])
joint = put([[0, 0, 0, 0]] * 3, "u1", 5121, "VEC4")
weight = put([[1, 0, 0, 0]] * 3, "<f4", 5126, "VEC4")
corner = put([0, 1, 2], "<u2", 5123, "SCALAR")
bind = put([np.eye(4).ravel()], "<f4", 5126, "MAT4")
time = put([0, 1], "<f4", 5126, "SCALAR", min=[0], max=[1])
key = put([[0, 0, 0], [1, 0, 0]], "<f4", 5126, "VEC3")
attributes = {"POSITION": place, "JOINTS_0": joint, "WEIGHTS_0": weight}
document = {
    "asset": {"version": "2.0"},
    "scene": 0,
    "scenes": [{"nodes": [0, 1]}],
    "nodes": [{"name": "Hips"}, {"name": "Body", "mesh": 0, "skin": 0}],
    "meshes": [{"primitives": [{"attributes": attributes, "indices": corner}]}],
    "skins": [{"joints": [0], "inverseBindMatrices": bind}],
    "animations": [{
        "samplers": [{"input": time, "output": key}],
        "channels": [{"sampler": 0, "target": {"node": 0, "path": "translation"}}],
    }],
    "extensionsUsed": ["VRMC_vrm"],
    "extensions": {"VRMC_vrm": {"specVersion": "1.0", "humanoid": {"humanBones": {"hips": {"node": 0}}}}},
    "accessors": accessors, "bufferViews": views, "buffers": [{"byteLength": len(data)}],
}
text = json.dumps(document).encode()
text += b" " * (-len(text) % 4)
size = 28 + len(text) + len(data)
with open("model.glb", "wb") as file:
    file.write(struct.pack("<4sII", b"glTF", 2, size) + struct.pack("<I4s", len(text), b"JSON") + text)
    file.write(struct.pack("<I4s", len(data), b"BIN\0") + data)

trimesh.load("model.glb").export("again.glb")
with open("again.glb", "rb") as file:
    content = file.read()
again = json.loads(content[20 : 20 + struct.unpack("<I", content[12:16])[0]])
hips = again["extensions"]["VRMC_vrm"]["humanoid"]["humanBones"]["hips"]["node"]
print("trimesh", trimesh.__version__)
print("before: skins 1, animations 1, the hips are node 0,", document["nodes"][0]["name"])
print("after: skins", len(again.get("skins", [])), "animations", len(again.get("animations", [])), end=", ")
print("the hips are node", hips, again["nodes"][hips]["name"])
assert "skins" not in again and "animations" not in again and again["nodes"][hips]["name"] == "Body", "this is not what was found"
PY
