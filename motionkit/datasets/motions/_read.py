"""Reading a set of clips for the motion predictor from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.clips.convert import load_clips, open_sources
from motionkit.datasets.motions._clips import ClipSet, clip_set
from motionkit.datasets.motions._one_skeleton import ReadClip, on_one_skeleton
from motionkit.motion._clip import clip_key


def read_clip_set(paths: Sequence[Path], *, fps: float, retarget: str = "") -> ClipSet:
    """Read motion files, such as the folder that ``motionkit convert --to mpl`` made.

    Args:
        paths: Files and folders in any format with rotations.
        fps: Frames per second to bring the clips to; 0 keeps the one that they all have.
        retarget: Which of the paths has the skeleton that clips of other skeletons are brought to, or ``first``;
            empty refuses several skeletons.

    Raises:
        MotionkitError: A path is missing, a file cannot be read, or as `clip_set` and `on_one_skeleton`.
    """
    opened = open_sources(paths)
    clips: list[ReadClip] = []
    for source in opened.sources:
        for clip in load_clips(source):
            if clip.fault is not None:
                raise clip.fault
            clips.append(ReadClip(clip_key(source, clip), clip, Path(source.origin)))
    notes: list[str] = []
    found = [(one.key, one.clip) for one in clips]
    if retarget:
        found, notes = on_one_skeleton(clips, paths, retarget, fps)
    return clip_set(", ".join(map(str, paths)), found, fps, notes=notes)
