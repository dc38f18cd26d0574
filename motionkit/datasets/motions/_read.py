"""Reading a set of clips for the motion predictor from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.clips.convert import load_clips, open_sources
from motionkit.datasets.motions._clips import ClipSet, clip_set
from motionkit.motion import Clip
from motionkit.motion._clip import clip_key


def read_clip_set(paths: Sequence[Path], *, fps: float) -> ClipSet:
    """Read motion files, such as the folder that ``motionkit convert --to mpl`` made.

    Args:
        paths: Files and folders in any format with rotations.
        fps: Frames per second to bring the clips to; 0 keeps the one that they all have.

    Raises:
        MotionkitError: A path is missing, a file cannot be read, or as `clip_set`.
    """
    opened = open_sources(paths)
    clips: list[tuple[str, Clip]] = []
    for source in opened.sources:
        for clip in load_clips(source):
            if clip.fault is not None:
                raise clip.fault
            clips.append((clip_key(source, clip), clip))
    return clip_set(", ".join(map(str, paths)), clips, fps)
