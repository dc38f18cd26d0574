"""Videos of motions: MP4 and GIF, drawn as the player draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from motionkit.errors import MotionkitError
from motionkit.player import PlayerTrack
from motionkit.player.video._film import FASTEST, Film, find_ffmpeg, write_gif, write_mp4

__all__ = ["write_video"]

_SMALLEST, _LARGEST = 64, 4096
_SIZES = {1: (640, 480), 2: (960, 480), 3: (1280, 480)}
_USUAL = {".gif": 30.0, ".mp4": 60.0}


def write_video(
    path: Path,
    tracks: Sequence[PlayerTrack],
    *,
    size: tuple[int, int] | None = None,
    fps: float | None = None,
    title: str = "",
    theme: Literal["light", "dark"] = "light",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write motions as ``.mp4`` or ``.gif``, side by side, with titles and the text of each moment's segment.

    The camera follows each motion. The file appears when it is complete.

    Args:
        path: File to write; its suffix chooses the format.
        tracks: The tracks to show, at most 24.
        size: Width and height in pixels, 64 to 4096; None takes 640 x 480, wider for several tracks. An MP4 needs
            even numbers, so odd ones grow by one.
        fps: Pictures per second; None takes the highest of the tracks, or every second, third, ... frame of it if
            that is more than 60 (GIF: 30).
        title: Heading above everything; any text.
        theme: Colours.
        progress: Called with the number of finished pictures and the total.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=4)
        >>> track = PlayerTrack("walk", torch.from_numpy(walk.joints), HUMANML.parents, walk.fps)
        >>> write_video(Path("walk.gif"), [track], size=(120, 90))
        >>> Path("walk.gif").read_bytes()[:3]
        b'GIF'
    """
    kind = path.suffix.lower()
    if kind not in _USUAL:
        raise MotionkitError(f"{path.name} is neither .mp4 nor .gif.", fix="end the name in .mp4 or .gif.")
    if not tracks:
        raise MotionkitError("there is no motion to show.")
    width, height = size or _SIZES.get(len(tracks), (1280, 720))
    if not all(_SMALLEST <= side <= _LARGEST for side in (width, height)):
        raise MotionkitError(
            f"{width} x {height} is not a size for a video.", fix="give 64 to 4096 pixels for each side."
        )
    fastest = max(track.fps for track in tracks)
    rate = fps if fps is not None else fastest / math.ceil(fastest / _USUAL[kind] - 1e-6)
    if not 0 < rate <= (FASTEST if kind == ".gif" else 240.0):
        raise MotionkitError(
            f"{rate:g} pictures per second cannot be written as {kind}.", fix="at most 50 for .gif, 240 for .mp4."
        )
    if kind == ".mp4":
        find_ffmpeg()
        width, height = width + width % 2, height + height % 2
    film = Film(tracks, size=(width, height), fps=rate, title=title, theme=theme)
    report = (lambda done: progress(done, film.frames)) if progress is not None else None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (write_mp4 if kind == ".mp4" else write_gif)(path, film, progress=report)
    except OSError as error:
        raise MotionkitError(f"cannot write {path}: {error.strerror or error}.") from error
