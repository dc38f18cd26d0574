"""``motionkit convert IN... OUT``: motions from elsewhere into what everything here and elsewhere reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from motionkit.cli import _inputs
from motionkit.cli._stop import GOES_ON, NOTHING, working
from motionkit.cli.output import JsonFlag, finish, say, table, warn, write
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.motion import ReadOptions

TO = Literal["humanml", "kit", "mpl", "bvh", "glb", "mp4", "gif", "html", "joints", "npz"]
_WRITE = "Writing"


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
        up: _inputs.Up = "auto",
        units: _inputs.Units = "auto",
        source_fps: _inputs.SourceFps = 0.0,
        rot6d_columns: _inputs.Rot6dColumns = "auto",
        hierarchy: _inputs.Hierarchy = None,
        offsets: _inputs.Offsets = None,
        smpl_model: _inputs.SmplModel = None,
        clips: _inputs.StarterClips = _inputs.STARTER_CLIPS,
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
            bool,
            typer.Option(
                "--overwrite",
                help="Replace the file OUT, or what an earlier convert wrote in the folder OUT; other files stay.",
                rich_help_panel=_WRITE,
            ),
        ] = False,
        captions: _inputs.Captions = None,
        caption_column: _inputs.CaptionColumn = None,
        id_column: _inputs.IdColumn = "",
        split_column: _inputs.SplitColumn = "",
        group_column: _inputs.GroupColumn = "",
        json: JsonFlag = False,
    ) -> None:
        """Convert motions between formats, check them, or build a dataset.

        Reads BVH, Unreal / MPL JSON, AMASS and SMPL npz, joints and features as .npy, MDM results.npy, HumanML3D and
        KIT folders, motionkit npz. Writes HumanML3D and KIT folders, MPL npz, BVH, GLB, MP4, GIF, HTML, joints, npz.
        """
        from motionkit.clips.convert import (
            OutputOptions,
            messages,
            plan_conversion,
            run_conversion,
            summary_line,
            summary_rows,
        )
        from motionkit.motion import ReadOptions

        options = ReadOptions(up, units, source_fps, rot6d_columns, hierarchy, offsets, smpl_model)
        workers = jobs or os.cpu_count() or 1
        if check:
            given = {
                "--to": to, "--fix": fix, "--fps": fps, "--bvh-unit": bvh_unit != "cm", "--min-frames": min_frames > 1,
                "--mirror": mirror, "--overwrite": overwrite, "--captions": captions,
            }  # fmt: skip
            _check(paths, options, clips, given, workers, json=json)
            return
        if len(paths) < 2:
            raise MotionkitError(
                "convert needs something to read and a place to write.", fix="motionkit convert IN... OUT"
            )
        out = Path(paths[-1])
        request = plan_conversion(out, paths[:-1], to, OutputOptions(fps, bvh_unit, min_frames, mirror, fix, overwrite))
        rows = _inputs.open_table(captions, caption_column, id_column, split_column, group_column)
        sources, skipped = _inputs.open_inputs(paths[:-1], options, clips)
        with working("convert", len(sources), after=NOTHING if request.file else GOES_ON) as step:
            report = run_conversion(request, sources, table=rows, jobs=workers, progress=lambda key: step(1, note=key))
        report.skipped = list(map(str, skipped))
        _talk(messages(report, fixed=fix))
        if not json and len(report.written) == 1 and not report.splits:
            write(f"wrote {out}: {summary_line(report)}")
        elif not json:
            table(f"wrote {out}", ("", ""), summary_rows(report))
        finish({"command": "convert", "out": str(out), **asdict(report)}, report.failure(out), json=json)


def _check(
    paths: list[str], options: ReadOptions, clips: int, given: Mapping[str, object], workers: int, *, json: bool
) -> None:
    """Load everything, print what was found, and end with exit code 1 when something is wrong."""
    from motionkit.clips.convert import FINDING_COLUMNS, check, check_messages, finding_rows, refuse_for_check

    refuse_for_check(given)
    sources, skipped = _inputs.open_inputs(paths, options, clips)
    with working("check", len(sources)) as step:
        report = check(sources, jobs=workers, progress=lambda key: step(1, note=key))
    if not json:
        table(f"{len(report.clips)} clip(s)", FINDING_COLUMNS, finding_rows(report))
        _talk(check_messages(report))
    document = {
        "command": "check", "clips": report.clips, "failed": report.failed, "skipped": list(map(str, skipped)),
        "warnings": report.warnings,
    }  # fmt: skip
    finish(document, report.check_failure(), json=json)


def _talk(messages: Iterable[tuple[Literal["info", "warning"], str]]) -> None:
    for level, text in messages:
        (warn if level == "warning" else say)(text)
