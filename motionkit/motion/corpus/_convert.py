"""Turning clips of any source into a HumanML3D-layout folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion._skeleton import HUMANML
from motionkit.motion.corpus._caption_table import CaptionRow, CaptionTable
from motionkit.motion.corpus._captions import Caption, clean_caption
from motionkit.motion.corpus._folder import SPLITS, HumanMLFolder
from motionkit.motion.corpus._sources import ClipSource, LoadedClip
from motionkit.motion.corpus._splits import assign_splits
from motionkit.motion.corpus._tagger import tag_caption
from motionkit.motion.features._extract import joints_to_features
from motionkit.motion.features._mirror import mirror, mirror_text

MIN_FRAMES = 40
"""Shortest clip in feature frames that HumanML3D's loaders take."""

MAX_FRAMES = 199
"""Longest; longer clips are cut into parts."""


@dataclass
class ConvertReport:
    """What a conversion did; nothing is left out without being listed.

    Attributes:
        written: Ids of the clips in the folder.
        failed: Origin and reason of clips that could not be used.
        short: Ids of clips with fewer than `MIN_FRAMES` frames, with their number of frames.
        cut: Ids of clips longer than `MAX_FRAMES`, with the number of parts they were cut into.
        uncaptioned: Ids written without a caption.
        motionless: Ids of the caption table that no clip has.
        warnings: What a person should look at.
        splits: Number of clips per split.
        frames: Feature frames written.
        skate: Median foot skate of the clips, m/s.
        jerk: Median jerk, m/s^3.
        seconds: Wall-clock time.
        cpu_seconds: Processor time.
    """

    written: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    uncaptioned: list[str] = field(default_factory=list)
    motionless: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    splits: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    skate: float = 0.0
    jerk: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class _Piece:
    key: str
    features: Tensor
    captions: tuple[Caption, ...]
    split: str
    group: str
    notes: dict[str, str]


