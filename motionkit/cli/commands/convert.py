"""``motionkit convert IN... OUT``: motions from elsewhere into what everything here and elsewhere reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from motionkit.cli._inputs import (
    CaptionColumn,
    Captions,
    GroupColumn,
    Hierarchy,
    IdColumn,
    Offsets,
    Rot6dColumns,
    SmplModel,
    SourceFps,
    SplitColumn,
    StarterClips,
    Units,
    Up,
    open_inputs,
    open_table,
)
from motionkit.cli.output import JsonFlag, emit, say, table, warn
from motionkit.cli.progress import bar
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.motion import ClipSource
    from motionkit.motion.convert import ConvertReport, Target

TO = Literal["humanml", "kit", "mpl", "bvh", "glb", "mp4", "gif", "html", "joints", "npz"]
_WRITE = "Writing"
_FOREIGN = (".fbx", ".gltf", ".usd", ".usdz", ".c3d", ".obj", ".mov", ".avi", ".webm", ".pkl", ".json", ".csv", ".zip")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def convert(
        paths: Annotated[
            list[str],
            typer.Argument(
                metavar="IN... OUT",
                help="Motion files, folders of them, or the word starter; then the file or folder to make. "
                "With --check every path is an input.",
            ),
        ],
        to: Annotated[
            TO | None,
            typer.Option(
                "--to", help="What to write; default: by OUT's ending, humanml for a folder.", metavar="FORMAT"
            ),
        ] = None,
        check: Annotated[
            bool, typer.Option("--check", help="Report what is wrong with each clip; write nothing.")
        ] = False,
        fix: Annotated[bool, typer.Option("--fix", help="Keep the longest clean run of each clip.")] = False,
        up: Up = "auto",
        units: Units = "auto",
        source_fps: SourceFps = 0.0,
        rot6d_columns: Rot6dColumns = "auto",
        hierarchy: Hierarchy = None,
        offsets: Offsets = None,
        smpl_model: SmplModel = None,
        clips: StarterClips = 512,
        fps: Annotated[
            float,
            typer.Option("--fps", min=0, help="Rate to write; 0: each clip's own, joints 20.", rich_help_panel=_WRITE),
        ] = 0.0,
        bvh_unit: Annotated[
            Literal["cm", "m"], typer.Option("--bvh-unit", help="Unit of BVH files written.", rich_help_panel=_WRITE)
        ] = "cm",
        min_frames: Annotated[
            int,
            typer.Option(
                "--min-frames", min=1, help="Leave out shorter clips; datasets have their own.", rich_help_panel=_WRITE
            ),
        ] = 1,
        mirror: Annotated[
            bool,
            typer.Option("--mirror", help="humanml, kit: also each clip's mirror image.", rich_help_panel=_WRITE),
        ] = False,
        jobs: Annotated[
            int, typer.Option("--jobs", min=0, help="Worker processes; 0: one per core.", rich_help_panel=_WRITE)
        ] = 0,
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="Replace OUT if it is there.", rich_help_panel=_WRITE)
        ] = False,
        captions: Captions = None,
        caption_column: CaptionColumn = None,
        id_column: IdColumn = "",
        split_column: SplitColumn = "",
        group_column: GroupColumn = "",
        json: JsonFlag = False,
    ) -> None:
        """Convert motions between formats, check them, or build a dataset.

        Reads BVH, Unreal / MPL JSON, AMASS and SMPL npz, joints and features as .npy, MDM results.npy, HumanML3D and
        KIT folders, motionkit npz. Writes HumanML3D and KIT folders, MPL npz, BVH, GLB, MP4, GIF, HTML, joints, npz.
        """
        from motionkit.motion import ReadOptions

        options = ReadOptions(up, units, source_fps, rot6d_columns, hierarchy, offsets, smpl_model)
        workers = jobs or os.cpu_count() or 1
        if check:
            _refuse_for_check(to, fix)
            _check(open_inputs(paths, options, clips), workers, json=json)
            return
        if len(paths) < 2:
            raise MotionkitError(
                "convert needs something to read and a place to write.", fix="motionkit convert IN... OUT"
            )
        out = Path(paths[-1])
        kind = _kind(to, out, paths[:-1])
        _refuse_idle(kind, fps=fps, mirror=mirror, bvh_unit=bvh_unit, min_frames=min_frames)
        rows = open_table(captions, caption_column, id_column, split_column, group_column)
        sources = open_inputs(paths[:-1], options, clips)
        if _is_file(out, kind):
            from motionkit.motion.convert import convert_file

            if rows is not None:
                raise MotionkitError("--captions needs a folder as OUT.", why=f"{out} is a single file.")
            report = convert_file(sources, out, kind, fps=fps, unit=bvh_unit, fix=fix, overwrite=overwrite)  # type: ignore[arg-type]  # _is_file excludes datasets
        else:
            from motionkit.motion.convert import convert as convert_folder

            target = _target(kind, fps, bvh_unit, min_frames, mirror)
            with bar("convert", total=len(sources)) as step:
                report = convert_folder(
                    sources,
                    out,
                    target,
                    table=rows,
                    fix=fix,
                    overwrite=overwrite,
                    jobs=workers,
                    progress=lambda key: step(1, note=key),
                )
        _tell(report, out, fixed=fix, json=json)


def _kind(to: TO | None, out: Path, inputs: Sequence[str]) -> TO:
    """Return what is to be written."""
    from motionkit.motion.convert import kind_of

    by_name = kind_of(out)
    if to is not None:
        if by_name is not None and by_name != to and not (to == "mpl" and by_name == "npz") and not out.is_dir():
            raise MotionkitError(f"--to {to} does not fit the name {out}.", fix="leave one of them out.")
        return to
    if by_name == "npz" and all(name.lower().endswith(".json") for name in inputs):
        return "mpl"  # what the predictor's own converter makes of its JSON
    if by_name is not None:
        return by_name
    if out.suffix.lower() in _FOREIGN and not out.is_dir():
        raise MotionkitError(
            f"{out.suffix} files cannot be written.",
            why="convert writes .bvh, .glb, .mp4, .gif, .html, .npy (joints), .npz and dataset folders.",
            fix="Blender and most engines read .glb and .bvh.",
        )
    return "humanml"


def _is_file(out: Path, kind: TO) -> bool:
    from motionkit.motion.convert import kind_of

    return kind not in ("humanml", "kit") and kind_of(out) is not None and not out.is_dir()


def _target(kind: TO, fps: float, unit: Literal["m", "cm"], min_frames: int, mirror: bool) -> Target:
    from motionkit.motion.convert import FeatureTarget, FileTarget

    if kind == "humanml" or kind == "kit":
        return FeatureTarget(kind, mirror)
    return FileTarget(kind, fps, unit, min_frames)


def _refuse_for_check(to: TO | None, fix: bool) -> None:
    if to is not None or fix:
        raise MotionkitError(
            f"--check does not go together with {'--to' if to else '--fix'}.",
            why="it writes nothing.",
            fix="check first; then convert with --fix to keep the longest clean run of each clip.",
        )


def _refuse_idle(kind: TO, *, fps: float, mirror: bool, bvh_unit: str, min_frames: int) -> None:
    """Refuse options that could not act."""
    dataset = {"humanml": 20.0, "kit": 12.5}.get(kind)
    if dataset is not None and fps not in (0.0, dataset):
        raise MotionkitError(f"--fps {fps:g}: {kind} has {dataset:g} frames per second.", fix="leave --fps out.")
    if dataset is not None and min_frames != 1:
        raise MotionkitError(f"--min-frames does not act with --to {kind}.", why="its loaders fix the shortest clip.")
    if mirror and dataset is None:
        raise MotionkitError(f"--mirror does not act with --to {kind}.", fix="it belongs to humanml and kit.")
    if bvh_unit != "cm" and kind != "bvh":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")


def _check(sources: Sequence[ClipSource], workers: int, *, json: bool) -> None:
    """Load everything, print what was found, and end with exit code 1 when something is wrong."""
    from motionkit.motion.convert import check

    with bar("check", total=len(sources)) as step:
        report = check(sources, jobs=workers, progress=lambda key: step(1, note=key))
    bad = [clip for clip in report.clips if any(f["severity"] == "error" for f in clip["findings"])]
    error = None
    if bad or report.failed:
        error = MotionkitError(
            f"{len(bad)} of {len(report.clips)} clip(s) have something wrong, {len(report.failed)} could not be read.",
            fix="motionkit convert IN... OUT --fix keeps the longest clean run of each.",
            code=1,
        )
    if not json:
        columns = ("clip", "frames", "fps", "format", "finding", "where", "what")
        table(f"{len(report.clips)} clip(s)", columns, [row for clip in report.clips for row in _rows(clip)])
        _warn_all(report)
    _end({"command": "check", "clips": report.clips, "failed": report.failed, "warnings": report.warnings}, error, json)


def _rows(clip: dict[str, Any]) -> list[tuple[object, ...]]:
    facts = (clip["clip"], clip["frames"], clip["fps"], clip.get("format", ""))
    findings = clip["findings"] or [{"kind": "-", "frames": [], "detail": ""}]
    return [
        (
            *(facts if number == 0 else ("", "", "", "")),
            finding["kind"],
            ", ".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in finding["frames"][:4])
            + (", ..." if len(finding["frames"]) > 4 else ""),
            finding["detail"],
        )
        for number, finding in enumerate(findings)
    ]


def _warn_all(report: ConvertReport) -> None:
    for reason in _reasons(report):
        warn(f"not used: {reason}")
    for text in report.warnings:
        warn(text)


def _reasons(report: ConvertReport) -> list[str]:
    """Return why clips were not used; most readers name the file themselves."""
    return [reason if name in reason else f"{name}: {reason}" for name, reason in report.failed.items()]


def _tell(report: ConvertReport, out: Path, *, fixed: bool, json: bool) -> None:
    """Print what was done, and end with exit code 1 when some clip could not be used."""
    _warn_all(report)
    for clip in report.clips:
        for finding in clip["findings"]:
            if finding["severity"] == "error" and finding["kind"] != "rest-pose" and clip["clip"] not in report.fixed:
                warn(f"{clip['clip']}: {finding['detail']}")
    if report.short:
        listed = ", ".join(f"{key} ({frames})" for key, frames in report.short.items())
        warn(f"{len(report.short)} clip(s) are too short and were left out: {listed}")
    if fixed:
        frames = {clip["clip"]: clip["frames"] for clip in report.clips}
        cuts = ", ".join(f"{key} ({a}-{b - 1} of {frames[key]})" for key, (a, b) in report.fixed.items())
        say(f"{len(report.fixed)} clip(s) were cut to their longest clean run: {cuts or 'none had to be'}")
    if report.cut:
        say(f"{len(report.cut)} clip(s) were longer than 199 frames and were cut: {', '.join(report.cut)}")
    if report.resumed:
        say(f"{report.resumed} clip(s) were done before the last run was interrupted.")
    if report.uncaptioned:
        warn(f"{len(report.uncaptioned)} clip(s) have no caption; training on text needs one (--captions CSV).")
    if report.motionless:
        warn(f"{len(report.motionless)} caption row(s) have no clip: {', '.join(report.motionless[:10])}")
    error = None
    if report.failed:
        error = MotionkitError(
            f"{len(report.failed)} clip(s) could not be used; the other {len(report.written)} are in {out}.",
            why=" ".join(_reasons(report)[:3]),
            code=1,
        )
    if not json:
        rows = [
            ("clips", len(report.written)),
            *((split, count) for split, count in report.splits.items()),
            ("frames", report.frames),
            ("left out", len(report.short) + len(report.failed)),
            *((_FIGURES.get(name, name), value) for name, value in report.figures.items()),
            ("seconds", report.seconds),
            ("CPU-seconds", report.cpu_seconds),
        ]
        table(f"wrote {out}", ("", ""), rows)
    _end({"command": "convert", "out": str(out), **asdict(report)}, error, json)


_FIGURES = {
    "skate": "median foot skate, m/s",
    "jerk": "median jerk, m/s^3",
    "residual_mean": "joints to rotations: median of mean residuals, m",
    "residual_max": "joints to rotations: largest residual, m",
    "flips": "joints to rotations: flips",
}


def _end(document: dict[str, Any], error: MotionkitError | None, json: bool) -> None:
    """Print the one JSON document, or raise the error for the root to print."""
    if json:
        document = {**document, "status": "failed" if error else "done"}
        if error is not None:
            document["error"] = {"code": 1, "message": error.message, "why": error.why, "fix": error.fix}
        emit(document, json=True)
        if error is not None:
            # One document per command: the error is in it, so the root must not print another.
            raise typer.Exit(1)
    elif error is not None:
        raise error
