"""``motionkit view``: look at motion files, folders and datasets in a browser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from motionkit.cli._inputs import STARTER, InputSettings, open_inputs, open_table
from motionkit.cli._stop import working
from motionkit.cli.output import open_page
from motionkit.config import Cli
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError

_NAMED = 5
"""Clips that are not shown and are named one by one."""


class ViewSettings(InputSettings):
    """Settings of `motionkit view`."""

    out: Annotated[Path | None, Cli("--out")] = Field(
        None, description="Page to write; default: one in the cache, which stays for a week."
    )
    open: Annotated[bool, Cli("--open")] = Field(True, description="Open the page in a browser.")


def view(
    settings: ViewSettings,
    console: Console,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Motion files, folders of them, dataset folders, or the word starter."),
    ] = None,
) -> Mapping[str, Any]:
    """Look at motions in a browser: files in the player, a folder or dataset in a page that browses its clips.

    Of each clip there are caption, length, findings and a picture, to filter and to sort. Up to 500 clips are one
    file; the motions of more are in a folder beside the page. The pages show BVH and GLB files that are dropped on
    them, and load nothing from a network. Without PATH it shows the starter's own clips.
    """
    from motionkit.clips import browse
    from motionkit.clips.convert import sizes_of

    names = paths or [STARTER]
    rows = open_table(settings.captions)
    opened = open_inputs(names, settings.read)
    several = len(opened.sources) > 1 and any(name == STARTER or Path(name).is_dir() for name in names)
    several = several or (rows is not None and rows.timed)
    plan = browse.plan_view(names, settings.out, browse=several)
    workers = settings.jobs or os.cpu_count() or 1
    with working("view", len(opened.sources), workers=workers, sizes=sizes_of(opened.sources)) as step:
        made = browse.view(plan, opened.sources, table=rows, jobs=workers, progress=lambda key: step(1, note=key))
    for text in made.warnings:
        console.warn(text)
    for name, reason in list(made.failed.items())[:_NAMED]:
        console.warn(f"not shown: {name}: {reason}")
    if len(made.failed) > _NAMED:
        console.warn(f"not shown: {len(made.failed) - _NAMED} more.")
    if settings.open:
        open_page(made.page)
    return {
        "page": str(made.page),
        "folder": None if made.folder is None else str(made.folder),
        "clips": made.clips,
        "failed": made.failed,
        "warnings": made.warnings,
        "text": made.sentence,
        "failure": MotionkitError(f"{len(made.failed)} of the clips cannot be shown.", code=1) if made.failed else None,
    }


def _refuse(settings: ViewSettings, paths: Sequence[str] | None) -> None:
    """Refuse a page that cannot be written, before anything is read."""
    from motionkit.clips.browse import plan_view

    if settings.out is not None:
        plan_view(paths or [STARTER], settings.out, browse=True)


VIEW = Command(view, ViewSettings, check=_refuse)
