"""Profile a dataset from end to end: check what is to be written, measure the clips, write page and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from motionkit.clips.profile.document import (
    Advisor,
    Suggestion,
    Table,
    notes,
    profile_document,
    profile_statistics,
    profile_tables,
    short,
)
from motionkit.clips.profile.page import profile_page
from motionkit.clips.profile.settings_file import Merged, merge_settings, read_settings
from motionkit.clips.profile.statistics import Profile, profile_sources
from motionkit.errors import MotionkitError
from motionkit.motion.clip import ClipSource
from motionkit.motion.corpus.captions import CaptionTable
from motionkit.page.html import is_made_by
from motionkit.page.wording import count
from motionkit.runs import require_writable, write_bytes_atomic


@dataclass(frozen=True)
class ProfileResult:
    """A profile, the suggested settings and the files written."""

    profile: Profile  # The statistics
    suggestions: tuple[Suggestion, ...] = ()  # Settings with their reasons
    use: str = ""  # Name of what the settings are for
    problems: tuple[str, ...] = ()  # Problems of settings that stay in the file
    merged: Merged | None = None  # Result of merging them into a settings file; None without one
    html: Path | None = None  # The page; None without one

    @property
    def failure(self) -> str:
        """The command's error in the end; empty for none."""
        failed = len(self.profile.failed)
        if not failed:
            return ""
        return f"{count(failed, 'file')} could not be read; the figures are of {count(len(self.profile.rows), 'clip')}."

    def warnings(self) -> Iterator[str]:
        """Yield the warnings."""
        for name, reason in self.profile.failed.items():
            yield f"not read: {name}: {reason}"
        for note in notes(self.profile):
            if note.about not in ("failed", "faults"):  # listed one by one, and in a table
                yield note.sentence
        if (merged := self.merged) is not None:
            for key, (have, new) in merged.kept.items():
                yield f"{merged.path} keeps {key} = {short(have)}; suggested is {short(new)} (--overwrite sets it)."
            yield from (f"{merged.path}: {problem}" for problem in self.problems)
            if merged.backup is not None:
                yield (
                    f"comments in {merged.path} could not be kept where they were; "
                    f"the file as it was is {merged.backup}."
                )

    def tables(self) -> Iterator[Table]:
        """Yield the tables for a terminal."""
        return profile_tables(self.profile, self.suggestions, self.use)

    def written(self) -> Iterator[str]:
        """Yield a line for each file written."""
        if self.html is not None:
            yield f"wrote {self.html}"
        if (merged := self.merged) is not None:
            done = f"{len(merged.added)} added, {len(merged.replaced)} replaced, {len(merged.kept)} kept as they are"
            yield f"{'made' if merged.created else 'wrote'} {merged.path}: {done}"

    def document(self) -> dict[str, Any]:
        """Return everything for ``--json``."""
        return {
            "command": "profile",
            **profile_document(self.profile),
            "suggested": [
                {"key": suggestion.key, "value": suggestion.value, "reason": suggestion.reason}
                for suggestion in self.suggestions
            ],
            "config": None if self.merged is None else self.merged.document(),
            "html": None if self.html is None else str(self.html),
        }


def check_outputs(html: Path | None, config: Path | None) -> None:
    """Check before the work that its results can be written."""
    if html is not None:
        if html.is_dir():
            raise MotionkitError(f"{html} is a folder; the page is one file.", fix=f"--html {html / 'profile.html'}")
        require_writable(html, parents=True)
        one_file = config is not None and os.path.realpath(html) == os.path.realpath(config)
        if one_file or (html.exists() and not is_made_by(html, "profile")):
            raise MotionkitError(
                f"{html} would be replaced, and it is not a page that profile made.",
                fix="choose another FILE for --html.",
            )
    if config is not None:
        require_writable(config)
        if config.is_symlink():
            require_writable(Path(os.path.realpath(config)))
        read_settings(config)


def run_profile(
    sources: Sequence[ClipSource],
    *,
    advisor: Advisor | None = None,
    table: CaptionTable | None = None,
    html: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    title: str = "",
    command: str = "",
    data: Sequence[str] = (),
    jobs: int = 1,
    progress: Callable[[str], None] = lambda key: None,
) -> ProfileResult:
    """Profile clips; write a page and merge settings into a file.

    Args:
        sources: The clips.
        advisor: Suggests settings; None suggests none.
        table: Captions, splits and groups.
        html: File of the page to write.
        config: Settings file to merge the suggestions into.
        overwrite: Replace settings that differ; otherwise suggestions follow those that stay.
        title: Name of the dataset, for the page.
        command: The command line, for the page.
        data: Sources of the clips, for the settings file.
        jobs: Worker processes.
        progress: Called with each source's id when it is done.
    """
    check_outputs(html, config)
    fixed = read_settings(config)[1] if config is not None and not overwrite else {}
    profile = profile_sources(sources, table=table, jobs=jobs, progress=progress)
    if not profile.rows:
        raise MotionkitError(
            f"none of {count(len(sources), 'source')} could be read.",
            why="; ".join(f"{name}: {reason}" for name, reason in list(profile.failed.items())[:3]),
        )
    # Held-out clips must not influence a training.
    suggestions = tuple(advisor.suggest(profile.training(), fixed)) if advisor is not None else ()
    use = advisor.title if advisor is not None else ""
    merged = None
    problems: Sequence[str] = ()
    if config is not None:
        named = {"data": data[0] if len(data) == 1 else list(data)} if data else {}
        settings = named | {suggestion.key: suggestion.value for suggestion in suggestions}
        merged = merge_settings(config, settings, profile_statistics(profile), overwrite=overwrite)
        if advisor is not None:
            problems = advisor.problems({key: have for key, (have, _) in merged.kept.items()}, suggestions)
    if html is not None:
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        _write(html, profile_page(profile, suggestions, use, title=title, command=command, made=made))
    return ProfileResult(profile, suggestions, use, tuple(problems), merged, html)


def _write(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, page.encode())
    except OSError as error:
        raise MotionkitError(f"{path} cannot be written: {error.strerror or error}.", code=1) from error
