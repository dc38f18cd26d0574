"""``motionkit profile PATH...``: what a data set holds, and settings that suit it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from motionkit import plugins
from motionkit.cli._inputs import STARTER, InputSettings, open_inputs, open_table
from motionkit.cli._stop import working
from motionkit.config import Cli
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError


class ProfileSettings(InputSettings):
    """Settings of `motionkit profile`."""

    html: Annotated[Path | None, Cli("--html")] = Field(None, description="Write a page with plots, one file.")
    write_config: Annotated[Path | None, Cli("--write-config")] = Field(
        None, description="Merge the suggested settings into a JSON, TOML or YAML file; what it has stays."
    )
    overwrite: Annotated[bool, Cli("--overwrite")] = Field(
        False, description="With --write-config: replace settings that differ."
    )


def profile(
    settings: ProfileSettings,
    console: Console,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Motion files, folders of them, dataset folders, or the word starter."),
    ] = None,
) -> Mapping[str, Any]:
    """Measure a dataset: lengths, speed, turning, contacts, captions, joints, outliers, and settings that suit it.

    Without PATH it looks at the starter's own clips. Nothing is written unless --html or --write-config is given.
    """
    from motionkit.clips.convert import sizes_of
    from motionkit.clips.profile.document import remarks
    from motionkit.clips.profile.run import run_profile

    names = paths or [STARTER]
    rows = open_table(settings.captions)
    opened = open_inputs(names, settings.read)
    workers = settings.jobs or os.cpu_count() or 1
    advisor = next((made(starter=STARTER in names) for made in plugins.named("advice")), None)
    with working("profile", len(opened.sources), workers=workers, sizes=sizes_of(opened.sources)) as step:
        result = run_profile(
            opened.sources,
            advisor=advisor,
            table=rows,
            html=settings.html,
            config=settings.write_config,
            overwrite=settings.overwrite,
            title=", ".join(Path(name).name or name for name in names),
            command=console.typed,
            data=names,
            jobs=workers,
            progress=lambda key: step(1, note=key),
        )
    for text in result.warnings():
        console.warn(text)
    for text in (*remarks(result.profile), *result.written()):
        console.say(text)
    if advisor is not None and not result.suggestions:
        console.say(f"no settings are suggested: {advisor.silence}")
    return {
        **result.document(),
        "bodies": [body.document() for body in opened.bodies],
        "table": [{"title": table.title, "columns": table.columns, "rows": table.rows} for table in result.tables()],
        "next": [shlex.join(["motionkit", advisor.command, "--config", str(settings.write_config)])]
        if settings.write_config is not None and advisor is not None and result.suggestions
        else [],
        "failure": MotionkitError(result.failure, code=1) if result.failure else None,
    }


def _refuse(settings: ProfileSettings, paths: object) -> None:
    """Refuse outputs that cannot be written, before anything is read."""
    from motionkit.clips.profile.run import check_outputs

    if settings.overwrite and settings.write_config is None:
        raise MotionkitError("--overwrite acts with --write-config only.", fix="add --write-config FILE.")
    check_outputs(settings.html, settings.write_config)


PROFILE = Command(profile, ProfileSettings, check=_refuse)
