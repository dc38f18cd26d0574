"""``motionkit convert IN... OUT``: motions from elsewhere into a dataset that everything here reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from motionkit.cli.output import JsonFlag, emit, say, table, warn
from motionkit.cli.progress import bar
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.motion import ClipSource, ConvertReport

STARTER = "starter"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def convert(
        inputs: Annotated[
            list[str], typer.Argument(metavar="IN...", help="BVH files, folders of them, or the word starter.")
        ],
        out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.")],
        to: Annotated[Literal["humanml"], typer.Option("--to", help="Layout of OUT.")] = "humanml",
        captions: Annotated[
            Path | None, typer.Option("--captions", metavar="CSV", help="Table with a row per clip and its captions.")
        ] = None,
        caption_column: Annotated[
            list[str] | None,
            typer.Option("--caption-column", metavar="NAME", help="Column with a caption; may be given several times."),
        ] = None,
        id_column: Annotated[str, typer.Option("--id-column", metavar="NAME", help="Column with the clip's id.")] = "",
        split_column: Annotated[
            str, typer.Option("--split-column", metavar="NAME", help="Column with train, val or test.")
        ] = "",
        group_column: Annotated[
            str,
            typer.Option("--group-column", metavar="NAME", help="Column whose equal values stay in one split."),
        ] = "",
        mirror: Annotated[bool, typer.Option("--mirror", help="Write each clip's mirror image too, as M<id>.")] = False,
        up: Annotated[Literal["y", "z"], typer.Option("--up", help="Vertical axis of the BVH files.")] = "y",
        clips: Annotated[
            int, typer.Option("--clips", min=1, help="Training clips of the starter; val and test in proportion.")
        ] = 512,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it has something in it.")] = False,
        json: JsonFlag = False,
    ) -> None:
        """Convert motions to a HumanML3D-layout folder: features, joints, texts with tags, splits, Mean, Std."""
        from motionkit.motion import convert_to_humanml, read_caption_table

        if captions is None and (caption_column or id_column or split_column or group_column):
            raise MotionkitError("a column was named, but no table.", fix="add --captions CSV.")
        rows = None
        if captions is not None:
            rows = read_caption_table(
                captions,
                caption_columns=caption_column or (),
                id_column=id_column,
                split_column=split_column,
                group_column=group_column,
            )
            say(f"columns of {captions}: " + ", ".join(f"{role} = {name}" for role, name in rows.columns.items()))
        sources = _sources(inputs, up, clips)
        with bar("convert", total=len(sources)) as step:
            report = convert_to_humanml(
                sources,
                out,
                table=rows,
                mirrored=mirror,
                overwrite=overwrite,
                progress=lambda key: step(1, note=key),
            )
        _tell(report, out, json=json)


def _sources(inputs: Sequence[str], up: str, clips: int) -> Sequence[ClipSource]:
    """Open everything that is to be converted."""
    from motionkit.motion import bvh_sources

    sources: list[ClipSource] = []
    if files := [Path(name) for name in inputs if name != STARTER]:
        sources.extend(bvh_sources(files, up=up))
    if STARTER in inputs:
        from motionkit.datasets.export import dataset_sources
        from motionkit.datasets.starter import StarterOptions, component

        options = StarterOptions(clips=clips, val_clips=max(1, clips // 8), test_clips=max(1, clips // 4))
        sources.extend(dataset_sources(component.build(options)))
    return sources


def _tell(report: ConvertReport, out: Path, *, json: bool) -> None:
    """Print what was done, and end with exit code 1 when some clip could not be used."""
    for name, reason in report.failed.items():
        warn(f"not used: {name}: {reason}")
    for text in report.warnings:
        warn(text)
    if report.short:
        listed = ", ".join(f"{key} ({frames})" for key, frames in report.short.items())
        warn(f"{len(report.short)} clip(s) have fewer than 40 frames and were left out: {listed}")
    if report.cut:
        say(f"{len(report.cut)} clip(s) were longer than 199 frames and were cut: {', '.join(report.cut)}")
    if report.uncaptioned:
        warn(f"{len(report.uncaptioned)} clip(s) have no caption; training on text needs one (--captions CSV).")
    if report.motionless:
        warn(f"{len(report.motionless)} caption row(s) have no clip: {', '.join(report.motionless[:10])}")
    error = None
    if report.failed:
        error = MotionkitError(
            f"{len(report.failed)} clip(s) could not be used; the other {len(report.written)} are in {out}.",
            why="; ".join(f"{name}: {reason}" for name, reason in list(report.failed.items())[:3]),
            code=1,
        )
    if json:
        document = {"command": "convert", "status": "failed" if error else "done", "out": str(out), **asdict(report)}
        if error is not None:
            document["error"] = {"code": 1, "message": error.message, "why": error.why, "fix": error.fix}
        emit(document, json=True)
        if error is not None:
            # One document per command: the error is in it, so the root must not print another.
            raise typer.Exit(1)
        return
    rows = [
        ("clips", len(report.written)),
        *((split, count) for split, count in report.splits.items()),
        ("frames", report.frames),
        ("left out", len(report.short) + len(report.failed)),
        ("median foot skate, m/s", report.skate),
        ("median jerk, m/s^3", report.jerk),
        ("seconds", report.seconds),
        ("CPU-seconds", report.cpu_seconds),
    ]
    table(f"wrote {out}", ("", ""), rows)
    if error is not None:
        raise error
