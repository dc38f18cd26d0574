"""Notes on problems of a dataset, for the terminal and the top of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from motionkit.clips.profile._profile import Profile
from motionkit.page import count, joined


@dataclass(frozen=True)
class Note:
    """One remark.

    Attributes:
        head: The problem.
        rest: Its effect; continues the sentence of `head`.
        bad: Whether figures suffer from it.
        about: A word that names its subject.
    """

    head: str
    rest: str
    bad: bool = True
    about: str = ""

    @property
    def sentence(self) -> str:
        """Return both parts."""
        return self.head + self.rest


def notes(profile: Profile) -> Iterator[Note]:
    """Yield notes, the most serious first."""
    if number := len(profile.failed):
        yield Note(
            f"{count(number, 'file')} could not be read", f" and {_is(number)} not in the figures.", about="failed"
        )
    if number := sum(any(finding.severity == "error" for finding in row.findings) for row in profile.rows):
        yield Note(
            f"{count(number, 'clip')} {_has(number)} a fault", " that spoils a part: see Findings.", about="faults"
        )
    clips: list[str] = []
    if twice := profile.leaked_by_splits():
        splits = [joined(combination) for combination in twice]
        clips = [clip for members in twice.values() for clip in members]
        yield Note(
            f"{count(len(clips), 'clip')} {_is(len(clips))} listed in several splits",
            f" ({'; '.join(splits)}), so held-out figures will flatter: {joined(clips)}.",
        )
    if groups := [name for name in profile.leaks() if name not in clips]:
        yield Note(
            f"{count(len(groups), 'group')} {_has(len(groups))} clips in several splits",
            f", so held-out figures will flatter: {joined(groups)}.",
        )
    if len(profile.fps) > 1:
        rates = ", ".join(f"{fps:g}" for fps in sorted(profile.fps))
        yield Note(
            f"Clips have different frame rates ({rates})",
            "; lengths in frames mix them, lengths in seconds do not.",
            bad=False,
        )
    if profile.captions.captions and (number := profile.captions.without):
        yield Note(f"{count(number, 'clip')} {_has(number)} no caption.", "", bad=False)


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _has(number: int) -> str:
    return "has" if number == 1 else "have"
