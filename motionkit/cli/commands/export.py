"""``motionkit export RUN OUT``: models and episodes for other tools."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, field_validator

from motionkit import plugins, runs
from motionkit.config import Cli, Settings
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError
from motionkit.plugins import INSTALL_FIX, either, packages


class ExportSettings(Settings):
    """Settings of `motionkit export`."""

    to: Annotated[str | None, Cli("--to")] = Field(
        None,
        description=f"{packages.about_formats()}Of any model that motionkit trained: hub, a folder with a model card "
        "for `motionkit push`. Models of other packages may have formats of their own. Default: the first that the "
        "model has, hub if it has no other.",
    )
    control: Annotated[str, Cli("--control")] = Field(
        "", description="A run of the same command with control.shuffle, for the card of a hub folder."
    )
    license: Annotated[str, Cli("--license")] = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9.-]{0,40})?$",
        description="Licence of a hub folder, by its identifier there, such as cc-by-4.0.",
    )
    data_source: Annotated[str, Cli("--data-source")] = Field(
        "",
        max_length=300,
        description="Where the data of a hub folder's model come from, for its card: words, a link, or ORG/NAME of a "
        "dataset of the hub, which then stands in the card's metadata.",
    )
    data_license: Annotated[str, Cli("--data-license")] = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9.-]{0,40})?$",
        description="Licence of these data, by its identifier of the hub, for the card.",
    )
    fps: Annotated[float, Cli("--fps")] = Field(
        0, ge=0, le=1000, description=f"Frames a second{packages.words('frames a second')}."
    )
    overwrite: Annotated[bool, Cli("--overwrite")] = Field(
        False, description="Replace what an earlier export wrote in OUT; other files stay."
    )

    @field_validator("to", mode="before")
    @classmethod
    def _of_a_package(cls, value: object) -> object:
        """Refuse a format whose package is not installed, by the package."""
        if isinstance(value, str) and value not in packages.formats() and (owner := packages.owner_of_export(value)):
            raise ValueError(f"the package {owner} has it, and is not installed: {INSTALL_FIX}")
        return value


_ACTS_WITH = {
    "fps": [to for to, options in packages.formats().items() if "fps" in options],
    **{name: ["hub"] for name in ("control", "license", "data_source", "data_license")},
}
"""Options that act with some formats alone."""


def export(
    settings: ExportSettings,
    console: Console,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder, checkpoint, policy folder, episodes, or starter.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.")],
) -> Mapping[str, Any]:
    """Write a policy, a motion predictor or collected episodes for another tool; LoRA adapters are merged."""
    from motionkit.contracts.open_model import export_model, formats_of

    for name, formats in _ACTS_WITH.items():
        if getattr(settings, name) and settings.to not in formats:
            to = either(formats) or "FORMAT"
            raise MotionkitError(
                f"--{name.replace('_', '-')} acts with --to {to} only.",
                fix=f"add --to {to}, or leave it out.",
            )
    if settings.to == "hub":
        return _export_hub(run, out, settings, console)
    for writer in _writers(run):
        document = writer(run, settings.to, out, console, fps=settings.fps, overwrite=settings.overwrite)
        if document is not None:
            written: Mapping[str, Any] = document
            return written
    if settings.to is None and not formats_of(run):
        return _export_hub(run, out, settings, console)
    model, to, path, obstacles = export_model(run, settings.to, out, overwrite=settings.overwrite)
    console.say(model.describe())
    if obstacles:
        console.warn(
            f"the original MDM code cannot load this file: it does not know {', '.join(obstacles)}. "
            "motionkit reads it (--policy.checkpoint)."
        )
    console.say(f"wrote {path}")
    return {"to": to, "file": str(path), "not_in_stock_mdm": obstacles}


def _export_hub(run: str, out: Path, settings: ExportSettings, console: Console) -> Mapping[str, Any]:
    from motionkit.report.card import DataNotes, write_hub_folder

    what, files = write_hub_folder(
        run,
        out,
        control=settings.control,
        license=settings.license,
        data=DataNotes(settings.data_source, settings.data_license),
        overwrite=settings.overwrite,
    )
    console.say(f"wrote {what} with its card into {out}: {', '.join(files)}")
    if not settings.license:
        console.say("no licence was chosen: --license ID names one, of those that the hub lists")
    if run != "starter" and not (settings.data_source and settings.data_license):
        console.say("its card can say where the data come from: --data-source WORDS, --data-license ID")
    then = [shlex.join(["motionkit", "push", str(out), "ORG/NAME"])]
    return {"to": "hub", "out": str(out), "what": what, "files": files, "next": then}


def _writers(run: str) -> list[Any]:
    """Return what writes data that are no model: that of the run's trainer, and those that motionkit has."""
    of_run = plugins.trainer_of(runs.peek(Path(run)).command) if (Path(run) / "run.json").is_file() else None
    return plugins.named("exports_data", *([of_run] if of_run is not None else []))


EXPORT = Command(export, ExportSettings)
