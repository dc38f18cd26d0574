"""What `motionkit export` does with episodes; `motionkit.plugins.Component.exports_data` names it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.contracts.console import Console
from motionkit.errors import MotionkitError
from motionkit_success.episodes.lerobot import export_lerobot
from motionkit_success.episodes.open import is_episodes, open_whole
from motionkit_success.episodes.trajectories import export_trajectories

_FORMATS = ("npy", "lerobot")


def export_episodes(
    path: str, to: str | None, out: Path, console: Console, *, fps: float, overwrite: bool
) -> Mapping[str, Any] | None:
    """Write collected episodes for another tool.

    Args:
        path: A run of `reward-collect`, or a folder of episodes.
        to: ``npy`` (the default) or ``lerobot``.
        out: Folder to make.
        console: Says what was written.
        fps: Frames a second of a LeRobot dataset; 0: those of the episodes.
        overwrite: Replace an earlier export there.

    Returns:
        The document of the command; None if neither the path nor the format is one of episodes.
    """
    if to not in _FORMATS and not is_episodes(Path(path)):
        return None
    if to not in (*_FORMATS, None):
        raise MotionkitError(
            f"{path} holds episodes; they cannot be exported to {to}.", fix="--to npy, or --to lerobot"
        )
    episodes = open_whole(Path(path))
    for note in episodes.notes:
        console.warn(note)
    if to == "lerobot":
        dataset = export_lerobot(episodes, out, fps=fps, overwrite=overwrite)
        console.say(f"wrote {dataset['episodes']} episodes of {dataset['fps']:g} frames a second into {out}")
        return {"to": "lerobot", "out": str(out), **dataset}
    counts = export_trajectories(episodes, out, overwrite=overwrite)
    console.say(
        f"wrote {counts['positive']} trajectories into {out / 'positive'}, {counts['negative']} into {out / 'negative'}"
    )
    train = ["motionkit", "reward-train", "--data.positive-dir", str(out / "positive"),
             "--data.negative-dir", str(out / "negative")]  # fmt: skip
    return {"to": "npy", "out": str(out), "trajectories": counts, "frames": len(episodes), "next": [shlex.join(train)]}
