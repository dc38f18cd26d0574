"""Convert clips to a folder, or only check them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from motionkit._version import __version__
from motionkit.clips._sources import FileSource
from motionkit.clips._walk import walk
from motionkit.clips.convert._by_skeleton import separate
from motionkit.clips.convert._check_clip import ClipFacts, check_clip
from motionkit.clips.convert._feature_target import FeatureTarget
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._resumable_folder import ResumableFolder, refuse_sources
from motionkit.clips.convert._targets import Piece, Target
from motionkit.motion._clip import Clip, ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable

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

    Example:
        >>> import numpy as np
        >>> from motionkit.clips.convert import FileTarget, open_sources
        >>> from motionkit.starter import Order, perform
        >>> np.save("wave.npy", perform([Order("wave/right", frames=60, seed=0)], fps=20.0)[0].joints)
        >>> report = convert(open_sources([Path("wave.npy")]).sources, Path("out"), FileTarget("npz"))
        >>> report.written, report.frames, sorted(path.name for path in Path("out").iterdir())
        (['wave'], 60, ['convert.json', 'wave.npz'])
    """
    report = ConvertReport(to=str(target.describe()["to"]))
    clips = {source.key: source.origin for source in sources}
    rows, report.motionless = table.deal(clips) if table is not None else ({}, [])
    if isinstance(target, FeatureTarget):
        target.check_names(sources)
    refuse_sources(out, sources)
    plan = {
        "version": __version__,
        **target.describe(),
        "fix": fix,
        "rows": {key: repr(row) for key, row in rows.items()},
    }
    pieces: list[Piece] = []
    record: dict[str, dict[str, object]] = {}
    marks = {source.key: source.fingerprint() for source in sources}
    with report.timed(), ResumableFolder(out, plan, marks, overwrite=overwrite) as folder:
        done = folder.done
        step = partial(write_clip, target=target, folder=folder.path, fix=fix)
        jobs = jobs if all(isinstance(source, FileSource) for source in sources) else 1
        with closing(
            walk(sources, step, rows=rows, done=done, out=folder.path, jobs=jobs, progress=progress)
        ) as outcomes:
            for outcome in outcomes:
                if outcome.key in done:
                    report.resumed += 1
                else:
                    folder.note(outcome)
                facts = {found.key: found.source() for found in outcome.results if isinstance(found, ClipFacts)}
                for piece in report.add(outcome):
                    pieces.append(piece)
                    about = {**facts.get(piece.clip, {}), **piece.figures}
                    record[piece.key] = {"origin": outcome.origin, "frames": piece.frames, **about}
        if not pieces:
            raise report.nothing(len(sources))
        report.conclude(pieces)
        if isinstance(target, FeatureTarget):
            target.finish(folder.path, pieces, report)
        elif note := separate(folder.path, pieces, out):
            report.warnings.append(note)
        folder.finish(
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
    return report


def check(sources: Sequence[ClipSource], *, jobs: int = 1, progress: Progress = lambda key: None) -> ConvertReport:
    """Load and check clips; write nothing.

    Args:
        sources: The clips.
        jobs: Worker processes.
        progress: Called with each source's id when it is done.

    Example:
        >>> from motionkit.datasets.export import dataset_sources
        >>> from motionkit import load_dataset
        >>> report = check(dataset_sources(load_dataset("starter"))[:2])
        >>> len(report.clips), report.failed
        (2, {})
    """
    report = ConvertReport()
    jobs = jobs if all(isinstance(source, FileSource) for source in sources) else 1
    with report.timed(), closing(walk(sources, write_clip, jobs=jobs, progress=progress)) as outcomes:
        for outcome in outcomes:
            report.add(outcome)
    return report


def write_clip(
    clip: Clip, key: str, origin: str, *, target: Target | None = None, folder: Path | None = None, fix: bool = False
) -> Iterator[ClipFacts | Piece]:
    """Check a clip and write it into a folder; without a target only check it."""
    clip, facts = check_clip(replace(clip, group=clip.group or key), key, target=target, fix=fix)
    yield facts
    if target is not None and folder is not None:
        yield from (replace(piece, clip=key) for piece in target.write(clip, key, folder))
