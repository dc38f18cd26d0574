"""A profile of many sources, on several cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from motionkit.clips._pool import in_processes
from motionkit.clips.convert import load_clips, unforeseen
from motionkit.clips.profile._measure import Measure, measure
from motionkit.clips.profile._profile import Profile
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource, clip_key
from motionkit.motion.corpus._caption_table import CaptionRow, CaptionTable


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
    todo = [(source, rows.get(source.key)) for source in sources]
    profile = Profile()
    with closing(in_processes(_work, todo, jobs)) as results:
        for source, (measures, problems) in zip(sources, results, strict=True):
            for one in measures:
                profile.add(one)
            profile.failed.update(problems)
            progress(source.key)
    return profile


_Job = tuple[ClipSource, CaptionRow | None]
_Result = tuple[list[Measure], dict[str, str]]


def _work(job: _Job) -> _Result:
    """Measure one source's clips; what is wrong with them becomes part of the result."""
    source, row = job
    measures: list[Measure] = []
    problems: dict[str, str] = {}
    try:
        for clip in load_clips(source):
            key = clip_key(source, clip)
            try:
                if clip.fault is not None:
                    raise clip.fault
                measures.append(measure(clip.with_row(row), key, source.origin))
            except MotionkitError as error:
                problems[f"{source.origin} ({key})"] = _said(error, source.origin)
            except Exception as error:
                problems[f"{source.origin} ({key})"] = _said(unforeseen(error, source.origin), source.origin)
    except MotionkitError as error:
        problems[source.origin] = _said(error, source.origin)
    return measures, problems


def _said(error: MotionkitError, origin: str) -> str:
    """Return what an error says, without the name that is put before it anyway."""
    return error.sentence().removeprefix(f"{origin}: ").removeprefix(f"{origin} ")
