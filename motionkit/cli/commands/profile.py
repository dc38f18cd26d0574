"""``motionkit profile PATH...``: what a data set holds, and settings that suit it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from motionkit.cli import _inputs
from motionkit.cli._line import command_line
from motionkit.cli._stop import working
from motionkit.cli.output import JsonFlag, finish, say, table, warn
from motionkit.errors import MotionkitError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def profile(
        paths: Annotated[
            list[str] | None,
            typer.Argument(metavar="PATH", help="Motion files, folders of them, dataset folders, or the word starter."),
        ] = None,
        html: Annotated[
            Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots, one file.")
        ] = None,
        write_config: Annotated[
            Path | None,
            typer.Option(
                "--write-config",
                metavar="FILE",
                help="Merge the suggested settings into a JSON, TOML or YAML file; what it has stays.",
            ),
        ] = None,
        overwrite: Annotated[
            bool, typer.Option("--overwrite", help="With --write-config: replace settings that differ.")
        ] = False,
        up: _inputs.Up = "auto",
        units: _inputs.Units = "auto",
        source_fps: _inputs.SourceFps = 0.0,
        rot6d_columns: _inputs.Rot6dColumns = "auto",
        hierarchy: _inputs.Hierarchy = None,
        offsets: _inputs.Offsets = None,
        smpl_model: _inputs.SmplModel = None,
        clips: _inputs.StarterClips = _inputs.STARTER_CLIPS,
        captions: _inputs.Captions = None,
        caption_column: _inputs.CaptionColumn = None,
        id_column: _inputs.IdColumn = "",
        split_column: _inputs.SplitColumn = "",
        group_column: _inputs.GroupColumn = "",
        jobs: Annotated[int, typer.Option("--jobs", min=0, help="Worker processes; 0: one per core.")] = 0,
        json: JsonFlag = False,
    ) -> None:
        """Measure a dataset: lengths, speed, turning, contacts, captions, joints, outliers, and settings that suit it.

        Without PATH it looks at the starter's own clips. Nothing is written unless --html or --write-config is given.
        """
        from motionkit.clips.profile import check_outputs, remarks, run_profile
        from motionkit.motion import ReadOptions
        from motionkit.trainers.train_mpl import PredictorAdvisor

        if overwrite and write_config is None:
            raise MotionkitError("--overwrite acts with --write-config only.", fix="add --write-config FILE.")
        check_outputs(html, write_config)
        names = paths or [_inputs.STARTER]
        options = ReadOptions(up, units, source_fps, rot6d_columns, hierarchy, offsets, smpl_model)
        rows = _inputs.open_table(captions, caption_column, id_column, split_column, group_column)
        sources, _ = _inputs.open_inputs(names, options, clips)
        with working("profile", len(sources)) as step:
            result = run_profile(
                sources,
                advisor=PredictorAdvisor(),
                table=rows,
                html=html,
                config=write_config,
                overwrite=overwrite,
                title=", ".join(Path(name).name or name for name in names),
                command=shlex.join(["motionkit", *command_line.get()]),
                jobs=jobs or os.cpu_count() or 1,
                progress=lambda key: step(1, note=key),
            )
        for text in result.warnings():
            warn(text)
        failure = MotionkitError(result.failure, code=1) if result.failure else None
        if not json:
            for one in result.tables():
                table(one.title, one.columns, one.rows)
            for text in (*remarks(result.profile), *result.written()):
                say(text)
        finish(result.document(), failure, json=json)
