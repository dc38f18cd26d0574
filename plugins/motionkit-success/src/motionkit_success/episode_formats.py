"""Formats of episodes of other tools: who reads a folder of them, and who writes one. Imports no torch and no numpy.

Packages bring them in the group ``motionkit.episodes``, each a `Component` whose factory makes an `EpisodeFormat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Group
from motionkit.contracts.console import Console
from motionkit.plugins import Component

KIND = "episodes"


class EpisodeFormat:
    """A format of episodes. By default nothing is of it; `write` is what each has."""

    manifest = ""  # Path in a folder of what motionkit wrote of the episodes, which names their environment
    labels = ""  # Where a folder of it says which frames are a success, a sentence for one that does not

    def holds(self, place: Path) -> bool:
        """Return whether a folder is of this format."""
        return False

    def read(self, place: Path) -> tuple[Path, list[str]]:
        """Return a folder of episodes (`motionkit_success.episodes.Collector`) with the same content, and notes."""
        raise NotImplementedError

    def write(self, episodes: Any, out: Path, console: Console, *, fps: float, overwrite: bool) -> Mapping[str, Any]:
        """Write episodes.

        Args:
            episodes: The `motionkit_success.episodes.Episodes`.
            out: Folder to make.
            console: Says what was written.
            fps: Frames a second; 0: those of the episodes.
            overwrite: Replace an earlier export there.

        Returns:
            What the document of `motionkit export` has besides format and folder.
        """
        raise NotImplementedError


class NoOptions(Group):
    """A format of episodes without options."""


npy = Component(
    summary="The reward-model guide's trajectories",
    options=NoOptions,
    factory="motionkit_success.episodes.trajectories:TrajectoryFormat",
    gives="export",
)


def formats() -> dict[str, EpisodeFormat]:
    """Return every format by its name, the usual one first."""
    names = [entry.name for entry in plugins.available(KIND)]
    found = {}
    for name in sorted(dict.fromkeys(names), key=lambda name: name != "npy"):
        component = plugins.get(KIND, name)
        found[name] = component.build(component.options())
    return found


def format_of(place: Path) -> EpisodeFormat | None:
    """Return the format of a folder of another tool; None for folders of motionkit, and for all others."""
    return next((form for form in formats().values() if form.holds(place)), None)


def folders() -> list[str]:
    """Return the formats that are given wherever a folder of episodes is, in words; imports no other package."""
    return [
        plugins.get(KIND, entry.name).summary
        for entry in plugins.available(KIND)
        if entry.builtin and plugins.gives_of(KIND, plugins.get(KIND, entry.name)) == "dataset"
    ]
