"""What Blender makes of motionkit's files: joints of GLB and FBX, and the vertices of a character.

    python plugins/motionkit-fbx/tests/real/check.py FOLDER

FOLDER gets an environment with bpy (Python 3.11, numpy below 2; 374 MB are downloaded, 1.6 GB on the disk) at the first
call, files, figures.txt and pictures. ``--python PATH`` names a Python 3.11, ``--blender PATH`` a Blender that is there
already. ``--rig FILE`` adds a character of yours: GLB or FBX with a skin.

Each file goes into Blender, and heads of bones at some frames are compared with the joints that motionkit reads out of
it; FBX files go through Blender into GLB and are read. The exit code is 1 where something is more than 1 mm off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import motionkit
from motionkit.formats.glb.container import open_glb
from motionkit_fbx import blender as blenders
from motionkit_fbx.blender import find_blender

LIMIT = 1e-3
"""Metres."""

RATE = 1e-5
"""Part by which a frame rate may differ: FBX has 30000/1001 where 29.97 was asked for."""

INSIDE = Path(__file__).with_name("look.py")
FRAMES = (0, 7, 33)
PROMPTS = ("a person walks forward", "a person waves", "a person jumps")


def environment(folder: Path, python: str) -> str:
    """Make the environment where it is not there yet and return its Python."""
    own = folder / "bpy/bin/python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(folder / "bpy")], check=True)
        subprocess.run([str(own), "-m", "pip", "install", "--quiet", "numpy<2", "bpy==4.2.0"], check=True)
    return str(own)


def seen(program: str, path: Path, fps: float, picture: Path) -> dict[str, np.ndarray]:
    """Return what Blender sees in a file: heads of bones, vertices of meshes at some frames, in metres, Y up."""
    blender = find_blender(program)
    with tempfile.TemporaryDirectory() as name:
        job = Path(name) / "job.json"
        out = Path(name) / "seen.npz"
        job.write_text(
            json.dumps({"read": str(path.absolute()), "write": str(out), "fps": fps, "frames": FRAMES,
                        "picture": str(picture.absolute())})
        )  # fmt: skip
        command = [str(INSIDE) if part == str(blenders.SCRIPT) else part for part in blender.command(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"Blender could not look at {path}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        with np.load(out) as found:
            return dict(found)


def skinned(path: Path, frames: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield for each mesh with a skin of a GLB file the places of its vertices ``[F, V, 3]``, by the formula of glTF.

    A vertex is the sum of its weights times joint matrix times inverse bind matrix times its place.
    """
    file = open_glb(path)
    nodes = file.items("nodes")
    animation = file.items("animations")[0]
    local = []
    for number, frame in enumerate(frames):
        local.append([_local(node) for node in nodes])
        for channel in animation["channels"]:
            sampler = animation["samplers"][channel["sampler"]]
            what = channel["target"]["path"]
            values = file.array(sampler["output"], {"translation": 3, "rotation": 4, "scale": 3}[what])
            local[number][channel["target"]["node"]][what] = values[min(frame, len(values) - 1)]
    worlds = []
    for frame in local:
        world: dict[int, np.ndarray] = {}
        for node in range(len(nodes)):
            _world(node, file.parents, frame, world)
        worlds.append(world)
    for node in nodes:
        if "mesh" not in node or "skin" not in node:
            continue
        skin = file.item("skins", node["skin"])
        binds = file.array(skin["inverseBindMatrices"], 16).reshape(-1, 4, 4).transpose(0, 2, 1)
        parts = []
        for primitive in file.item("meshes", node["mesh"])["primitives"]:
            places = file.array(primitive["attributes"]["POSITION"], 3)
            joints = file.array(primitive["attributes"]["JOINTS_0"], 4).astype(int)
            weights = file.array(primitive["attributes"]["WEIGHTS_0"], 4)
            weights = weights / weights.sum(1, keepdims=True)
            whole = np.concatenate([places, np.ones((len(places), 1))], axis=1)
            each = []
            for world in worlds:
                matrices = np.stack([world[joint] for joint in skin["joints"]]) @ binds
                blended = (weights[..., None, None] * matrices[joints]).sum(1)
                each.append((blended @ whole[..., None])[:, :3, 0])
            parts.append(np.stack(each))
        yield np.concatenate(parts, axis=1)


def _local(node: dict) -> dict[str, np.ndarray]:
    if "matrix" in node:
        return {"matrix": np.array(node["matrix"], float).reshape(4, 4).T}
    defaults = {"translation": [0, 0, 0], "rotation": [0, 0, 0, 1], "scale": [1, 1, 1]}
    return {name: np.array(node.get(name, value), float) for name, value in defaults.items()}


def _world(node: int, parents: list[int], local: list[dict[str, np.ndarray]], world: dict[int, np.ndarray]) -> None:
    if node in world:
        return
    own = local[node]
    matrix = own["matrix"] if "matrix" in own else _matrix(own["translation"], own["rotation"], own["scale"])
    if parents[node] >= 0:
        _world(parents[node], parents, local, world)
        matrix = world[parents[node]] @ matrix
    world[node] = matrix


def _matrix(place: np.ndarray, turn: np.ndarray, scale: np.ndarray) -> np.ndarray:
    x, y, z, w = turn / np.linalg.norm(turn)
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= scale
    matrix[:3, 3] = place
    return matrix


