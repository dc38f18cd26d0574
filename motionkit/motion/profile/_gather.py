"""A profile of many sources, on several cores."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.profile._measure import Measure, measure
from motionkit.motion.profile._profile import Profile

_WORTH_A_POOL = 400
"""Starting worker processes takes as long as measuring about this many clips."""


def profile_sources(
    sources: Sequence[ClipSource], *, jobs: int = 1, progress: Callable[[str], None] = lambda key: None
) -> Profile:
    """Load and measure every clip; one that cannot be used is in `Profile.failed`, and the others go on.

    Args:
        sources: The clips.
        jobs: Worker processes; 1 works in this one.
        progress: Called with each source's id when it is done.

    Raises:
        MotionkitError: A worker process died.
    """
    profile = Profile()
    for source, (measures, problems) in zip(sources, _results(sources, jobs), strict=True):
        for one in measures:
            profile.add(one)
        profile.failed.update(problems)
        progress(source.key)
    return profile


_Result = tuple[list[Measure], dict[str, str]]


def _results(sources: Sequence[ClipSource], jobs: int) -> Iterator[_Result]:
    if jobs < 2 or len(sources) < _WORTH_A_POOL:
        yield from map(_work, sources)
        return
    # Fresh processes rather than forked ones: a fork in the middle of torch's threads can hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(sources)), mp_context=context, initializer=_start) as pool:
        try:
            yield from pool.map(_work, sources, chunksize=8)
        except BrokenProcessPool as error:
            raise MotionkitError(
                "a worker process died.",
                why="the system may have been out of memory.",
                fix="run the same command again with fewer --jobs.",
                code=1,
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _start() -> None:
    """Prepare a worker: one thread each, and Ctrl-C is the parent's business."""
    import signal

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(source: ClipSource) -> _Result:
    """Measure one source's clips; what is wrong with them becomes part of the result."""
    measures: list[Measure] = []
    problems: dict[str, str] = {}
    try:
        for clip in source.load():
            key = f"{source.key}_{clip.part}" if clip.part else source.key
            try:
                measures.append(measure(clip, key, source.origin))
            except MotionkitError as error:
                problems[f"{source.origin} ({key})"] = _said(error, source.origin)
    except MotionkitError as error:
        problems[source.origin] = _said(error, source.origin)
    except OSError as error:
        problems[source.origin] = f"cannot be read: {error.strerror or error}."
    return measures, problems


def _said(error: MotionkitError, origin: str) -> str:
    """Return what an error says, without the name that is put before it anyway."""
    text = " ".join(part for part in (error.message, error.why) if part)
    return text.removeprefix(f"{origin}: ").removeprefix(f"{origin} ")
