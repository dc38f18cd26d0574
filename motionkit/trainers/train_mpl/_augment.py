"""Changes of training windows: left and right swapped, other speeds and curves, a heading that is off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.geometry._yaw import rotate_yaw, yaw_matrix
from motionkit.motion.prediction._state import MotionState
from motionkit.rigs import mirror_order
from motionkit.trainers.train_mpl._batches import WindowBatch
from motionkit.trainers.train_mpl._settings import AugmentationSettings

_WAVE = 6.0
"""Seconds in which a bent path swings from side to side: nearly a circle over the second that is read ahead."""


class Augmentation:
    """Changes windows at random, and draws which of them are told their path.

    Other speeds and curves are for those that are told: a path may ask for them. In free runs they are left out, where
    the speed of the clips is what a motion comes back to; with them free walks on CMU went faster and faster.

    Args:
        settings: How much of what.
        names: Joint names, which say which joints are partners.
        fps: Frames per second.
        told: Share of windows that are told their path.
    """

    def __init__(self, settings: AugmentationSettings, names: Sequence[str], *, fps: float, told: float) -> None:
        self._settings, self._fps, self._told = settings, fps, told
        self._order = torch.tensor(mirror_order(names))
        self._slowest, self._fastest = settings.speed_scale_range

    @property
    def mirrors(self) -> bool:
        """Whether the skeleton has joints with partners."""
        return bool((self._order != torch.arange(len(self._order))).any())

    def __call__(self, batch: WindowBatch, generator: torch.Generator) -> WindowBatch:
        """Return changed windows; what is drawn does not depend on the windows."""
        count = len(batch.valid)
        device = batch.valid.device
        drawn = torch.rand(3, count, generator=generator).to(device)
        turned = torch.randn(count, generator=generator).to(device)
        curve = torch.randn(2, count, generator=generator).to(device)
        batch = replace(batch, told=drawn[2] < self._told)
        if self._slowest < self._fastest:
            speed = self._slowest + (self._fastest - self._slowest) * drawn[0]
            batch = _where(batch.told, batch, lambda part, rows: resampled(part, speed[rows]))
        if self._settings.mirror and self.mirrors:
            order = self._order.to(device)
            batch = _where(drawn[1] < self._settings.mirror, batch, lambda part, rows: mirrored(part, order))
        if self._settings.bend:
            batch = bent(batch, self._settings.bend * curve * batch.told, round(_WAVE * self._fps))
        if self._settings.yaw:
            batch = off_heading(batch, turned * torch.pi / 180 * self._settings.yaw)
        return batch


def mirrored(batch: WindowBatch, order: Tensor) -> WindowBatch:
    """Return windows of the same movement by the other side of the body: x becomes -x, and partners change places."""
    flip = batch.offsets.new_tensor([-1.0, 1.0, 1.0])

    def change(state: MotionState) -> MotionState:
        steps = state.steps * state.steps.new_tensor([-1.0, 1.0, -1.0])
        rotations = state.rotations[..., order, :, :] * (flip[:, None] * flip)
        return MotionState(rotations, steps, state.heights, state.contacts.flip(-1))

    return replace(
        batch, known=change(batch.known), truth=change(batch.truth), offsets=(batch.offsets * flip)[:, order]
    )


def resampled(batch: WindowBatch, speed: Tensor) -> WindowBatch:
    """Return windows at other speeds, ``[N]`` times theirs, around the last known frame.

    Rotations are interpolated in 6D and made orthonormal again, steps so that the path stays where it was. What a
    faster window would need of frames before its first one stands still there; it ends earlier.
    """
    whole, past = batch.known.then(batch.truth), batch.known.frames
    frames = whole.frames
    now = past - 1
    places = now + (torch.arange(frames, device=speed.device) - now) * speed[:, None]  # [N, T] in old frames
    inside = places.clamp(0, frames - 1)
    low = inside.floor().long().clamp_max(frames - 2)
    part = inside - low
    rows = torch.arange(len(speed), device=speed.device)[:, None]
    poses = matrix_to_6d(whole.rotations).flatten(2)
    poses = torch.cat([poses, whole.heights[..., None], whole.contacts], dim=-1).flatten(0, 1)
    at = (rows * frames + low).flatten()
    mixed = torch.lerp(poses.index_select(0, at), poses.index_select(0, at + 1), part.flatten()[:, None])
    six, heights, contacts = mixed.view(*low.shape, -1).split([poses.shape[1] - 3, 1, 2], dim=-1)
    # Steps up to any place: the whole ones, and a part of the next.
    before = torch.cat([torch.zeros_like(whole.steps[:, :1]), whole.steps.cumsum(1)], dim=1)
    reached = before[rows, low + 1] + part[..., None] * whole.steps[rows, low + 1]
    steps = torch.cat([reached[:, :1] - before[:, :1], reached.diff(dim=1)], dim=1)
    steps[:, 0] = steps[:, 1]
    rotations = matrix_from_6d(six.unflatten(-1, (-1, 6)))
    changed = MotionState(rotations, steps, heights[..., 0], contacts)
    # The last real frame, in new frames after the last known one.
    valid = torch.div(batch.valid, speed).floor().long().clamp(1, frames - past)
    return replace(batch, known=changed.part(0, past), truth=changed.part(past), valid=valid)


def bent(batch: WindowBatch, curvature: Tensor, period: int) -> WindowBatch:
    """Return windows along other curves: the heading turns more the further the root goes.

    Nothing changes but the turn of the heading with each step, so that pose, speed and contacts stay what they are.
    What stands still is not turned.

    Args:
        batch: The windows.
        curvature: ``[2, N]`` radians per metre, of a cosine and of a sine over time around the last known frame.
        period: Their period in frames.
    """
    past = batch.known.frames
    time = torch.arange(1 - past, batch.truth.frames + 1, device=curvature.device) * (2 * torch.pi / period)
    curve = curvature[0, :, None] * time.cos() + curvature[1, :, None] * time.sin()
    whole = batch.known.then(batch.truth)
    turn = curve * whole.steps[..., :2].norm(dim=-1)
    steps = torch.cat([whole.steps[..., :2], whole.steps[..., 2:] + turn[..., None]], dim=-1)
    return replace(
        batch, known=replace(batch.known, steps=steps[:, :past]), truth=replace(batch.truth, steps=steps[:, past:])
    )


def off_heading(batch: WindowBatch, turn: Tensor) -> WindowBatch:
    """Return windows whose heading is measured `turn` (``[N]`` radians) too far to the left; the motion is the same."""

    def change(state: MotionState) -> MotionState:
        rotations = state.rotations.clone()
        rotations[:, :, 0] = yaw_matrix(-turn)[:, None] @ rotations[:, :, 0]
        flat = torch.stack([state.steps[..., 0], torch.zeros_like(state.heights), state.steps[..., 1]], dim=-1)
        moved = rotate_yaw(flat, -turn[:, None])
        steps = torch.stack([moved[..., 0], moved[..., 2], state.steps[..., 2]], dim=-1)
        return MotionState(rotations, steps, state.heights, state.contacts)

    return replace(batch, known=change(batch.known), truth=change(batch.truth))


def _where(chosen: Tensor, batch: WindowBatch, change: Callable[[WindowBatch, Tensor], WindowBatch]) -> WindowBatch:
    """Return a batch with the windows changed where `chosen` (``[N]`` bool); `change` gets these and their numbers."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return batch
    changed = change(batch.map(lambda values: values[rows]), rows)
    return batch.map(lambda values, part: values.index_copy(0, rows, part), changed)
