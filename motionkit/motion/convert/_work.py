"""What a worker process does with one source: load, check, cut, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ClipSource
from motionkit.motion.checks import Finding, check_motion, longest_clean_run
from motionkit.motion.convert._outcome import Found, Outcome, Piece
from motionkit.motion.convert._targets import Target
from motionkit.motion.corpus._caption_table import CaptionRow


@dataclass(frozen=True)
class Job:
    """One source and what is to be done with it.

    Attributes:
        source: Where the clips come from.
        target: How they are written; None only looks.
        folder: Where to.
        row: What a table says about them; goes before what the source brings itself.
        fix: Cut each clip to its longest clean run.
    """

    source: ClipSource
    target: Target | None = None
    folder: Path | None = None
    row: CaptionRow | None = None
    fix: bool = False


def work(job: Job) -> Outcome:
    """Do it. What is wrong with the source becomes part of the outcome.

    Raises:
        OSError: The disk refuses to take a file.
    """
    source = job.source
    fingerprint = source.fingerprint()
    try:
        clips = source.load()
    except MotionkitError as error:
        return Outcome(source.key, source.origin, fingerprint, problems={source.key: _said(error)})
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}."
        return Outcome(source.key, source.origin, fingerprint, problems={source.key: reason})
    found: list[Found] = []
    pieces: list[Piece] = []
    problems: dict[str, str] = {}
    for clip in clips:
        key = f"{source.key}_{clip.part}" if clip.part else source.key
        try:
            clip, facts = look(_captioned(clip, key, job.row), key, job)
            found.append(facts)
            if job.target is not None and job.folder is not None:
                pieces.extend(job.target.write(clip, key, job.folder))
        except MotionkitError as error:
            problems[key] = _said(error)
    return Outcome(source.key, source.origin, fingerprint, tuple(found), tuple(pieces), problems)


def look(clip: Clip, key: str, job: Job) -> tuple[Clip, Found]:
    """Check a clip; cut it to its longest clean run when that is asked for, and a rest pose where it would do harm.

    Args:
        clip: The clip.
        key: Its id.
        job: What is to be done with it.

    Returns:
        The clip, cut where it had to be, and what was found.

    Raises:
        MotionkitError: Nothing of it can be used.
    """
    motion = clip.motion
    findings: Sequence[Finding] = check_motion(motion)
    start, stop = 0, motion.frames
    warnings = list(clip.warnings)
    if job.fix:
        start, stop = longest_clean_run(motion.frames, findings)
        if stop <= start:
            raise MotionkitError("it has no clean frame.", why="; ".join(finding.detail for finding in findings))
    elif job.target is not None:
        kinds = {finding.kind for finding in findings}
        if "nan" in kinds:
            detail = next(finding.detail for finding in findings if finding.kind == "nan")
            raise MotionkitError("it holds values that are not finite.", why=f"{detail} --fix cuts them out.")
        if "rest-pose" in kinds and job.target.for_training:
            start = 1
            warnings.append("its first frame is a rest pose and was left out.")
    kept = (start, stop) if (start, stop) != (0, motion.frames) else None
    if kept is not None:
        features = None if clip.features is None else clip.features[start:stop]
        clip = replace(clip, motion=motion.cut(start, stop), features=features)
    facts = Found(
        key,
        motion.frames,
        motion.fps,
        dict(clip.notes),
        tuple(warnings),
        tuple(finding.document() for finding in findings),
        kept,
    )
    return clip, facts


def _said(error: MotionkitError) -> str:
    return f"{error.message.rstrip('.')} ({error.why.rstrip('.')})." if error.why else error.message


def _captioned(clip: Clip, key: str, row: CaptionRow | None) -> Clip:
    """Give a clip the captions, split and group of its table row, and a group in any case."""
    if row is None:
        return replace(clip, group=clip.group or key)
    return replace(
        clip,
        captions=row.captions or clip.captions,
        timed=() if row.captions else clip.timed,
        split=row.split or clip.split,
        group=row.group or clip.group or key,
    )
