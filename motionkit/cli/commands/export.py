"""``motionkit export RUN OUT``: models and episodes for other tools."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from motionkit.config import Cli, Settings
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError


class ExportSettings(Settings):
    """Settings of `motionkit export`."""

    to: Annotated[Literal["mdm", "safetensors", "numpy", "onnx", "npy", "lerobot", "hf", "hub"] | None, Cli("--to")] = (
        Field(
            None,
            description="mdm: model%09d.pt and args.json of the original MDM code. Of a motion predictor: safetensors; "
            "numpy, the same with a runtime that needs numpy alone; onnx; both with a legend of all columns, a test "
            "vector and a reader of BVH files and poses. Of Sa2VA: hf, a folder like its base. "
            "Of collected episodes: npy, the reward-model guide's trajectories; lerobot, a LeRobot dataset of "
            "version 3. Of any model that motionkit trained: hub, a folder with a model card for `motionkit push`. "
            "Default: the first that the model has, hub if it has no other.",
        )
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
        0, ge=0, le=1000, description="Frames a second of a LeRobot dataset; 0: those of the episodes, 10 if unknown."
    )
    overwrite: Annotated[bool, Cli("--overwrite")] = Field(
        False, description="Replace what an earlier export wrote in OUT; other files stay."
    )


_EPISODES = ("npy", "lerobot")


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
    from motionkit.success.episodes import is_episodes

    if settings.fps and settings.to != "lerobot":
        raise MotionkitError("--fps acts with --to lerobot only.", fix="add --to lerobot, or leave it out.")
    for name in ("control", "license", "data_source", "data_license"):
        if getattr(settings, name) and settings.to != "hub":
            raise MotionkitError(
                f"--{name.replace('_', '-')} acts with --to hub only.", fix="add --to hub, or leave it out."
            )
    if settings.to == "hub":
        return _export_hub(run, out, settings, console)
    if settings.to in _EPISODES or is_episodes(Path(run)):
        return _export_episodes(run, out, settings, console)
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


def _export_episodes(run: str, out: Path, settings: ExportSettings, console: Console) -> Mapping[str, Any]:
    from motionkit.success.episodes import export_lerobot, export_trajectories, open_whole

    if settings.to not in (*_EPISODES, None):
        raise MotionkitError(
            f"{run} holds episodes; they cannot be exported to {settings.to}.", fix="--to npy, or --to lerobot"
        )
    episodes = open_whole(Path(run))
    for note in episodes.notes:
        console.warn(note)
    if settings.to == "lerobot":
        dataset = export_lerobot(episodes, out, fps=settings.fps, overwrite=settings.overwrite)
        console.say(f"wrote {dataset['episodes']} episodes of {dataset['fps']:g} frames a second into {out}")
        return {"to": "lerobot", "out": str(out), **dataset}
    counts = export_trajectories(episodes, out, overwrite=settings.overwrite)
    console.say(
        f"wrote {counts['positive']} trajectories into {out / 'positive'}, {counts['negative']} into {out / 'negative'}"
    )
    train = ["motionkit", "reward-train", "--data.positive-dir", str(out / "positive"),
             "--data.negative-dir", str(out / "negative")]  # fmt: skip
    return {"to": "npy", "out": str(out), "trajectories": counts, "frames": len(episodes), "next": [shlex.join(train)]}


EXPORT = Command(export, ExportSettings)
