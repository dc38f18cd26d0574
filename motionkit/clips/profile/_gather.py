"""A profile of many sources, on several cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from motionkit.clips._walk import walk
from motionkit.clips.profile._measure import Measure, measure
from motionkit.clips.profile._profile import Profile
from motionkit.motion._clip import Clip, ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable


def profile_sources(
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> Profile:
    """Load and measure every clip; one that cannot be used is in `Profile.failed`, and the others go on.

    Args:
        sources: The clips.
        table: Captions, splits and groups; they go before what a source brings itself.
        jobs: Worker processes; 1 works in this one.
        progress: Called with each source's id when it is done.

    Raises:
        MotionkitError: A worker process died, or a clip fits several rows of the table.
    """
    rows, _ = table.deal({source.key: source.origin for source in sources}) if table is not None else ({}, [])
    profile = Profile()
    with closing(walk(sources, _measured, rows=rows, jobs=jobs, progress=progress)) as outcomes:
        for outcome in outcomes:
            for one in outcome.results:
                profile.add(one)
            for name, reason in outcome.failed().items():
                # The name is put before the reason anyway.
                start = f"{outcome.origin} "
                profile.failed[name] = reason.removeprefix(f"{outcome.origin}: ").removeprefix(start)
    return profile


def _measured(clip: Clip, key: str, origin: str) -> list[Measure]:
    return [measure(clip, key, origin)]
