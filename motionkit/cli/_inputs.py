"""Flags by which commands read motions, and opening what the paths stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from motionkit.cli.output import say
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.motion import CaptionTable, ClipSource, ReadOptions

STARTER = "starter"
STARTER_CLIPS = 512
_READ, _TEXT = "Reading", "Captions and splits"

Up = Annotated[
    Literal["auto", "y", "z"], typer.Option("--up", help="Vertical axis of the files.", rich_help_panel=_READ)
]
Units = Annotated[
    Literal["auto", "m", "dm", "cm", "mm", "in", "asf"],
    typer.Option("--units", help="Unit of the files.", rich_help_panel=_READ),
]
SourceFps = Annotated[
    float,
    typer.Option(
        "--source-fps", min=0, help="Rate of files that do not say; 0: 20, MPL npz 60.", rich_help_panel=_READ
    ),
]
Rot6dColumns = Annotated[
    Literal["auto", "xy", "xz", "yz", "yx", "zx", "zy"],
    typer.Option("--rot6d-columns", help="Matrix columns of 6D rotations in JSON.", rich_help_panel=_READ),
]
Hierarchy = Annotated[
    Path | None,
    typer.Option(
        "--hierarchy", metavar="FILE", help="FullHierarchy.json, for JSON without one.", rich_help_panel=_READ
    ),
]
Offsets = Annotated[
    Path | None,
    typer.Option("--offsets", metavar="FILE", help="FullOffsets.json for the same.", rich_help_panel=_READ),
]
SmplModel = Annotated[
    Path | None,
    typer.Option(
        "--smpl-model",
        metavar="FILE",
        help="Your SMPL, SMPL-H or SMPL-X file, for AMASS; default: an average body.",
        rich_help_panel=_READ,
    ),
]
StarterClips = Annotated[
    int,
    typer.Option("--clips", min=1, help="starter: training clips; val and test in proportion.", rich_help_panel=_READ),
]
Captions = Annotated[
    Path | None,
    typer.Option("--captions", metavar="CSV", help="Table with a row per clip.", rich_help_panel=_TEXT),
]
CaptionColumn = Annotated[
    list[str] | None,
    typer.Option("--caption-column", metavar="NAME", help="Column with a caption; repeatable.", rich_help_panel=_TEXT),
]
IdColumn = Annotated[
    str, typer.Option("--id-column", metavar="NAME", help="Column with the clip's id.", rich_help_panel=_TEXT)
]
SplitColumn = Annotated[
    str, typer.Option("--split-column", metavar="NAME", help="Column with train, val or test.", rich_help_panel=_TEXT)
]
GroupColumn = Annotated[
    str,
    typer.Option(
        "--group-column", metavar="NAME", help="Column whose equal values stay in one split.", rich_help_panel=_TEXT
    ),
]


def open_inputs(names: Sequence[str], options: ReadOptions, clips: int) -> tuple[Sequence[ClipSource], Sequence[Path]]:
    """Open files, folders and the word starter; what of it was left aside is said.

    Args:
        names: Paths, or ``starter``.
        options: What readers must be told.
        clips: Training clips of the starter.

    Returns:
        The clips, and the files that hold no motion.

    Raises:
        MotionkitError: A path cannot be used, an option could not act, or `clips` was chosen and the starter is not
            asked for.
    """
    from motionkit.clips.convert import listed, open_sources, refuse_idle

    if STARTER not in names and clips != STARTER_CLIPS:
        raise MotionkitError(
            f"--clips {clips} acts with {STARTER} only.",
            why="of files and folders every clip is read.",
            fix=f"leave --clips out, or give {STARTER} as the input.",
        )
    sources: list[ClipSource] = []
    skipped: Sequence[Path] = ()
    if files := [Path(name) for name in names if name != STARTER]:
        opened = open_sources(files, options)
        sources.extend(opened.sources)
        skipped = opened.skipped
        if skipped:
            say(f"{len(skipped)} file(s) hold no motion: {listed(skipped, 5)}")
        if opened.made:
            say(f"passed over what convert wrote: {listed(opened.made, 5)} (give it by name to read it)")
    refuse_idle(options, sources)
    if STARTER in names:
        from motionkit.datasets.export import dataset_sources
        from motionkit.datasets.starter import StarterOptions, component

        starter = StarterOptions(clips=clips, val_clips=max(1, clips // 8), test_clips=max(1, clips // 4))
        sources.extend(dataset_sources(component.build(starter)))
    return sources, skipped


def open_table(
    captions: Path | None, caption_column: list[str] | None, id_column: str, split_column: str, group_column: str
) -> CaptionTable | None:
    """Read the table of captions when there is one, and say which columns were taken."""
    from motionkit.motion import read_caption_table

    if captions is None:
        if caption_column or id_column or split_column or group_column:
            raise MotionkitError("a column was named, but no table.", fix="add --captions CSV.")
        return None
    table = read_caption_table(
        captions,
        caption_columns=caption_column or (),
        id_column=id_column,
        split_column=split_column,
        group_column=group_column,
    )
    say(f"columns of {captions}: " + ", ".join(f"{role} = {name}" for role, name in table.columns.items()))
    return table
