"""Small data sets whose statistics are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from motionkit.clips.profile.measure import measure
from motionkit.clips.profile.statistics import Profile
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.motion import JointMotion, Motion

from ...made.persons import person


def walk(frames: int = 120, fps: float = 60.0, speed: float = 1.0, turn: float = 0.0, **more: object) -> Clip:
    """Return a clip of the walker of the checks' tests; captions are given as texts."""
    captions = tuple(map(Caption, more.pop("captions", ())))  # type: ignore[call-overload]
    return replace(Clip(person(frames, fps, speed, turn), captions=captions), **more)  # type: ignore[arg-type]


def joints_only(clip: Clip) -> Clip:
    """Return the clip without its rotations."""
    motion = clip.motion
    return replace(clip, motion=JointMotion(motion.names, motion.parents, motion.positions(), motion.fps))


def with_track(clip: Clip, name: str, values: torch.Tensor) -> Clip:
    """Return the clip with a track."""
    assert isinstance(clip.motion, Motion)
    return replace(clip, motion=replace(clip.motion, tracks={**clip.motion.tracks, name: values}))


@dataclass(frozen=True)
class Source:
    """A source in memory, or one that cannot be read."""

    key: str
    clips: Sequence[Clip] = ()
    problem: str = ""

    @property
    def origin(self) -> str:
        """Return a name for messages."""
        return f"memory {self.key}"

    def fingerprint(self) -> str:
        """Return nothing in particular."""
        return self.key

    def load(self) -> Sequence[Clip]:
        """Return the clips, or fail."""
        if self.problem:
            raise MotionkitError(f"{self.origin} {self.problem}")
        return self.clips


def profile_clips(clips: Iterable[tuple[str, Clip]], failed: Mapping[str, str] | None = None) -> Profile:
    """Profile clips that are loaded already.

    Args:
        clips: Id and clip.
        failed: What could not be read, for the record.
    """
    profile = Profile(failed=dict(failed or {}))
    for key, clip in clips:
        profile.add(measure(clip, key, key))
    return profile
