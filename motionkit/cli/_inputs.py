"""Settings of commands that read motions, and opening their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from motionkit import plugins
from motionkit.cli.output import say, warn
from motionkit.config import Cli, Group, Settings
from motionkit.errors import MotionkitError
from motionkit.formats.settings import FormatSettings, with_format_settings
from motionkit.page.wording import count

if TYPE_CHECKING:
    from motionkit.clips.convert import Opened
    from motionkit.motion import CaptionTable

STARTER = "starter"
_STARTER_CLIPS = 512
_TEXT = "Captions and splits"


@with_format_settings("Reading")
class _Facts(FormatSettings):
    """Facts that files may lack."""

    up: Annotated[Literal["auto", "x", "-x", "y", "-y", "z", "-z"], Cli("--up", "Reading")] = Field(
        "auto", description="Direction of up in the files; auto: weighed by the body. -y is Y down."
    )
    units: Annotated[Literal["auto", "m", "dm", "cm", "mm", "in", "asf"], Cli("--units", "Reading")] = Field(
        "auto", description="Unit of the files."
    )
    source_fps: Annotated[float, Cli("--source-fps", "Reading")] = Field(
        0.0, ge=0, description="Frames per second, also where a file says another; 0: its own, else 20, MPL npz 60."
    )
    rot6d_columns: Annotated[Literal["auto", "xy", "xz", "yz", "yx", "zx", "zy"], Cli("--rot6d-columns", "Reading")] = (
        Field("auto", description="Matrix columns of 6D rotations in JSON.")
    )
    hierarchy: Annotated[Path | None, Cli("--hierarchy", "Reading")] = Field(
        None, description="FullHierarchy.json, for JSON without one."
    )
    offsets: Annotated[Path | None, Cli("--offsets", "Reading")] = Field(
        None, description="FullOffsets.json for the same."
    )
    smpl_model: Annotated[Path | None, Cli("--smpl-model", "Reading")] = Field(
        None, description="Your SMPL, SMPL-H or SMPL-X file, for AMASS; default: an average body."
    )
    joint_map: Annotated[Path | None, Cli("--joint-map", "Reading")] = Field(
        None, description="Table of BVH or GLB joint names, made by convert --check --write-joint-map."
    )
    clip: Annotated[str, Cli("--clip", "Reading")] = Field(
        "", description="Animation of a file with several, by its name; default: all."
    )


class ReadSettings(_Facts):
    """Facts that files may lack, and how many clips of the starter are read."""

    clips: Annotated[int, Cli("--clips", "Reading")] = Field(
        _STARTER_CLIPS, ge=1, description="starter: training clips; val and test in proportion."
    )


class CaptionSettings(Group):
    """The table of captions."""

    table: Annotated[Path | None, Cli("--captions", _TEXT)] = Field(
        None, description="CSV with a row per clip; start, end: its seconds in a recording."
    )
    caption_column: Annotated[tuple[str, ...], Cli("--caption-column", _TEXT)] = Field(
        (), description="Column with a caption; repeatable."
    )
    id_column: Annotated[str, Cli("--id-column", _TEXT)] = Field("", description="Column with the clip's id.")
    split_column: Annotated[str, Cli("--split-column", _TEXT)] = Field(
        "", description="Column with train, val or test."
    )
    group_column: Annotated[str, Cli("--group-column", _TEXT)] = Field(
        "", description="Column whose equal values stay in one split."
    )


class InputSettings(Settings):
    """Settings of a command that reads motions."""

    read: ReadSettings = ReadSettings()
    captions: CaptionSettings = CaptionSettings()
    jobs: Annotated[int, Cli("--jobs")] = Field(0, ge=0, description="Worker processes; 0: one per core.")


def open_inputs(names: Sequence[str], settings: ReadSettings) -> Opened:
    """Open files, folders and the word starter; print which files were skipped, and the unit of the others.

    Args:
        names: Paths, or ``starter``.
        settings: Options of the readers, and the number of the starter's clips.

    Returns:
        The clips, the skeletons of BVH and GLB files, and the files that hold no motion.
    """
    from motionkit.clips.convert import Opened, listed, open_sources, refuse_idle
    from motionkit.motion import ReadOptions, read_joint_map

    clips = settings.clips
    options = ReadOptions(
        settings.up, settings.units, settings.source_fps, settings.rot6d_columns, settings.hierarchy, settings.offsets,
        settings.smpl_model, None if settings.joint_map is None else read_joint_map(settings.joint_map),
        settings.clip, settings.of_formats(),
    )  # fmt: skip
    if STARTER not in names and clips != _STARTER_CLIPS:
        raise MotionkitError(
            f"--clips {clips} acts with {STARTER} only.",
            why="of files and folders every clip is read.",
            fix=f"leave --clips out, or give {STARTER} as the input.",
        )
    paths = [Path(name) for name in names if name != STARTER]
    opened = open_sources(paths, options) if paths else Opened()
    refuse_idle(options, opened.sources)
    if opened.skipped:
        say(f"{count(len(opened.skipped), 'file')} without a motion: {listed(opened.skipped, 5)}")
    if opened.made:
        say(f"passed over what convert wrote: {listed(opened.made, 5)} (give it by name to read it)")
    for what, files in opened.unread.items():
        say(f"passed over {what}: {listed(files, 5)}")
    for body in opened.bodies:
        whose = f"{body.skeleton} ({count(body.files, 'file')}): " if len(opened.bodies) > 1 else ""
        (say if body.plausible else warn)(whose + body.sentence)
    if STARTER in names:
        from motionkit.contracts.dataset import dataset_sources

        component = plugins.get("datasets", STARTER)
        counts = component.options(clips=clips, val_clips=max(1, clips // 8), test_clips=max(1, clips // 4))
        opened.sources = (*opened.sources, *dataset_sources(component.build(counts)))
    return opened


def open_table(settings: CaptionSettings) -> CaptionTable | None:
    """Read the table of captions if there is one, and print its columns."""
    from motionkit.motion import read_caption_table

    columns = settings.model_dump(exclude={"table", "caption_column"})
    if settings.table is None:
        if settings.caption_column or any(columns.values()):
            raise MotionkitError("a column was named, but no table.", fix="add --captions CSV.")
        return None
    table = read_caption_table(settings.table, caption_columns=settings.caption_column, **columns)
    if table.note:
        say(table.note)
    say(f"columns of {settings.table}: " + ", ".join(f"{role} = {name}" for role, name in table.columns.items()))
    texts = {text for rows in table.rows.values() for row in rows for text in row.captions}
    if len(texts) == 1 and len(table.rows) > 1:
        warn(f"all rows of {settings.table} have the caption {min(texts)!r}: a model has nothing to tell apart.")
    return table
