"""Clips as pages and films: tracks of the player, and the writers of such files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.formats.format import WriteOptions
from motionkit.motion.clip import Clip
from motionkit.player._page import write_player
from motionkit.player._track import PlayerTrack, track_of

SEAMS = "seams"
"""Note of a clip on the seams of the blocks that it was made of, a sentence."""

WORDING = "wording"
"""Note of a clip on what the texts that it was made of are read as, sentences."""


def shown_track(clip: Clip, title: str) -> PlayerTrack:
    """Return a clip as a track of the player; `title` is used if it has no caption."""
    return track_of(
        clip.motion,
        clip.captions[0].text if clip.captions else title,
        segments=[(caption.text, caption.start, caption.end) for caption in clip.timed],
        notes=[clip.notes[key] for key in (WORDING, SEAMS) if key in clip.notes],
    )


def write_page(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write clips as one page, side by side."""
    write_player(path, [shown_track(clip, path.stem) for clip in clips], title=path.stem)


def write_film(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write clips as one film, side by side."""
    from motionkit.player.video import write_video

    write_video(path, [shown_track(clip, path.stem) for clip in clips])
