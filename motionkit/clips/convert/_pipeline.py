"""Convert or check many sources in parallel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from motionkit._version import __version__
from motionkit.clips._pool import in_processes
from motionkit.clips.convert._dataset import check_names, finish_dataset
from motionkit.clips.convert._dataset_target import FeatureTarget
from motionkit.clips.convert._file_source import FileSource
from motionkit.clips.convert._outcome import Outcome, Piece
from motionkit.clips.convert._place import Place, refuse_sources
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._targets import Target
from motionkit.clips.convert._work import Job, work
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.corpus._caption_table import CaptionRow, CaptionTable

Progress = Callable[[str], None]


def convert(
    sources: Sequence[ClipSource],
    out: Path,
    target: Target,
    *,
    table: CaptionTable | None = None,
    fix: bool = False,
    overwrite: bool = False,
    jobs: int = 1,
    progress: Progress = lambda key: None,
) -> ConvertReport:
    """Write a folder of clips in another format.

    A clip that cannot be used is reported and does not stop the others. The folder is written under another name and
    renamed when it is complete; a conversion that was killed continues when the same command is run again.

    Args:
        sources: The clips.
        out: Folder to make.
        target: Writer of each clip.
        table: Captions, splits and groups; they take precedence over those of the source.
        fix: Cut each clip to its longest clean run.
        overwrite: Replace the files of an earlier conversion in `out`; other files in it are never touched.
        jobs: Worker processes; 1 uses this process, and so do clips that are in memory.
        progress: Called with each source's id when it is done.

    Returns:
        What was done.

    Raises:
        MotionkitError: `out` cannot be made or written, a source lies in it, two clips would get one name, or no clip
            could be used.
    """
    wall, cpu = time.perf_counter(), _cpu_seconds()
    report = ConvertReport(to=str(target.describe()["to"]))
    clips = {source.key: source.origin for source in sources}
    rows, report.motionless = table.deal(clips) if table is not None else ({}, [])
    check_names(sources, target)
    refuse_sources(out, (source.path for source in sources if isinstance(source, FileSource)))
    plan = {
        "version": __version__,
        **target.describe(),
        "fix": fix,
        "options": [repr(getattr(source, "options", None)) for source in sources[:1]],
        "rows": {key: repr(row) for key, row in rows.items()},
    }
    pieces: list[Piece] = []
    record: dict[str, dict[str, object]] = {}
    marks = {source.key: source.fingerprint() for source in sources}
    with (
        Place(out, plan, marks, overwrite=overwrite) as place,
        closing(_outcomes(sources, rows, target, place, fix, jobs)) as outcomes,
    ):
        for source, outcome, fresh in outcomes:
            if fresh:
                place.note(outcome)
            else:
                report.resumed += 1
            progress(source.key)
            notes = {found.key: found.source() for found in outcome.clips}
            for piece in report.add(outcome):
                pieces.append(piece)
                about = {**notes.get(piece.clip, {}), **piece.figures}
                record[piece.key] = {"origin": outcome.origin, "frames": piece.frames, **about}
        if not pieces:
            raise MotionkitError(
                f"none of {len(sources)} clip(s) could be used, so nothing was written.",
                why=" ".join(_reasons(report)),
            )
        report.conclude(pieces)
        if isinstance(target, FeatureTarget):
            finish_dataset(place.folder, target, pieces, report)
        place.finish(
            {
                "schema": 1,
                "to": report.to,
                "clips": record,
                "failed": report.failed,
                "short": report.short,
                "cut": report.cut,
                "fixed": report.fixed,
            }
        )
    report.seconds, report.cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu
    return report


def check(sources: Sequence[ClipSource], *, jobs: int = 1, progress: Progress = lambda key: None) -> ConvertReport:
    """Load and check clips; write nothing.

    Args:
        sources: The clips.
        jobs: Worker processes.
        progress: Called with each source's id when it is done.
    """
    wall, cpu = time.perf_counter(), _cpu_seconds()
    report = ConvertReport()
    with closing(_run([Job(source) for source in sources], jobs)) as outcomes:
        for source, outcome in zip(sources, outcomes, strict=True):
            progress(source.key)
            report.add(outcome)
    report.seconds, report.cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu
    return report


def _outcomes(
    sources: Sequence[ClipSource],
    rows: Mapping[str, CaptionRow],
    target: Target,
    place: Place,
    fix: bool,
    jobs: int,
) -> Generator[tuple[ClipSource, Outcome, bool], None, None]:
    """Yield the outcome of each source, in order, and whether it was converted by this process."""
    old = {source.key: place.done(source.key) for source in sources}
    todo = [
        Job(source, target, place.folder, rows.get(source.key), fix) for source in sources if old[source.key] is None
    ]
    with closing(_run(todo, jobs)) as fresh:
        for source in sources:
            before = old[source.key]
            try:
                yield (source, next(fresh), True) if before is None else (source, before, False)
            except OSError as error:
                raise MotionkitError(
                    f"cannot write into {place.folder}: {error.strerror or error}.",
                    why="what was done so far is kept.",
                    fix="make room, then run the same command again: it goes on from there.",
                    code=1,
                ) from error


def _run(jobs: Sequence[Job], processes: int) -> Generator[Outcome, None, None]:
    """Run jobs in order; clips that are in memory are converted in this process."""
    files = all(isinstance(job.source, FileSource) for job in jobs)
    return in_processes(work, jobs, processes if files else 1)


def _reasons(report: ConvertReport) -> list[str]:
    """Return why no clip could be used, for at most three clips of each kind."""
    said = report.reasons()[:3]
    if report.short:
        listed = ", ".join(f"{key} ({frames} frames)" for key, frames in list(report.short.items())[:3])
        said.append(f"{len(report.short)} clip(s) are too short: {listed}.")
    return said


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
