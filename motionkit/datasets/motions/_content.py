"""Fingerprints of the predictor's clips: compared on resume, and left out of evaluations."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from motionkit.datasets.base import Split
from motionkit.datasets.motions._clips import ClipSet, StateClip
from motionkit.runs import Kept, TrainedOn, fingerprint

_GRID = 1e4
"""Steps per metre, radian and unit: the last bits of numbers that are computed from a file differ by machine."""


def clip_fingerprint(clip: StateClip) -> str:
    """Return the fingerprint of a motion, to a tenth of a millimetre, whatever its key and its body."""
    return fingerprint(*(_rounded(part) for part in (clip.state.rotations, clip.state.steps, clip.state.heights)))


def set_fingerprint(clips: ClipSet) -> str:
    """Return the fingerprint of a set in its order: body, rate, motions, their splits, contacts and gaits."""
    parts: list[str | Tensor] = [" ".join(clips.names), f"{clips.parents} {clips.fps}"]
    for clip in clips.clips:
        parts += [clip.split, clip_fingerprint(clip), _rounded(clip.offsets), _rounded(clip.state.contacts)]
        parts += [f"contacts {clip.contacts_known}"] if clip.gait is None else [_rounded(clip.gait)]
    return fingerprint(*parts)


def leave_out(clips: ClipSet, split: Split, trained: TrainedOn) -> tuple[ClipSet, Kept]:
    """Return a set without those clips of a split that a model was trained on, and what was left out."""
    asked = [place for place, clip in enumerate(clips.clips) if clip.split == split]
    kept = trained.leave_out([clip_fingerprint(clips.clips[place]) if trained.items else "" for place in asked])
    gone = {*asked} - {asked[place] for place in kept.places}
    return replace(clips, clips=tuple(clip for place, clip in enumerate(clips.clips) if place not in gone)), kept


def _rounded(values: Tensor) -> Tensor:
    return (values * _GRID).round() + 0.0  # -0.0 becomes 0.0
