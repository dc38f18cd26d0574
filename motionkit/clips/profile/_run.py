"""Profiling from end to end: what is to be written is checked first, then clips are measured, then it is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from motionkit.clips.profile._document import profile_statistics
from motionkit.clips.profile._gather import profile_sources
from motionkit.clips.profile._merge import merge_settings
from motionkit.clips.profile._result import ProfileResult
from motionkit.clips.profile._settings_file import read_settings
from motionkit.clips.profile._suggest import suggest
from motionkit.clips.profile.page import is_profile_page, profile_page
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.corpus._caption_table import CaptionTable
from motionkit.page.wording import count
from motionkit.runs import require_writable, write_bytes_atomic


def check_outputs(html: Path | None, config: Path | None) -> None:
    """Find out before the work whether its results can be written.

    Raises:
        MotionkitError: The page would take the place of a folder or of a file that is no such page; the settings file
            cannot be read; or one of them cannot be written.
    """
    if html is not None:
        if html.is_dir():
            raise MotionkitError(f"{html} is a folder; the page is one file.", fix=f"--html {html / 'profile.html'}")
        require_writable(html)
        one_file = config is not None and os.path.realpath(html) == os.path.realpath(config)
        if one_file or (html.exists() and not is_profile_page(html)):
            raise MotionkitError(
                f"{html} would be replaced, and it is no page that profile made.", fix="choose another FILE for --html."
            )
    if config is not None:
        require_writable(config)
        if config.is_symlink():
            require_writable(Path(os.path.realpath(config)))
        read_settings(config)


def run_profile(
    sources: Sequence[ClipSource],
    *,
    table: CaptionTable | None = None,
    html: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    title: str = "",
    command: str = "",
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> ProfileResult:
    """Profile clips, and write the page and the settings that are asked for.

    Args:
        sources: The clips.
        table: Captions, splits and groups.
        html: Where to write a page.
        config: Settings file to merge the suggestions into.
        overwrite: Replace settings that differ; else what follows from those that stay follows them.
        title: Name of the data set, for the page.
        command: The command line, for the page.
        jobs: Worker processes.
        progress: Called with each source's id when it is done.

    Raises:
        MotionkitError: Nothing could be read, or something cannot be written.
    """
    check_outputs(html, config)
    fixed = read_settings(config)[1] if config is not None and not overwrite else {}
    profile = profile_sources(sources, table=table, jobs=jobs, progress=progress)
    if not profile.rows:
        raise MotionkitError(
            f"none of {count(len(sources), 'source')} could be read.",
            why="; ".join(f"{name}: {reason}" for name, reason in list(profile.failed.items())[:3]),
        )
    suggestions = suggest(profile, fixed)
    merged = None
    if config is not None:
        settings = {one.key: one.value for one in suggestions}
        merged = merge_settings(config, settings, profile_statistics(profile), overwrite=overwrite)
    if html is not None:
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        _write(html, profile_page(profile, suggestions, title=title, command=command, made=made))
    return ProfileResult(profile, suggestions, merged, html)


def _write(path: Path, page: str) -> None:
    try:
        write_bytes_atomic(path, page.encode())
    except OSError as error:
        raise MotionkitError(f"{path} cannot be written: {error.strerror or error}.", code=1) from error