def far(one: np.ndarray, other: np.ndarray) -> float:
    """Return how far vertices are apart at most: one by one, or the nearest ones where their numbers differ."""
    if one.shape == other.shape:
        return float(np.linalg.norm(one - other, axis=-1).max())
    most = 0.0
    for mine, theirs in zip(one, other, strict=True):
        for part in np.array_split(mine, max(1, len(mine) // 500)):
            gaps = np.linalg.norm(part[:, None] - theirs[None], axis=-1).min(1)
            most = max(most, float(gaps.max()))
    return most


class Report:
    """Prints lines and keeps them, and remembers what failed."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w")
        self.failed = 0

    def line(self, text: str) -> None:
        """Print a line."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        self.file.write(f"{text}\n")
        self.file.flush()

    def figure(self, what: str, metres: float) -> None:
        """Print how far something is off."""
        self.failed += not metres < LIMIT
        self.line(f"{what:<58} {1000 * metres:9.4f} mm{'' if metres < LIMIT else '   MORE THAN 1 mm'}")


def heads(report: Report, program: str, path: Path, clip: motionkit.MotionClip, picture: Path) -> dict[str, np.ndarray]:
    """Compare the heads of bones in Blender with the joints of a clip."""
    found = seen(program, path, clip.fps, picture)
    names = [str(name) for name in found["names"]]
    missing = [name for name in clip.motion.names if name not in names]
    if missing:
        report.failed += 1
        report.line(f"{path.name}: Blender has no bone {missing[0]!r}")
        return found
    index = [names.index(name) for name in clip.motion.names]
    ours = clip.positions()[list(FRAMES)].numpy()
    off = float(np.linalg.norm(found["heads"][:, index] - ours, axis=-1).max())
    report.figure(f"{path.name}: heads of {len(index)} bones in Blender", off)
    last = int(found["last"])
    if last + 1 != clip.frames or abs(float(found["fps"]) / clip.fps - 1) > RATE:
        report.failed += 1
        report.line(
            f"{path.name}: {last + 1} frames at {float(found['fps'])} per second, not {clip.frames} at {clip.fps}"
        )
    return found


def same(report: Report, what: str, one: motionkit.MotionClip, other: motionkit.MotionClip) -> None:
    """Compare two clips, joint by joint."""
    if one.frames != other.frames or abs(other.fps / one.fps - 1) > RATE:
        report.failed += 1
        report.line(f"{what}: {other.frames} frames at {other.fps}, not {one.frames} at {one.fps}")
        return
    names = [name for name in one.motion.names if name in other.motion.names]
    if len(names) < len(one.motion.names):
        report.failed += 1
        report.line(f"{what}: {sorted({*one.motion.names} - {*names})} are missing")
    first = one.positions()[:, [one.motion.names.index(name) for name in names]]
    second = other.positions()[:, [other.motion.names.index(name) for name in names]]
    report.figure(f"{what}, {one.frames} frames at {one.fps:g}", float((first - second).norm(dim=-1).max()))


def character(report: Report, program: str, folder: Path, rig: Path, clip: motionkit.MotionClip) -> None:
    """Animate a character, and compare its vertices in Blender with those of the formula of glTF."""
    glb, fbx = folder / f"{rig.stem}-moves.glb", folder / f"{rig.stem}-moves.fbx"
    for path in (glb, fbx):
        motionkit.convert(clip.save(folder / "clip.npz"), path, rig=rig, blender=program, overwrite=True)
    moved = motionkit.read(glb)
    heads(report, program, fbx, moved, folder / f"{fbx.name}.png")
    found = heads(report, program, glb, moved, folder / f"{glb.name}.png")
    ours = np.concatenate(list(skinned(glb, FRAMES)), axis=1)
    report.figure(
        f"{glb.name}: {ours.shape[1]} vertices in Blender",
        max(far(found["vertices"], ours), far(ours, found["vertices"])),
    )
    again = seen(program, fbx, moved.fps, folder / f"{fbx.name}.png")
    report.figure(f"{fbx.name}: the same vertices", max(far(again["vertices"], ours), far(ours, again["vertices"])))
    same(report, f"{fbx.name} read again", moved, motionkit.read(fbx, blender=program))


def main() -> int:
    """Run the checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="python3.11", help="a Python 3.11, to make the environment with")
    parser.add_argument("--blender", default="", help="a Blender, or a Python with bpy, instead of an environment")
    parser.add_argument("--rig", type=Path, action="append", default=[], help="a character, GLB or FBX; repeatable")
    parser.add_argument("--only", action="store_true", help="the characters of --rig alone")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    program = given.blender or environment(folder, given.python)
    torch.set_num_threads(1)
    report = Report(folder / ("characters.txt" if given.only else "figures.txt"))
    blender = find_blender(program)
    report.line(f"Blender {blender.version}, {'bpy in a Python' if blender.python else 'the program'}")
    policy = motionkit.load_policy()
    for prompt in () if given.only else PROMPTS:
        (made,) = policy.generate(prompt)
        word = prompt.split()[-1] if "walks" not in prompt else "walk"
        bvh = made.save(folder / f"{word}.bvh")
        for name, rate, more in (
            ("own", 0.0, {}),
            ("mixamo", 30.0, {"rig": "mixamo"}),
            ("unreal", 29.97, {"rig": "unreal"}),
        ):
            glb, fbx = (folder / f"{word}-{name}.{end}" for end in ("glb", "fbx"))
            for path in (glb, fbx):
                motionkit.convert(bvh, path, fps=rate, blender=program, overwrite=True, **more)
            clip = motionkit.read(glb)
            heads(report, program, glb, clip, folder / f"{glb.name}.png")
            heads(report, program, fbx, clip, folder / f"{fbx.name}.png")
            same(report, f"{fbx.name} read again", clip, motionkit.read(fbx, blender=program))
            if word == "walk":
                character(report, program, folder, glb, made)
    (walk,) = policy.generate(PROMPTS[0])
    for rig in given.rig:
        character(report, program, folder, rig, walk)
    report.line("all within 1 mm" if not report.failed else f"{report.failed} failed")
    return int(bool(report.failed))


if __name__ == "__main__":
    sys.exit(main())
