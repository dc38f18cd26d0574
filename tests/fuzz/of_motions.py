"""Readers of motion files, and the conversion that stands behind them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from motionkit.clips.convert import FileSource, FileTarget
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.resumable import outcome_line
from motionkit.clips.convert.run import write_clip
from motionkit.clips.walk import Job, work
from motionkit.errors import MotionkitError
from motionkit.formats.amass import read_smpl_model
from motionkit.formats.glb import read_glb_rig, write_animated, write_glb
from motionkit.formats.glb.tree import VRM_BONES
from motionkit.formats.native import write_native
from motionkit.formats.own import TABLES
from motionkit.formats.table import FORMATS, read_clips, readers
from motionkit.motion import Caption, Clip, Motion, ReadOptions
from motionkit.rigs.roles import find_roles

from ..made import mpl_files
from ..made.bvh_files import write_odd
from ..made.glb_files import Document, as_text, edit
from ..made.samples import SAMPLES, write_sample
from .reader import Reader

_FRAMES = 45
_NAMES = tuple(form.name for form in readers() if form.name in SAMPLES and form.name != "fbx")  # which Blender reads


def _make_format(name: str, scratch: Path) -> None:
    (scratch / "sample").mkdir()
    write_sample(scratch / "sample", name, _FRAMES)
    more = scratch / "more"
    if name in ("bvh", "unreal-json", "mpl", "amass", "npz"):
        more.mkdir()
    motion = mpl_files.starter_motion(frames=6)
    document = mpl_files.exported(motion, np.linspace(0.0, 1.0, 6))
    match name:
        case "bvh":
            write_odd(more / "a.bvh")
        case "unreal-json":
            mpl_files.save(more / "a.json", mpl_files.guide(document))
            for file, content in zip(TABLES, mpl_files.tables(motion), strict=True):
                mpl_files.save(more / file, content)
            whole = mpl_files.save(scratch / "whole" / "a.json", document)
            assert whole.is_file()
        case "mpl":
            mpl_files.original_npz(more / "a.npz", document)
        case "amass":
            bodies = {"poses": np.zeros((20, 66)), "betas": np.zeros(10), "gender": np.array("female")}
            np.savez(more / "a.npz", trans=np.zeros((20, 3)), mocap_frame_rate=30.0, **bodies)
        case "npz":
            captions = (Caption("a man walks", ("a/DET", "man/NOUN", "walk/VERB")),)
            clip = Clip(motion, captions=captions, timed=(Caption("he stops", (), 0.1, 0.2),), group="g", split="val")
            write_native(more / "a.npz", clip)
        case _:
            pass


def _read_format(name: str, folder: Path) -> None:
    path = folder / f"a.{FORMATS[name].suffix.rsplit('.', 1)[1]}"
    for clip in read_clips(path, ReadOptions(fps=60.0)):
        finite = bool(clip.motion.positions().isfinite().all())
        faulty = name == "npz" or clip.fault is not None  # our own files hold what was said already
        said = faulty or any("not finite" in warning for warning in clip.warnings)
        assert finite or said, "what is not finite goes unsaid"


def _format(name: str) -> Reader:
    return Reader(name, lambda scratch: _make_format(name, scratch), lambda folder: _read_format(name, folder))


def _make_gltf(scratch: Path) -> None:
    """Make a file of text with its data inside, in one buffer and in three."""
    made = scratch / "made.glb"
    write_glb(made, mpl_files.starter_motion(frames=6))
    for pieces in (1, 3):
        (scratch / str(pieces)).mkdir()
        as_text(made, scratch / str(pieces) / "a.gltf", pieces=pieces)


def _make_vrm(scratch: Path) -> None:
    """Make a model of each version, and an animation."""
    made = scratch / "made.glb"
    motion = mpl_files.starter_motion(frames=6)
    write_glb(made, motion)
    bones = {bone: find_roles(motion.names, motion.parents)[role] for bone, role in VRM_BONES.items()}
    tables: dict[str, object] = {
        "VRM": [{"bone": bone, "node": node} for bone, node in bones.items()],
        "VRMC_vrm": {bone: {"node": node} for bone, node in bones.items()},
        "VRMC_vrm_animation": {bone: {"node": node} for bone, node in bones.items()},
    }
    for name, table in tables.items():
        (scratch / name).mkdir()

        def change(document: Document, name: str = name, table: object = table) -> None:
            document["extensions"] = {name: {"humanoid": {"humanBones": table}}}
            for number, node in enumerate(document["nodes"]):
                node["name"] = f"node {number}"

        edit(made, change, scratch / name / "a.vrm")


def _read_scene(folder: Path) -> None:
    """Read a file as a motion and as a rig, and write a motion into it."""
    (path,) = folder.iterdir()
    clips = read_clips(path)
    rig = read_glb_rig(path)
    still = Motion(rig.names, rig.parents, rig.offsets, rig.rotations, rig.offsets[None], 30.0)
    write_animated(folder / "out.glb", path, still)
    assert all(clip.motion.names == rig.names for clip in clips)


_TARGETS = (FeatureTarget(), FileTarget("npz"), FileTarget("bvh"), FileTarget("mpl"), None)


def _make_conversion(scratch: Path) -> None:
    for name in _NAMES:
        (scratch / name).mkdir()
        path = write_sample(scratch / name, name, _FRAMES)
        path.rename(path.with_name(f"{name}{path.suffix}"))


def _convert(folder: Path) -> None:
    """Convert as the workers of ``motionkit convert`` do: what is wrong is a problem of the clip, never unforeseen."""
    (path,) = [path for path in folder.iterdir() if path.stem in _NAMES]
    turn = path.lstat().st_size
    out = folder / "out"
    out.mkdir()
    source = FileSource(path, path.stem, path.stem, ReadOptions(fps=60.0))
    target = _TARGETS[turn % len(_TARGETS)]
    outcome = work(Job(source, partial(write_clip, target=target, folder=out, fix=bool(turn % 2))))
    json.loads(outcome_line(outcome))
    reasons = list(outcome.failed().values())
    assert all("unexpected" not in reason and "\n" not in reason for reason in reasons), reasons
    assert target is None or len(outcome.results) > 1 or reasons, "neither converted nor refused"
    if reasons:
        raise MotionkitError("; ".join(reasons))


def _make_smpl(scratch: Path) -> None:
    parents = [2**32 - 1, *_smpl_parents()]
    arrays = {
        "J_regressor": np.full((24, 30), 1 / 30),
        "v_template": np.linspace(0, 1, 90).reshape(30, 3),
        "shapedirs": np.zeros((30, 3, 4)),
        "kintree_table": np.array([parents, range(24)], np.uint32),
    }
    for name in ("npz", "pkl"):
        (scratch / name).mkdir()
    np.savez(scratch / "npz" / "model.npz", **arrays)
    import pickle

    (scratch / "pkl" / "model.pkl").write_bytes(pickle.dumps(arrays, protocol=2))


def _smpl_parents() -> list[int]:
    from motionkit.motion import HUMANML

    return [*HUMANML.parents[1:], 20, 21]


def _read_smpl(folder: Path) -> None:
    for path in folder.iterdir():
        read_smpl_model(path)


READERS = (
    *map(_format, _NAMES),
    Reader("gltf", _make_gltf, _read_scene),
    Reader("vrm", _make_vrm, _read_scene),
    Reader("conversion", _make_conversion, _convert),
    Reader("smpl-model", _make_smpl, _read_smpl),
)
