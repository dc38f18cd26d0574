"""Write clips as single files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from motionkit.motion._clip import Clip
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT

FileKind = Literal["mpl", "bvh", "glb", "mp4", "gif", "html", "joints", "npz"]
SUFFIX = {
    "mpl": ".npz",
    "bvh": ".bvh",
    "glb": ".glb",
    "mp4": ".mp4",
    "gif": ".gif",
    "html": ".html",
    "joints": ".npy",
    "npz": ".npz",
}
PICTURES = ("mp4", "gif", "html")
"""Kinds that can show several clips in one file."""


def write_file(path: Path, kind: FileKind, clip: Clip, *, unit: Literal["m", "cm"] = "cm") -> dict[str, float]:
    """Write one clip as one file.

    Args:
        path: The file.
        kind: Its format.
        clip: The clip, at the frame rate to write.
        unit: Unit of a BVH file.

    Returns:
        ``residual_mean``, ``residual_max`` (metres) and ``flips`` if rotations were solved from joint positions.
    """
    motion = clip.motion
    if kind in PICTURES:
        write_pictures(path, [(clip, path.stem)])
        return {}
    if kind == "joints":
        from motionkit.formats.arrays._joints import write_joints
        from motionkit.rigs import to_body

        own = KIT if motion.names == KIT.joint_names else HUMANML
        write_joints(path, to_body(motion, own, motion.fps))
        return {}
    if kind == "npz":
        from motionkit.formats.native._write import write_native

        write_native(path, clip, source_hash=clip.notes.get("sha256", ""))
        return {}
    rotated, figures = _with_rotations(motion)
    if kind == "bvh":
        from motionkit.formats.bvh import write_bvh

        write_bvh(path, rotated, unit=unit)
    elif kind == "glb":
        from motionkit.formats.glb._write import write_glb

        write_glb(path, rotated, name=path.stem)
    else:
        from motionkit.formats.mpl import write_mpl_npz

        write_mpl_npz(path, replace(clip, motion=rotated), source_hash=clip.notes.get("sha256", ""))
    return figures


def _with_rotations(motion: Motion | JointMotion) -> tuple[Motion, dict[str, float]]:
    """Return the motion with rotations, and the residuals if they were solved from joint positions."""
    if isinstance(motion, Motion):
        return motion, {}
    from motionkit.rigs import solve

    solved = solve(motion)
    figures = {
        "residual_mean": solved.residual_mean,
        "residual_max": solved.residual_max,
        "flips": float(solved.flips),
    }
    return solved.motion, figures


def write_pictures(path: Path, shown: Sequence[tuple[Clip, str]]) -> None:
    """Write clips as one page or film; a title stands where a clip has no caption."""
    from motionkit.player import track_of, write_player

    tracks = [
        track_of(
            clip.motion,
            clip.captions[0].text if clip.captions else title,
            segments=[(caption.text, caption.start, caption.end) for caption in clip.timed],
            features=clip.features,
        )
        for clip, title in shown
    ]
    if path.suffix.lower() == ".html":
        write_player(path, tracks, title=path.stem)
    else:
        from motionkit.player.video import write_video

        write_video(path, tracks)


def kind_of(path: Path) -> FileKind | None:
    """Return the format of a file name's ending, or None for a folder."""
    by_suffix: dict[str, FileKind] = {SUFFIX[kind]: kind for kind in get_args(FileKind) if kind != "mpl"}
    return by_suffix.get(path.suffix.lower())
