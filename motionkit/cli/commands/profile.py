"""``motionkit profile PATH...``: what a data set holds, and settings that suit it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motionkit.cli import _inputs
from motionkit.cli.output import JsonFlag, emit, say, table, warn
from motionkit.cli.progress import bar
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from motionkit.motion.profile import Merged, Profile, Suggestion

_SHOWN = 10


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
        clips: _inputs.StarterClips = 512,
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
        from motionkit.motion import ReadOptions
        from motionkit.motion.profile import merge_settings, profile_page, profile_sources, read_settings, suggest
        from motionkit.runs import write_bytes_atomic

        if overwrite and write_config is None:
            raise MotionkitError("--overwrite acts with --write-config only.", fix="add --write-config FILE.")
        if html is not None and not html.parent.is_dir():
            raise MotionkitError(f"there is no folder {html.parent} to write {html.name} into.")
        fixed = read_settings(write_config)[1] if write_config is not None and not overwrite else {}
        names = paths or [_inputs.STARTER]
        options = ReadOptions(up, units, source_fps, rot6d_columns, hierarchy, offsets, smpl_model)
        rows = _inputs.open_table(captions, caption_column, id_column, split_column, group_column)
        sources = _inputs.open_inputs(names, options, clips)
        with bar("profile", total=len(sources)) as step:
            found = profile_sources(
                sources, table=rows, jobs=jobs or os.cpu_count() or 1, progress=lambda key: step(1, note=key)
            )
        if not found.rows:
            raise MotionkitError(
                f"none of {len(sources)} source(s) could be read.",
                why="; ".join(f"{name}: {reason}" for name, reason in list(found.failed.items())[:3]),
            )
        suggestions = suggest(found, fixed)
        merged = None
        if write_config is not None:
            settings = {one.key: one.value for one in suggestions}
            merged = merge_settings(write_config, settings, found.statistics(), overwrite=overwrite)
        if html is not None:
            page = profile_page(found, suggestions, title=", ".join(Path(name).name or name for name in names))
            write_bytes_atomic(html, page.encode())
        _tell(found, suggestions, merged, html, json=json)


def _tell(
    profile: Profile, suggestions: Sequence[Suggestion], merged: Merged | None, html: Path | None, *, json: bool
) -> None:
    """Print the profile; end with exit code 1 when some file could not be read."""
    from motionkit.motion.profile import schedule_problems

    for name, reason in profile.failed.items():
        warn(f"not read: {name}: {reason}")
    for group in profile.leaks()[:_SHOWN]:
        warn(f"group {group} is in several splits, so held-out figures will flatter.")
    if merged is not None and merged.kept:
        for key, (have, suggested) in merged.kept.items():
            warn(f"{merged.path} keeps {key} = {_short(have)}; suggested is {_short(suggested)} (--overwrite sets it).")
        have = merged.kept.get("freerun_stage_schedule", (None, None))[0]
        epochs = merged.kept.get("epochs", (next(one.value for one in suggestions if one.key == "epochs"),))[0]
        if isinstance(have, list) and isinstance(epochs, int):
            for problem in schedule_problems(have, epochs):
                warn(f"{merged.path}: {problem}")
    if merged is not None and merged.backup is not None:
        warn(f"comments in {merged.path} could not be kept where they were; the file as it was is {merged.backup}.")
    error = None
    if profile.failed:
        error = MotionkitError(
            f"{len(profile.failed)} file(s) could not be read; the figures are of {len(profile.rows)} clip(s).",
            why="; ".join(f"{name}: {reason}" for name, reason in list(profile.failed.items())[:3]),
            code=1,
        )
    if json:
        _emit(profile, suggestions, merged, html, error)
        return
    _tables(profile, suggestions)
    if html is not None:
        say(f"wrote {html}")
    if merged is not None:
        done = [
            f"{len(merged.added)} added",
            f"{len(merged.replaced)} replaced",
            f"{len(merged.kept)} kept as they are",
        ]
        say(f"{'made' if merged.created else 'wrote'} {merged.path}: {', '.join(done)}")
    if error is not None:
        raise error


def _emit(
    profile: Profile,
    suggestions: Sequence[Suggestion],
    merged: Merged | None,
    html: Path | None,
    error: MotionkitError | None,
) -> None:
    document: dict[str, Any] = {
        "command": "profile",
        "status": "failed" if error else "done",
        **profile.document(),
        "suggested": [{"key": one.key, "value": one.value, "reason": one.reason} for one in suggestions],
        "config": None if merged is None else merged.document(),
        "html": None if html is None else str(html),
    }
    if error is not None:
        document["error"] = {"code": 1, "message": error.message, "why": error.why, "fix": error.fix}
    emit(document, json=True)
    if error is not None:
        # One document per command: the error is in it, so the root must not print another.
        raise typer.Exit(1)


def _tables(profile: Profile, suggestions: Sequence[Suggestion]) -> None:
    """Print everything for people."""
    table("dataset", ("", ""), [(_FIGURES.get(key, key), value) for key, value in profile.statistics().items()])
    captions = profile.captions.document()
    if captions["count"]:
        rows = [(name, captions[key]) for key, name in _CAPTIONS.items()]
        shown = ", ".join(f"{word} {number}" for word, number in list(profile.captions.top_verbs().items())[:_SHOWN])
        table("captions", ("", ""), [*rows, ("most frequent verbs", shown)])
    else:
        say("there are no captions.")
    table(
        "inventory",
        ("what", "which", "clips"),
        [
            *(("split", name, number) for name, number in profile.splits().items()),
            *(("frames per second", f"{fps:g}", number) for fps, number in profile.fps.items()),
            *(("skeleton", rig.name, number) for rig, number, _, _ in profile.rigs()),
        ],
    )
    if found := profile.findings():
        counts = [(kind, number["error"], number["warning"]) for kind, number in found.items()]
        table("findings (convert --check lists them)", ("kind", "clips with an error", "with a warning"), counts)
    if outliers := profile.outliers():
        shown_rows = [(one.clip, one.figure, one.reason) for one in outliers[:_SHOWN]]
        more = f", the furthest {_SHOWN} of {len(outliers)}" if len(outliers) > _SHOWN else ""
        table(f"outliers{more}", ("clip", "figure", "why"), shown_rows)
    table(
        "suggested settings for the motion predictor (--write-config FILE merges them into yours)",
        ("setting", "value", "reason"),
        [(one.key, _short(one.value), one.reason) for one in suggestions],
    )


_FIGURES: Mapping[str, str] = {
    "n_clips": "clips",
    "total_frames": "frames",
    "total_seconds": "seconds",
    "avg_seq_len": "mean length, frames",
    "median_seq_len": "median length, frames",
    "min_seq_len": "shortest, frames",
    "max_seq_len": "longest, frames",
    "avg_seconds": "mean length, s",
    "median_seconds": "median length, s",
    "yaw_mean_deg": "|yaw| mean, degrees",
    "yaw_std_deg": "|yaw| std, degrees",
    "yaw_circular_mean_deg": "facing, circular mean, degrees",
    "yaw_circular_std_deg": "facing, circular std, degrees",
    "yaw_resultant": "facing, resultant length",
    "speed_mean": "root speed mean, m/s",
    "speed_std": "root speed std, m/s",
    "speed_max": "root speed max, m/s",
    "bone_angle_mean_deg": "bone angle mean, degrees",
    "bone_angle_std_deg": "bone angle std, degrees",
    "contact_ratio": "contact ratio",
    "complexity": "complexity (0 to 2)",
}
_CAPTIONS: Mapping[str, str] = {
    "count": "captions",
    "different": "different",
    "per_clip": "per clip",
    "clips_without": "clips without",
    "words_mean": "words, mean",
    "words_max": "words, most",
    "vocabulary": "vocabulary",
}


def _short(value: object) -> str:
    """Return a value on one line; a schedule as its stages."""
    if isinstance(value, list) and value and all(isinstance(part, dict) and "range" in part for part in value):
        return ", ".join(f"{part.get('label', '?')} {part['range']}" for part in value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
