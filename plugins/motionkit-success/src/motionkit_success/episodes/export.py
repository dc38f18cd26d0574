"""What `motionkit export` does with episodes; `motionkit.plugins.Component.exports_data` names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.contracts.console import Console
from motionkit.errors import MotionkitError
from motionkit_success.episode_formats import formats
from motionkit_success.episodes.open import is_episodes, open_whole


def export_episodes(
    path: str, to: str | None, out: Path, console: Console, *, fps: float, overwrite: bool
) -> Mapping[str, Any] | None:
    """Write collected episodes for another tool.

    Args:
        path: A run of `reward-collect`, or a folder of episodes.
        to: A format of `motionkit_success.episode_formats`; the default is ``npy``.
        out: Folder to make.
        console: Says what was written.
        fps: Frames a second; 0: those of the episodes.
        overwrite: Replace an earlier export there.

    Returns:
        The document of the command; None if neither the path nor the format is one of episodes.
    """
    known = formats()
    if to not in known and not is_episodes(Path(path)):
        return None
    to = to or next(iter(known))
    if to not in known:
        raise MotionkitError(
            f"{path} holds episodes; they cannot be exported to {to}.",
            fix=", or ".join(f"--to {name}" for name in known),
        )
    episodes = open_whole(Path(path))
    for note in episodes.notes:
        console.warn(note)
    return {"to": to, "out": str(out), **known[to].write(episodes, out, console, fps=fps, overwrite=overwrite)}
