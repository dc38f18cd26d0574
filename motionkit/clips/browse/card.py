"""Data of one clip in a page that browses clips: caption, length, speed, findings, a thumbnail, and the motion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from motionkit.clips.check import check_motion
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip
from motionkit.player import PlayerTrack
from motionkit.player import document as player_document
from motionkit.player.files import shown_track
from motionkit.rigs.roles import body_joints

PREVIEW_FPS = 30.0
"""Frames per second of the motions in a page of several clips; faster ones are subsampled there."""

_SPREAD = (0.15, 0.38, 0.62, 0.85)
"""Poses of a thumbnail, as parts of the clip's length: the last is drawn in full colour, those before it faint."""


@dataclass(frozen=True)
class Card:
    """One clip of the page."""

    key: str  # Its id
    origin: str  # The file
    about: dict[str, Any]  # Facts for the list, as JSON values
    motion: dict[str, Any] | None  # The player's document; None if it cannot be shown


def card_of(clip: Clip, key: str, origin: str) -> Card:
    """Return the card of a clip.

    Args:
        clip: The clip, as read.
        key: Its id.
        origin: The file.
    """
    motion = clip.motion
    positions = motion.positions()
    findings = check_motion(motion, positions=positions)
    title = clip.captions[0].text if clip.captions else key
    about: dict[str, Any] = {
        "key": key,
        "origin": origin,
        "title": title,
        "captions": [caption.text for caption in (*clip.captions, *clip.timed)],
        "seconds": motion.frames / motion.fps,
        "frames": motion.frames,
        "fps": motion.fps,
        "joints": len(motion.parents),
        "warnings": list(clip.warnings),
        "split": clip.split,
        "speed": _speed(positions[:, body_joints(motion.names, motion.parents)[0]], motion.fps),
        "findings": [
            {
                "kind": finding.kind,
                "severity": finding.severity,
                "detail": finding.detail,
                "start": finding.frames[0][0] / motion.fps if finding.frames else None,
            }
            for finding in findings
        ],
    }
    try:
        track = shown_track(clip, key)
        document = player_document([track], title=title, fps=PREVIEW_FPS)
        picture = player_document([_poses(track)], title="")
    except MotionkitError as error:  # no frame is finite, or positions are far away
        return Card(key, origin, about | {"why": error.message}, None)
    return Card(key, origin, about | {"picture": picture["tracks"][0], "step": picture["step"]}, document)


def broken(key: str, origin: str, reason: str) -> Card:
    """Return the card of a file that cannot be read."""
    about = {"key": key, "origin": origin, "title": key, "why": reason, "findings": [], "captions": [], "split": ""}
    return Card(key, origin, about, None)


def _poses(track: PlayerTrack) -> PlayerTrack:
    """Return a track of the few frames that a thumbnail draws, finite ones."""
    shown = track.shown().nonzero().flatten()
    places = [int(shown[min(int(part * len(shown)), len(shown) - 1)]) for part in _SPREAD]
    return PlayerTrack(track.title, track.positions[places], track.parents, 1.0, names=track.names, radii=track.radii)


def _speed(root: torch.Tensor, fps: float) -> float:
    """Return the mean speed of a root ``[T, 3]`` over the ground, m/s, without frames that are not finite."""
    steps = root[:, [0, 2]].diff(dim=0).norm(dim=-1)
    steps = steps[steps.isfinite()]
    return float(steps.mean()) * fps if len(steps) else 0.0
