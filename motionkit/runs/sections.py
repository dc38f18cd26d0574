"""What a system adds to the page of a run, and to one that compares runs; a `Component` names it as ``sections``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from motionkit.runs.source import Source


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    html: str = ""
    missing: Sequence[str] = ()  # Sentences about what a reader would expect and is not there


def _none(sources: Mapping[str, Source]) -> Section:
    return Section()


def _no_texts(source: Source) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Sections:
    """The parts of a system. They are asked for every run, also one of another system, and are empty there."""

    of: Callable[[Source], Section]  # The part of a run's page, after the result
    compared: Callable[[Mapping[str, Source]], Section] = _none  # That of a comparison, of runs by their letters
    texts: Callable[[Source], Sequence[str]] = _no_texts  # Texts that a run's model follows, for the card of the model
    # Sentences, without the full stop, on what a run's rewards do not see, for the card
    unseen: Callable[[Source], Sequence[str]] = _no_texts
