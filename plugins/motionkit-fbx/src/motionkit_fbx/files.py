"""FBX files by way of GLB: a Blender makes one of the other."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from motionkit.config import cache_folder
from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.formats import RigFile, WriteOptions
from motionkit.formats.glb import read_glb, read_glb_pose, read_glb_rig, write_animated, write_glb
from motionkit.formats.writers import rotations_of
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.motion import JointMotion, Motion
from motionkit.runs import write_bytes_atomic
from motionkit_fbx.blender import SCRIPT, Blender, Job, find_blender, run_jobs
from motionkit_fbx.inside import NOMINAL

_MAGIC = b"Kaydara FBX Binary  \0"

_KEPT = 7 * 24 * 3600.0
"""Seconds that the GLB of a file stays in the cache, from when it was used last."""

_MAX_BYTES = 512 << 20

_ROUNDING = 1e-4
"""Metres. Blender bakes places in single precision, which leaves some thousandths of a millimetre."""

_PLAIN = ReadOptions()

_failed: dict[Path, str] = {}
"""Places in the cache to what Blender said of the file, so that it is not started again for the same answer."""


def read_fbx(path: Path, options: ReadOptions = _PLAIN) -> tuple[Clip, ...]:
    """Read an FBX file: a clip for each of its animations; see `motionkit.formats.glb.read_glb`.

    Blender reads it and writes a GLB file, which is kept in the cache for a week. It takes a key for each frame at the
    file's rate.

    Raises:
        MotionkitError: There is no Blender (`find_blender`), it cannot read the file, or there is no skeleton or no
            animation in it.
    """
    glb = fbx_as_glb(path, _blender(options.settings))
    try:
        clips = read_glb(glb, options)
    except MotionkitError as error:
        raise _about(path, glb, error) from error
    by = f"Blender {find_blender(_blender(options.settings)).version}"
    return tuple(
        replace(clip, motion=_still(clip.motion), notes={**clip.notes, "format": "FBX", "read by": by})
        for clip in clips
    )


def _still(motion: Motion | JointMotion) -> Motion | JointMotion:
    """Put joints that leave their place by rounding alone where they belong, so that they get no channel of places."""
    if isinstance(motion, JointMotion):
        return motion
    away = (motion.translations - motion.offsets).abs().amax((0, 2))
    still = (away < _ROUNDING) & (torch.tensor(motion.parents) >= 0)
    return replace(motion, translations=torch.where(still[:, None], motion.offsets, motion.translations))


def read_fbx_pose(path: Path, options: ReadOptions = _PLAIN) -> Motion:
    """Read the skeleton and the first frame of an FBX file; see `motionkit.formats.glb.read_glb_pose`."""
    glb = fbx_as_glb(path, _blender(options.settings))
    try:
        return read_glb_pose(glb, options)
    except MotionkitError as error:
        raise _about(path, glb, error) from error


def read_fbx_rig(path: Path, settings: Mapping[str, str]) -> RigFile:
    """Return the skeleton of an FBX file as `read_glb_rig` does, with a GLB file of it and its meshes."""
    glb = fbx_as_glb(path, _blender(settings), meshes=True)
    try:
        return RigFile(read_glb_rig(glb), str(glb))
    except MotionkitError as error:
        raise _about(path, glb, error) from error


def _blender(settings: Mapping[str, str]) -> str:
    return settings.get("blender", "")


def _about(path: Path, glb: Path, error: MotionkitError) -> MotionkitError:
    """Return an error about the GLB file as one about the file that it was made of."""
    plain = (text.replace(str(glb), str(path)) for text in (error.message, error.why, error.fix))
    message, why, fix = plain
    return MotionkitError(message, why=why, fix=fix, code=error.code)


def fbx_as_glb(path: Path, blender: str = "", *, meshes: bool = False) -> Path:
    """Return a GLB file of an FBX file; it lies in the cache."""
    program = find_blender(blender)
    place = _place(path, program, meshes=meshes)
    if not place.is_file() and place not in _failed:
        _make(program, {place: Job(path, place, meshes)})
    if place in _failed:
        raise MotionkitError(
            f"{path} cannot be read by Blender {program.version}.",
            why=_failed[place],
            fix="export it again, as binary FBX 7.1 (2011) or later.",
        )
    return place


def prepare_fbx(paths: Sequence[Path], options: ReadOptions = _PLAIN) -> None:
    """Make the GLB files of many FBX files with one Blender; what cannot be read is left to `read_fbx` to say."""
    program = find_blender(_blender(options.settings))
    wanted: dict[Path, Job] = {}
    for path in paths:
        with suppress(MotionkitError):
            place = _place(path, program)
            if not place.is_file() and place not in _failed:
                wanted[place] = Job(path, place)
    if wanted:
        _make(program, wanted)


def _make(program: Blender, jobs: dict[Path, Job]) -> None:
    """Make GLB files in the cache, and remove those from it that were not used for a week."""
    _sweep(_folder())
    with tempfile.TemporaryDirectory(prefix="motionkit-fbx-") as name:
        folder = Path(name)
        here = [replace(job, write=folder / f"{number}.glb") for number, job in enumerate(jobs.values())]
        for place, job, failure in zip(jobs, here, run_jobs(program, here, folder), strict=True):
            if failure:
                _failed[place] = failure
                continue
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_bytes_atomic(place, job.write.read_bytes())
            except OSError as error:
                raise MotionkitError(
                    f"{place} cannot be written: {error.strerror or error}.",
                    why="what Blender makes of an FBX file is kept there.",
                    fix="set MOTIONKIT_CACHE to a folder that can be written.",
                ) from error


def _place(path: Path, program: Blender, *, meshes: bool = False) -> Path:
    """Return where the GLB file of an FBX file is kept; refuse what is no binary FBX file."""
    try:
        state = path.stat()
        now = state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        name = _name(path, program.version, meshes, now)
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error
    place = _folder() / name
    with suppress(OSError):
        place.touch() if place.exists() else None
    return place


@cache
def _name(path: Path, version: str, meshes: bool, _state: tuple[int, ...]) -> str:
    """Return the name of the GLB file, a hash of the FBX content; a file of the same `_state` is not read again."""
    with open_file(path, _MAX_BYTES) as file:
        data = file.read()
    if not data.startswith(_MAGIC):
        text = b"FBXHeaderExtension" in data[:4096]
        raise MotionkitError(
            f"{path} is {'FBX as text, which Blender does not read' if text else 'not an FBX file'}.",
            why="" if text else "it does not begin as binary FBX files do.",
            fix="export it as binary FBX.",
        )
    digest = hashlib.sha256(f"{version} {meshes} {_script()}".encode())
    digest.update(data)
    return f"{digest.hexdigest()[:32]}.glb"


def _folder() -> Path:
    return cache_folder() / "fbx"


@cache
def _script() -> str:
    """Return the content of the script, another of which may make other files."""
    return SCRIPT.read_text(encoding="utf-8")


def _sweep(folder: Path) -> None:
    """Remove what was not used for a week."""
    with suppress(OSError):
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > _KEPT:
                path.unlink()


def write_fbx_clip(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write a clip; see `write_fbx`. The animation is called as the clip's part, else as the file."""
    (clip,), blender = clips, _blender(options.settings)
    write_fbx(path, rotations_of(clip), blender=blender, model=options.model, name=clip.part or path.stem)


def write_fbx(path: Path, motion: Motion, *, blender: str = "", model: str = "", name: str = "motion") -> None:
    """Write a motion as binary FBX: the skeleton, a key for each frame, and meshes.

    Centimetres, Y up, facing +Z; no joint has a scale. The bones' mesh is that of `write_glb`, or the meshes of `model`
    move with the motion.

    Args:
        path: File to write; it is replaced as a whole, or not at all.
        motion: The motion.
        blender: See `find_blender`.
        model: GLB file whose skeleton the motion is on.
        name: Name of the animation.
    """
    program = find_blender(blender)
    with tempfile.TemporaryDirectory(prefix="motionkit-fbx-") as folder:
        glb, fbx = Path(folder) / "motion.glb", Path(folder) / "motion.fbx"
        if model:
            write_animated(glb, Path(model), replace(motion, fps=NOMINAL), name=name)
        else:
            write_glb(glb, replace(motion, fps=NOMINAL), name=name)
        (error,) = run_jobs(program, [Job(glb, fbx, fps=motion.fps)], Path(folder))
        if error:
            raise MotionkitError(f"{path} cannot be written by Blender {program.version}.", why=error, code=1)
        write_bytes_atomic(path, fbx.read_bytes())