def convert_to_humanml(
    sources: Sequence[ClipSource],
    out: Path,
    *,
    table: CaptionTable | None = None,
    mirrored: bool = False,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda key: None,
) -> ConvertReport:
    """Write a complete HumanML3D-layout folder.

    Each clip is put onto HumanML3D's target bones, onto the floor, at the origin and facing +Z; features are
    computed in float64. A clip that cannot be used is reported and does not stop the others. The folder appears
    whole or not at all.

    Args:
        sources: The clips.
        out: Folder to make.
        table: Captions, splits and groups; they go before what a source brings itself.
        mirrored: Also write each clip's mirror image as ``M<id>``, its captions mirrored (as HumanML3D does).
        overwrite: Replace a folder that has something in it.
        progress: Called with each clip's id when it is done.

    Returns:
        What was done.

    Raises:
        MotionkitError: `out` cannot be made, or no clip could be used.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    report = ConvertReport()
    matched = table.match(source.key for source in sources) if table is not None else {}
    rows = {key: table.rows[name] for key, name in matched.items()} if table is not None else {}
    splits: dict[str, str] = {}
    groups: dict[str, str] = {}
    record: dict[str, dict[str, str]] = {}
    skates: list[float] = []
    jerks: list[float] = []
    with HumanMLFolder(out, overwrite=overwrite) as folder:
        for source, result in _load_all(sources, rows, mirrored):
            progress(source.key)
            if isinstance(result, MotionkitError):
                report.failed[source.origin] = result.message
                continue
            for piece in _keep(source, result, report):
                if piece.key in splits:
                    report.failed[f"{source.origin} ({piece.key})"] = "another clip has this id already."
                    continue
                joints = folder.add(piece.key, piece.features, piece.captions)
                splits[piece.key], groups[piece.key] = piece.split, piece.group
                record[piece.key] = {"origin": source.origin, **piece.notes}
                skate, jerk = physics_sums(
                    joints[None], torch.tensor([len(joints)]), fps=HUMANML.fps, feet=HUMANML.feet
                )
                skates.append(float(skate))
                jerks.append(float(jerk))
                report.written.append(piece.key)
                report.frames += len(joints)
                if not piece.captions:
                    report.uncaptioned.append(piece.key)
        if not report.written:
            raise MotionkitError(
                f"none of {len(sources)} clip(s) could be used, so nothing was written.",
                why="; ".join(f"{name}: {reason}" for name, reason in list(report.failed.items())[:3])
                or f"all are shorter than {MIN_FRAMES} frames at {HUMANML.fps:g} fps.",
            )
        open_groups = {key: groups[key] for key, split in splits.items() if not split}
        splits.update(assign_splits(open_groups))
        _check_groups(splits, groups, report)
        report.splits = {split: sum(value == split for value in splits.values()) for split in SPLITS}
        if not report.splits["train"]:
            report.warnings.append("the train split is empty: Mean and Std were taken over all clips.")
        report.motionless = sorted(set(table.rows) - set(matched.values())) if table is not None else []
        report.skate, report.jerk = median(skates), median(jerks)
        folder.finish(splits, {"clips": record, "failed": report.failed, "short": report.short, "cut": report.cut})
    report.seconds, report.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return report


def _load_all(
    sources: Sequence[ClipSource], rows: dict[str, CaptionRow], mirrored: bool
) -> Iterator[tuple[ClipSource, tuple[list[_Piece], LoadedClip] | MotionkitError]]:
    """Load and extract on several threads, half of the cores, in the order of the sources."""
    with ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield from zip(
            sources, pool.map(lambda source: _load(source, rows.get(source.key), mirrored), sources), strict=True
        )


def _load(
    source: ClipSource, row: CaptionRow | None, mirrored: bool
) -> tuple[list[_Piece], LoadedClip] | MotionkitError:
    """Return the pieces of a clip (its parts, then their mirror images), or why there are none."""
    try:
        clip = source.load()
        if not bool(torch.isfinite(clip.joints).all()):
            raise MotionkitError("the motion is not finite (NaN or infinite).")
        if len(clip.joints) < 2:
            raise MotionkitError("the motion has a single frame.")
        pieces = _pieces(source.key, clip, row, clip.joints, mirrored=False)
        if mirrored:
            pieces += _pieces(source.key, clip, row, mirror(clip.joints, HUMANML), mirrored=True)
        return pieces, clip
    except MotionkitError as error:
        return error
    except OSError as error:
        return MotionkitError(f"cannot be read: {error}")


def _pieces(key: str, clip: LoadedClip, row: CaptionRow | None, joints: Tensor, *, mirrored: bool) -> list[_Piece]:
    """Cut a motion into parts of at most `MAX_FRAMES` feature frames and extract their features."""
    texts = row.captions if row is not None and row.captions else clip.captions
    split = (row.split if row is not None else "") or clip.split
    group = (row.group if row is not None else "") or clip.group or key
    texts = tuple(mirror_text(text) for text in texts) if mirrored else texts
    captions = tuple(Caption(text, tag_caption(text)) for text in map(clean_caption, texts) if text)
    ready = None if mirrored else clip.features
    frames = len(joints) - 1 if ready is None else len(ready)
    parts = -(-frames // MAX_FRAMES)
    pieces = []
    for part in range(parts):
        start, end = frames * part // parts, frames * (part + 1) // parts
        # A part keeps the frame after its last one, which its velocities need; ready features have used it already.
        features = (
            joints_to_features(joints[start : end + 1].double(), HUMANML).float() if ready is None else ready[start:end]
        )
        name = f"{'M' if mirrored else ''}{key}{f'_p{part}' if parts > 1 else ''}"
        pieces.append(_Piece(name, features, captions, split, group, clip.notes))
    return pieces


def _keep(source: ClipSource, result: tuple[list[_Piece], LoadedClip], report: ConvertReport) -> list[_Piece]:
    """Return the pieces worth writing, and note what is not and what was cut."""
    pieces, clip = result
    report.warnings.extend(f"{source.key}: {warning}" for warning in clip.warnings)
    plain = [piece for piece in pieces if not piece.key.startswith(f"M{source.key}")]
    if len(plain) > 1:
        report.cut[source.key] = len(plain)
    kept = []
    for piece in pieces:
        if not bool(torch.isfinite(piece.features).all()):
            report.failed[f"{source.origin} ({piece.key})"] = "its features are not finite."
        elif len(piece.features) < MIN_FRAMES:
            report.short[piece.key] = len(piece.features)
        else:
            kept.append(piece)
    return kept


def _check_groups(splits: dict[str, str], groups: dict[str, str], report: ConvertReport) -> None:
    """Warn of groups that a table put into several splits."""
    found: dict[str, set[str]] = {}
    for key, group in groups.items():
        found.setdefault(group, set()).add(splits[key])
    if leaks := sorted(group for group, where in found.items() if len(where) > 1):
        report.warnings.append(
            f"{len(leaks)} group(s) are in several splits, so held-out figures will flatter: {', '.join(leaks[:5])}"
        )
