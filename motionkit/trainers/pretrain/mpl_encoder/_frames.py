"""Frames of clips with what the encoder should say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import ClipSet, StateClip
from motionkit.encoders.mpl._inputs import frame_features, with_history
from motionkit.encoders.mpl._network import PERIOD
from motionkit.encoders.mpl._scales import turn_residual
from motionkit.rigs import soft_period

Period = Literal["hilbert", "edges"]


@dataclass(frozen=True)
class Frames:
    """Frames of clips, one clip after the other, float32.

    Attributes:
        features: ``[F, 2 + 9 J]`` of `motionkit.encoders.mpl._inputs.frame_features`.
        rows: ``[F, K]`` int64 frames that each is read with, its own first; they do not leave its clip.
        period: ``[F, 4]`` soft period of the contacts.
        confidence: ``[F, 2]`` of the period, left and right foot; 0 where contacts are not known.
        gait: ``[F, 4]`` idle, walk, run, jump; rows of zeros where it is not known.
        turns: ``[F, J, 6]`` turns to the pose ahead in 6D minus the identity; zeros where the clip ends before.
        has_pose: ``[F]`` bool.
        clip: ``[F]`` int64, the place of its clip.
    """

    features: Tensor
    rows: Tensor
    period: Tensor
    confidence: Tensor
    gait: Tensor
    turns: Tensor
    has_pose: Tensor
    clip: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> Frames:
        """Return the frames on a device."""
        return Frames(*(getattr(self, field.name).to(device) for field in fields(self)))

    def inputs(self, index: Tensor) -> Tensor:
        """Return what the encoder reads of frames `index`, ``[N, D]``."""
        return with_history(self.features, self.rows[index], self.turns.shape[-2])


def frames_of(clips: ClipSet, chosen: Sequence[StateClip], *, history: int, ahead: int, period: Period) -> Frames:
    """Gather clips.

    Args:
        clips: The set that they are of.
        chosen: Its clips, at least one.
        history: Poses that a frame is read with.
        ahead: Frames to the pose ahead.
        period: Definition of the phase; see `motionkit.rigs.soft_period`.
    """
    parts: list[tuple[Tensor, ...]] = []
    begin = 0
    for number, clip in enumerate(chosen):
        state, count = clip.state, clip.state.frames
        place = torch.arange(count)
        rows = (place[:, None] - torch.arange(history)).clamp_min(0) + begin
        phase, sure = state.contacts.new_zeros(count, PERIOD), state.contacts.new_zeros(count, 2)
        if clip.contacts_known:
            phase, sure = soft_period(state.contacts, method=period, fps=clips.fps)
        later = (place + ahead).clamp_max(count - 1)
        has_pose = place + ahead < count
        turns = turn_residual(state.rotations[later] @ state.rotations.mT) * has_pose[:, None, None]
        features = frame_features(state, clips.fps)
        parts.append(
            (features, rows, phase, sure, clips.gait_of(clip), turns, has_pose, torch.full_like(place, number))
        )
        begin += count
    joined = (torch.cat(column) for column in zip(*parts, strict=True))
    return Frames(*(values.float() if values.is_floating_point() else values for values in joined))
