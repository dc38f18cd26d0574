"""Convert clips to a folder (`convert`) or to one file (`convert_file`), or only check them (`check`).

Each loads the sources with `motionkit.clips.walk`, checks and changes each clip, and returns a `ConvertReport`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from motionkit.clips.convert.check_clip import ClipFacts, check_clip
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.options import Request
from motionkit.clips.convert.report import ConvertReport
from motionkit.clips.convert.resumable import ResumableFolder, refuse_sources
from motionkit.clips.convert.targets import FileTarget, Piece, Target, write_file, writer_of
from motionkit.clips.edits import UNEDITED, Edits, edited, trimmed
from motionkit.clips.sources import FileSource
from motionkit.clips.walk import walk
from motionkit.errors import MotionkitError
from motionkit.formats.format import Fit, WriteOptions
from motionkit.formats.out import refuse_existing
from motionkit.motion.clip import Clip, ClipSource
from motionkit.motion.corpus.captions import Caption, CaptionTable
from motionkit.page.wording import count, joined
from motionkit.runs import require_writable
from motionkit.version import __version__

Progress = Callable[[str], None]

_PLAIN = WriteOptions()


def run_conversion(
    request: Request,
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    jobs: int = 1,
    progress: Progress = lambda key: None,
) -> ConvertReport:
    """Run a conversion; see `convert` and `convert_file`."""
    options = request.options
    if table is not None and table.timed and (request.edits.start or request.edits.end):
        raise MotionkitError(
            "--start and --end do not go together with a table of captions that has times.",
            why="the table says where each clip begins and ends.",
            fix="leave them out.",
        )
    if request.file is None:
        return convert(
            sources,
            request.out,
            request.target,
            table=table,
            fix=options.fix,
            edits=request.edits,
            overwrite=options.overwrite,
            jobs=jobs,
            progress=progress,
        )
    if table is not None:
        raise MotionkitError("--captions needs a folder as OUT.", why=f"{request.out} is a single file.")
    return convert_file(
        sources,
        request.out,
        request.file,
        fps=options.fps,
        fix=options.fix,
        edits=request.edits,
        overwrite=options.overwrite,
        options=request.target.options if isinstance(request.target, FileTarget) else _PLAIN,
        progress=progress,
    )


def convert(
    sources: Sequence[ClipSource],
    out: Path,
    target: Target,
    *,
    table: CaptionTable | None = None,
    fix: bool = False,
    edits: Edits = UNEDITED,
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
        edits: Changes of each clip.
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
    report = ConvertReport(to=str(target.describe()["to"]), shortest=target.shortest)
    clips = {source.key: source.origin for source in sources}
    rows, report.motionless = table.deal(clips) if table is not None else ({}, [])
    if isinstance(target, FeatureTarget):
        target.check_names(sources)
    refuse_sources(out, sources)
    plan = {
        "version": __version__,
        **target.describe(),
        "fix": fix,
        **({"edits": asdict(edits)} if edits != UNEDITED else {}),
        "rows": {key: repr(of) for key, of in rows.items()},
    }
    pieces: list[Piece] = []
    record: dict[str, dict[str, object]] = {}
    marks = {source.key: source.fingerprint() for source in sources}
    with report.timed(), ResumableFolder(out, plan, marks, overwrite=overwrite) as folder:
        done = folder.done
        step = partial(write_clip, target=target, folder=folder.path, fix=fix, edits=edits)
        jobs = jobs if all(isinstance(source, FileSource) for source in sources) else 1
        with closing(
            walk(sources, step, rows=rows, done=done, out=folder.path, jobs=jobs, progress=progress)
        ) as outcomes:
            for outcome in outcomes:
                if outcome.key in done:
                    report.resumed += 1
                else:
                    folder.note(outcome)
                facts = {
                    facts_of.key: facts_of.source() for facts_of in outcome.results if isinstance(facts_of, ClipFacts)
                }
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
                "long": report.long,
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
        >>> from motionkit.contracts.dataset import dataset_sources
        >>> from motionkit import load_dataset
        >>> report = check(dataset_sources(load_dataset("starter", clips=8))[:2])
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
    clip: Clip,
    key: str,
    origin: str,
    *,
    target: Target | None = None,
    folder: Path | None = None,
    fix: bool = False,
    edits: Edits = UNEDITED,
) -> Iterator[ClipFacts | Piece]:
    """Check a clip, change it and write it into a folder; without a target only check it."""
    clip = replace(trimmed(clip, edits), group=clip.group or key)
    clip, facts = check_clip(clip, key, target=target, fix=fix or "clean" in edits.fixes)
    yield facts
    if target is not None and folder is not None:
        figures: dict[str, float] = {}
        if edits.any:
            clip, figures = edited(clip.resample(target.rate or clip.motion.fps), edits)
        for piece in target.write(clip, key, folder):
            yield replace(piece, clip=key, figures={**piece.figures, **figures})


def separate(folder: Path, pieces: Sequence[Piece], out: Path) -> str:
    """Move the files of each skeleton into a sub-folder where there are several: a predictor is trained on one.

    Args:
        folder: Where the files are.
        pieces: The clips written.
        out: The folder that the user asked for, for the message.

    Returns:
        What was done, for the user; empty for one skeleton.
    """
    counts = Counter(piece.skeleton for piece in pieces)
    if len(counts) < 2:
        return ""
    names: dict[str, str] = {}
    for skeleton in sorted(counts, key=lambda skeleton_of: (-counts[skeleton_of], skeleton_of)):
        plain, number = f"{skeleton.partition(' ')[0]}-joints", 2
        name = plain
        while name in names.values():
            name, number = f"{plain}-{number}", number + 1
        names[skeleton] = name
        (folder / name).mkdir(exist_ok=True)
    for piece in pieces:
        for file in piece.files:
            (folder / file).replace(folder / names[piece.skeleton] / file)
    parts = ", ".join(f"{name} ({count(counts[skeleton], 'clip')})" for skeleton, name in names.items())
    first = out / next(iter(names.values()))
    return (
        f"the clips have {len(names)} skeletons, and a predictor is trained on one: each has its own folder in {out}: "
        f"{parts}. Train on one of them, such as {first}, or on several with --retarget first."
    )


def convert_file(
    sources: Sequence[ClipSource],
    out: Path,
    kind: str,
    *,
    fps: float = 0.0,
    options: WriteOptions = _PLAIN,
    fix: bool = False,
    edits: Edits = UNEDITED,
    overwrite: bool = False,
    progress: Progress = lambda key: None,
) -> ConvertReport:
    """Write one file.

    Args:
        sources: One clip; for pages and films several, which are shown side by side.
        out: The file.
        kind: Its format.
        fps: As in `FileTarget`.
        options: What the writer is told besides the clips; the model is that of the rig of `edits`.
        fix: Cut each clip to its longest clean run.
        edits: Changes of each clip.
        overwrite: Replace `out`.
        progress: Called with each source's id when it is read.

    Returns:
        What was done.

    Example:
        >>> from motionkit.contracts.dataset import dataset_sources
        >>> from motionkit import load_dataset
        >>> report = convert_file(dataset_sources(load_dataset("starter", clips=8))[:1], Path("clip.npz"), "npz")
        >>> Path("clip.npz").is_file(), report.frames == report.clips[0]["frames"]
        (True, True)
    """
    require_file(out, kind, len(sources), overwrite=overwrite)
    refuse_sources(out, sources)
    report = ConvertReport(to=kind)
    shown: list[_Shown] = []
    problems: list[MotionkitError] = []
    with report.timed():
        step = partial(_read_clip, target=FileTarget(kind, fps), fix=fix, edits=edits)
        with closing(walk(sources, step, progress=progress)) as outcomes:
            for outcome in outcomes:
                report.add(outcome)
                shown += [result for result in outcome.results if isinstance(result, _Shown)]
                problems += outcome.problems.values()
                if len(sources) == 1:
                    _check_parts(outcome.origin, [item.clip.part for item in shown], kind)
                _check_number(len(shown), kind)
        if not shown:
            raise problems[0] if len(problems) == 1 else report.nothing(len(problems))
        fit = Fit()
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            clips = [item.clip for item in shown]
            if writer_of(kind).most > 1:
                clips = [item.titled for item in shown]
            model = edits.rig.model if edits.rig is not None else ""
            fit = write_file(out, kind, clips, replace(options, model=model))
        except OSError as error:
            raise MotionkitError(f"{out} cannot be written: {error.strerror or error}.", code=1) from error
        report.written = [item.title for item in shown]
        report.frames = sum(item.clip.motion.frames for item in shown)
        first = Piece(report.written[0], report.frames, figures=fit.figures, worst=fit.worst, warnings=fit.warnings)
        report.conclude([first, *(replace(first, figures=item.figures, worst="", warnings=()) for item in shown)])
    return report


class _Shown(NamedTuple):
    """A clip at the rate to write, its title, and figures about what was changed."""

    clip: Clip
    title: str
    figures: dict[str, float]

    @property
    def titled(self) -> Clip:
        """The clip with a caption, its title if it has none."""
        return replace(self.clip, captions=self.clip.captions or (Caption(self.title),))


def _read_clip(
    clip: Clip, key: str, origin: str, *, target: FileTarget, fix: bool, edits: Edits
) -> list[ClipFacts | _Shown]:
    clip, facts = check_clip(trimmed(clip, edits), key, target=target, fix=fix or "clean" in edits.fixes)
    clip, figures = edited(clip.resample(target.rate or clip.motion.fps), edits)
    return [facts, _Shown(clip, key, figures)]


def require_file(out: Path, kind: str, count: int, *, overwrite: bool = False) -> None:
    """Refuse, before any work, a file that cannot be written.

    Args:
        out: The file.
        kind: Its format.
        count: Clips to go into it, as far as that is known.
        overwrite: Whether an existing file may be replaced.
    """
    require_writable(out, parents=True)
    refuse_existing(out, overwrite=overwrite)
    _check_number(count, kind)


def _check_number(number: int, kind: str) -> None:
    if number > writer_of(kind).most:
        raise MotionkitError(
            f"{number} clips do not fit into one file.",
            why=f"{_room(kind)}.",
            fix=f"give a folder as OUT and --to {kind}: it gets a file per clip.",
        )


def _check_parts(origin: str, parts: Sequence[str], kind: str) -> None:
    """Raise MotionkitError if the clips of one file do not fit into one file."""
    if len(parts) > writer_of(kind).most:
        raise MotionkitError(
            f"{origin} holds {len(parts)} motions: {joined(parts, 20)}.",
            why=f"{_room(kind)}.",
            fix=f"choose one with --clip NAME, or give a folder as OUT and --to {kind}.",
        )


def _room(kind: str) -> str:
    most = writer_of(kind).most
    return f"a .{kind} file shows at most {most} clips" if most > 1 else "such a file holds one clip"
