"""Another frame rate than a file says."""

from __future__ import annotations

from dataclasses import replace

from motionkit.motion.clip import Clip
from motionkit.motion.motion import other_rate


def at_rate(clip: Clip, fps: float) -> Clip:
    """Return a clip with its frames at another rate than its file says, and a warning that names both."""
    motion = clip.motion
    if fps == motion.fps:
        return clip
    faster = fps / motion.fps
    tracks = {name: values * faster if name == "root_velocity" else values for name, values in motion.tracks.items()}
    return replace(
        clip,
        motion=replace(motion, fps=fps, tracks=tracks),
        timed=tuple(replace(one, start=one.start / faster, end=one.end / faster) for one in clip.timed),
        notes={**clip.notes, "fps": f"{fps:g}"},
        warnings=(*clip.warnings, other_rate(motion.fps, fps)),
    )
