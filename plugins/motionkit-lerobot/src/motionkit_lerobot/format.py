"""LeRobot datasets, version 3, as a format of episodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.contracts.console import Console
from motionkit_lerobot import Options
from motionkit_lerobot.layout import OWN, is_lerobot
from motionkit_success.episode_formats import EpisodeFormat
from motionkit_success.episodes.read import Episodes


class LeRobot(EpisodeFormat):
    """Folders that hold meta, data and videos; see `motionkit_success.episode_formats`."""

    manifest = OWN
    labels = (
        "a LeRobot dataset says so in a column success, next.success, or next.reward of 0 and 1, and this one has none."
    )

    def __init__(self, options: Options) -> None:
        self.options = options

    def holds(self, place: Path) -> bool:
        """Return whether a folder has the layout of a LeRobot dataset, of any version."""
        return is_lerobot(place)

    def read(self, place: Path) -> tuple[Path, list[str]]:
        """Decode the dataset once into the cache."""
        from motionkit_lerobot.read import cached_lerobot

        return cached_lerobot(place)

    def write(
        self, episodes: Episodes, out: Path, console: Console, *, fps: float, overwrite: bool
    ) -> Mapping[str, Any]:
        """Write a dataset."""
        from motionkit_lerobot.write import export_lerobot

        dataset = export_lerobot(episodes, out, fps=fps, overwrite=overwrite)
        console.say(f"wrote {dataset['episodes']} episodes of {dataset['fps']:g} frames a second into {out}")
        return dataset
