"""What profiling did with a data set and the files it was asked to write: words for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motionkit.clips.profile._document import profile_document
from motionkit.clips.profile._merge import Merged
from motionkit.clips.profile._notes import notes
from motionkit.clips.profile._profile import Profile
from motionkit.clips.profile._schedule import schedule_problems
from motionkit.clips.profile._suggest import Suggestion
from motionkit.clips.profile._tables import short
from motionkit.page.wording import count


@dataclass(frozen=True)
class ProfileResult:
    """A profile, what was suggested and what was written.

    Attributes:
        profile: The statistics.
        suggestions: Settings with their reasons.
        merged: What became of them in a settings file; None where none was asked for.
        html: The page; None where none was asked for.
    """

    profile: Profile
    suggestions: tuple[Suggestion, ...]
    merged: Merged | None = None
    html: Path | None = None

    @property
    def failure(self) -> str:
        """Return what makes the command fail in the end; empty when nothing does."""
        failed = len(self.profile.failed)
        if not failed:
            return ""
        return f"{count(failed, 'file')} could not be read; the figures are of {count(len(self.profile.rows), 'clip')}."

    def warnings(self) -> Iterator[str]:
        """Yield what a person should look at."""
        for name, reason in self.profile.failed.items():
            yield f"not read: {name}: {reason}"
        for note in notes(self.profile):
            if note.about not in ("failed", "faults"):  # named one by one, and in a table of their own
                yield note.sentence
        if self.merged is not None:
            yield from _kept(self.merged, self.suggestions)

    def written(self) -> Iterator[str]:
        """Yield what was written where."""
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
            "suggested": [{"key": one.key, "value": one.value, "reason": one.reason} for one in self.suggestions],
            "config": None if self.merged is None else self.merged.document(),
            "html": None if self.html is None else str(self.html),
        }


def _kept(merged: Merged, suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """Yield where a settings file says otherwise, and what is wrong with the schedule that stays in it."""
    for key, (have, suggested) in merged.kept.items():
        yield f"{merged.path} keeps {key} = {short(have)}; suggested is {short(suggested)} (--overwrite sets it)."
    have = merged.kept.get("freerun_stage_schedule", (None, None))[0]
    epochs = merged.kept.get("epochs", (next(one.value for one in suggestions if one.key == "epochs"),))[0]
    if isinstance(have, list) and isinstance(epochs, int):
        for problem in schedule_problems(have, epochs):
            yield f"{merged.path}: {problem}"
    if merged.backup is not None:
        yield f"comments in {merged.path} could not be kept where they were; the file as it was is {merged.backup}."
