"""``motionkit convert IN... OUT``: motions from elsewhere into what everything here and elsewhere reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from pydantic import Field, field_validator

from motionkit.cli._inputs import InputSettings, open_inputs, open_table
from motionkit.cli._stop import GOES_ON, NOTHING, working
from motionkit.cli.output import say, warn, wrapped
from motionkit.config import Cli, Group
from motionkit.contracts.console import Command, Console
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.formats import kind_of, refuse_existing
from motionkit.formats.table import listed, others
from motionkit.plugins import INSTALL_FIX, either, packages

if TYPE_CHECKING:
    from motionkit.clips.convert import Edits

_DATASETS = ("humanml", "kit")
_FILES = listed("mpl", "bvh", "glb", "mp4", "gif", "html", "joints", "npz", "amass")
_RIGS = ["BVH", "GLB", "VRM", *(form.name.upper() for form in others() if form.reader and form.reader.rig)]

if TYPE_CHECKING:
    To = str
else:
    To = Literal[*_DATASETS, *(form.name for form in _FILES)]


class WriteSettings(Group):
    """What is written."""

    fps: Annotated[float, Cli("--fps", "Writing")] = Field(
        0.0, ge=0, description="Rate to write; 0: each clip's own, joints 20."
    )
    bvh_unit: Annotated[Literal["cm", "m"], Cli("--bvh-unit", "Writing")] = Field(
        "cm", description="Unit of BVH files written."
    )
    min_frames: Annotated[int, Cli("--min-frames", "Writing")] = Field(
        1, ge=1, description="Leave out shorter clips; datasets have their own."
    )
    long: Annotated[Literal["cut", "first", "drop"], Cli("--long", "Writing")] = Field(
        "cut", description="humanml, kit: clips over 199 frames are cut into parts, only their first 199, or left out."
    )
    mirror: Annotated[bool, Cli("--mirror", "Writing")] = Field(
        False, description="Left and right swapped; humanml, kit: also each clip's mirror image."
    )
    overwrite: Annotated[bool, Cli("--overwrite", "Writing")] = Field(
        False, description="Replace the file OUT, or what an earlier convert wrote in the folder OUT; other files stay."
    )


class EditSettings(Group):
    """What is changed, in this order."""

    start: Annotated[float, Cli("--start", "Editing")] = Field(0.0, ge=0, description="Seconds to cut off before.")
    end: Annotated[float, Cli("--end", "Editing")] = Field(
        0.0, ge=0, description="Second of the clip at which it ends; 0: its own end."
    )
    height: Annotated[float, Cli("--height", "Editing")] = Field(
        0.0, ge=0, description="Metres that the body is tall; its path is scaled with it. 0: as it is."
    )
    yaw: Annotated[float, Cli("--yaw", "Editing")] = Field(0.0, description="Degrees to turn it to its left.")
    loop: Annotated[bool, Cli("--loop", "Editing")] = Field(
        False, description="Cut it where it can be repeated best, bend both ends to meet, print how well they do."
    )
    in_place: Annotated[bool, Cli("--in-place", "Editing")] = Field(
        False, description="Take away its path over the ground."
    )
    floor: Annotated[bool, Cli("--floor", "Editing")] = Field(False, description="Bring standing feet to height 0.")


class ConvertSettings(InputSettings):
    """Settings of `motionkit convert`."""

    to: Annotated[To | None, Cli("--to")] = Field(
        None, description="What to write; default: by OUT's ending, humanml for a folder."
    )
    check: Annotated[bool, Cli("--check")] = Field(
        False, description="Report what is wrong with each clip; write nothing."
    )
    write_joint_map: Annotated[Path | None, Cli("--write-joint-map")] = Field(
        None, description="With --check: write a table of joint names, for a rig that is not recognised."
    )
    fix: Annotated[str, Cli("--fix")] = Field(
        "",
        description="Repair each clip: clean (the longest clean run; --fix alone), feet (held where they stand), "
        "jitter (filtered); joined by commas.",
    )
    rig: Annotated[str, Cli("--rig", "Editing")] = Field(
        "",
        description=f"Bring it to a rig: mixamo, unreal, vrm, smpl, or a {either(_RIGS)} file; its mesh moves.",
    )
    rig_map: Annotated[Path | None, Cli("--rig-map", "Editing")] = Field(
        None, description="Table of joint names of your rig, where they are not recognised."
    )
    edit: EditSettings = EditSettings()
    write: WriteSettings = WriteSettings()

    @field_validator("to", mode="before")
    @classmethod
    def _of_a_package(cls, value: object) -> object:
        """Refuse a format whose package is not installed, by the package."""
        known = [*_DATASETS, *(form.name for form in _FILES)]
        if isinstance(value, str) and value not in known and (owner := packages.owner_of_format(value)):
            raise ValueError(f"the package {owner} has it, and is not installed: {INSTALL_FIX}")
        return value

    @field_validator("fix", mode="before")
    @classmethod
    def _switch(cls, value: object) -> object:
        """Take true and false, as settings files have it from when it was a switch."""
        return {True: "clean", False: ""}.get(value, value) if isinstance(value, bool) else value


def convert(
    settings: ConvertSettings,
    console: Console,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Motion files, folders of them, or the word starter; then the file or folder to make. "
            "With --check every path is an input.",
        ),
    ],
) -> Mapping[str, Any]:
    """Convert motions between formats, check them, or build a dataset.

    Reads BVH, GLB (VRM and glTF with its data inside too), Unreal / MPL JSON, AMASS and SMPL npz, joints and features
    as .npy, MDM results.npy, HumanML3D and KIT folders, motionkit npz. Writes HumanML3D and KIT folders, MPL npz, BVH,
    GLB, MP4, GIF, HTML, joints, motionkit npz, AMASS npz.
    """
    from motionkit.clips.convert import (
        OutputOptions,
        messages,
        plan_conversion,
        run_conversion,
        sizes_of,
        summary_line,
        summary_rows,
    )
    from motionkit.runs import conversion_lines

    workers = settings.jobs or os.cpu_count() or 1
    if settings.check:
        return _check(paths, settings, workers)
    out = Path(paths[-1])
    edits = _edits(settings)
    options = OutputOptions(edits=edits, settings=settings.read.of_formats(), **settings.write.model_dump())
    request = plan_conversion(out, paths[:-1], settings.to, options)
    rows = open_table(settings.captions)
    opened = open_inputs(paths[:-1], settings.read)
    after = NOTHING if request.file else GOES_ON
    sizes = sizes_of(opened.sources)
    with working("convert", len(opened.sources), after=after, workers=workers, sizes=sizes) as step:
        report = run_conversion(
            request, opened.sources, table=rows, jobs=workers, progress=lambda key: step(1, note=key)
        )
    report.skipped = list(map(str, opened.skipped))
    _talk(messages(report, fixed="clean" in edits.fixes))
    one = len(report.written) == 1 and not report.splits and not request.edits.any
    table = {"title": f"wrote {out}", "columns": ("", ""), "rows": summary_rows(report)}
    shown = {"text": f"wrote {out}: {summary_line(report, always=console.verbose)}"} if one else {"table": table}
    bodies = [body.document() for body in opened.bodies]
    captions = len(report.uncaptioned) < len(report.written)
    then = [] if request.file else conversion_lines(report.to, out, captions=captions)
    return {"out": str(out), "bodies": bodies, **asdict(report), **shown, "next": then, "failure": report.failure(out)}


convert.__doc__ = " ".join([f"{convert.__doc__}".rstrip(), *(form.help for form in others() if form.help)])


def _refuse(settings: ConvertSettings, paths: Sequence[str]) -> None:
    """Refuse options that have no effect, and paths that are missing, before anything is read."""
    if settings.check:
        from motionkit.clips.convert import refuse_for_check
        from motionkit.runs import require_writable

        default = ConvertSettings()
        given = {f"--{name.replace('_', '-')}": value != getattr(default.write, name) for name, value in settings.write}
        given |= {f"--{name.replace('_', '-')}": bool(value) for name, value in settings.edit}
        given["--rig"] = bool(settings.rig)
        more = {"--to": settings.to, "--fix": settings.fix, "--captions": settings.captions.table}
        refuse_for_check({**more, **given})
        if (table := settings.write_joint_map) is not None:
            require_writable(table, parents=True)
            if table.exists():
                raise MotionkitError(f"{table} already exists.", fix="choose another FILE for --write-joint-map.")
    elif settings.write_joint_map is not None:
        raise MotionkitError("--write-joint-map acts with --check only.", fix="add --check.")
    elif len(paths) < 2:
        raise MotionkitError("convert needs something to read and a place to write.", fix="motionkit convert IN... OUT")
    elif (out := Path(paths[-1])).is_file() and kind_of(out) is not None:
        refuse_existing(out, overwrite=settings.write.overwrite)
    _edits(settings)


def _edits(settings: ConvertSettings) -> Edits:
    """Return what is changed; refuse what does not fit together."""
    from motionkit.clips.convert import Edits, read_fixes, read_rig

    if settings.rig_map is not None and not settings.rig:
        raise MotionkitError("--rig-map acts with --rig only.", fix="add --rig FILE.")
    rig = read_rig(settings.rig, settings.rig_map, settings.read.of_formats()) if settings.rig else None
    return Edits(fixes=read_fixes(settings.fix), rig=rig, **settings.edit.model_dump())


def _check(paths: Sequence[str], settings: ConvertSettings, workers: int) -> Mapping[str, Any]:
    """Load everything and return what was found, with an error when something is wrong."""
    from motionkit.clips.convert import check, check_messages, finding_text, sizes_of, write_joint_map

    opened = open_inputs(paths, settings.read)
    if settings.write_joint_map is not None:
        say(write_joint_map(settings.write_joint_map, opened.bodies))
    with working("check", len(opened.sources), workers=workers, sizes=sizes_of(opened.sources)) as step:
        report = check(opened.sources, jobs=workers, progress=lambda key: step(1, note=key))
    _talk(check_messages(report))
    return {
        "command": "check",
        "bodies": [body.document() for body in opened.bodies],
        "clips": report.clips,
        "failed": report.failed,
        "skipped": list(map(str, opened.skipped)),
        "warnings": report.warnings,
        "text": wrapped(finding_text(report), sys.stdout),
        "failure": report.check_failure(),
    }


def _talk(messages: Iterable[tuple[Literal["info", "warning"], str]]) -> None:
    for level, text in messages:
        (warn if level == "warning" else say)(text)


def _bare_fix(words: list[str]) -> list[str]:
    """Give ``--fix`` the value ``clean`` if no repair follows.

    Example:
        >>> _bare_fix(["a.bvh", "--fix", "out"]), _bare_fix(["--fix", "feet", "out"])
        (['a.bvh', '--fix=clean', 'out'], ['--fix', 'feet', 'out'])
    """
    following = [*words[1:], ""]
    return [
        f"{word}=clean" if word == "--fix" and not _names_repairs(after) else word
        for word, after in zip(words, following, strict=True)
    ]


def _names_repairs(word: str) -> bool:
    """Return whether a word names repairs, or means to; a path does not."""
    from motionkit.clips.edits import Fix

    parts, repairs = word.split(","), get_args(Fix)
    if all(part in repairs for part in parts):
        return True
    return all(did_you_mean(part, repairs) for part in parts) and not Path(word).exists()


CONVERT = Command(convert, ConvertSettings, check=_refuse, words=_bare_fix)
