"""What systems bring to pages: the components of the trainers that runs are of, and the sections of all systems."""

from __future__ import annotations

from collections.abc import Iterable

from motionkit import plugins
from motionkit.runs.sections import Sections
from motionkit.runs.source import Source


def trainers_of(sources: Iterable[Source]) -> list[plugins.Component]:
    """Return the components of the trainers that runs are of, as far as they are installed."""
    found = (plugins.trainer_of(source.info.command) for source in sources)
    return [component for component in found if component is not None]


def sections_of(*sources: Source) -> list[Sections]:
    """Return the sections of all systems, and of the trainers of other packages that made the runs."""
    return plugins.named("sections", *trainers_of(sources))
