"""Changes of training windows: left and right swapped, other speeds, a heading that is a little off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw, yaw_matrix
from motionkit.motion.prediction import MotionState
from motionkit.rigs import mirror_order
from motionkit.trainers.train_mpl._batches import WindowBatch
from motionkit.trainers.train_mpl._settings import AugmentationSettings


class Augmentation:
    """Changes windows at random.

    Args:
        settings: How much of what.
        names: Joint names, which say which joints are partners.
    """

    def __init__(self, settings: AugmentationSettings, names: Sequence[str]) -> None:
        self._settings = settings
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
        if self._slowest < self._fastest:
            batch = resampled(batch, self._slowest + (self._fastest - self._slowest) * drawn[0])
        if self._settings.mirror and self.mirrors:
            batch = _chosen(batch, mirrored(batch, self._order.to(device)), drawn[1] < self._settings.mirror)
        if self._settings.yaw:
            batch = off_heading(batch, turned * torch.pi / 180 * self._settings.yaw)
        return batch


def mirrored(batch: WindowBatch, order: Tensor) -> WindowBatch:
    """Return windows of the same movement by the other side of the body: x becomes -x, and partners change places."""
    flip = torch.diag(torch.tensor([-1.0, 1.0, 1.0])).to(batch.offsets)

    def change(state: MotionState) -> MotionState:
        steps = state.steps * state.steps.new_tensor([-1.0, 1.0, -1.0])
        return MotionState(
            (flip @ state.rotations @ flip)[..., order, :, :], steps, state.heights, state.contacts.flip(-1)
        )

    return replace(
        batch, known=change(batch.known), truth=change(batch.truth), offsets=(batch.offsets @ flip)[:, order]
    )


def resampled(batch: WindowBatch, speed: Tensor) -> WindowBatch:
    """Return windows at other speeds, ``[N]`` times theirs, around the last known frame.

    Rotations are interpolated on the shortest way, steps so that the path stays where it was. What a slower window
    would need of frames before its first one stands still there; a faster one ends earlier.
    """
    import roma

    whole, past = batch.known.then(batch.truth), batch.known.frames
    frames = whole.frames
    now = past - 1
    places = now + (torch.arange(frames, device=speed.device) - now) * speed[:, None]  # [N, T] in old frames
    inside = places.clamp(0, frames - 1)
    low = inside.floor().long().clamp_max(frames - 2)
    part = inside - low
    rows = torch.arange(len(speed), device=speed.device)[:, None]
    first, second = _at(whole, low), _at(whole, low + 1)
    way = roma.rotmat_to_rotvec(first.rotations.mT @ second.rotations) * part[..., None, None]
    # Steps up to any place: the whole ones, and a part of the next.
    before = torch.cat([torch.zeros_like(whole.steps[:, :1]), whole.steps.cumsum(1)], dim=1)
    reached = before[rows, low + 1] + part[..., None] * second.steps
    steps = torch.cat([reached[:, :1] - before[:, :1], reached.diff(dim=1)], dim=1)
    steps[:, 0] = steps[:, 1]
    heights = torch.lerp(first.heights, second.heights, part)
    contacts = torch.lerp(first.contacts, second.contacts, part[..., None])
    changed = MotionState(first.rotations @ roma.rotvec_to_rotmat(way), steps, heights, contacts)
    # The last real frame, in new frames after the last known one.
    valid = torch.div(batch.valid, speed).floor().long().clamp(1, frames - past)
    return replace(batch, known=changed.part(0, past), truth=changed.part(past), valid=valid)


def _at(state: MotionState, places: Tensor) -> MotionState:
    """Return frames ``[N, T]`` of ``[N, ...]`` states."""
    rows = torch.arange(len(places), device=places.device)[:, None]
    return state.map(lambda values: values[rows, places])


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


def _chosen(batch: WindowBatch, other: WindowBatch, take: Tensor) -> WindowBatch:
    """Return `other` where `take` (``[N]`` bool), else `batch`."""

    def pick(one: Tensor, two: Tensor) -> Tensor:
        return torch.where(take.view(-1, *(1,) * (one.ndim - 1)), two, one)

    def state(one: MotionState, two: MotionState) -> MotionState:
        return MotionState(
            pick(one.rotations, two.rotations), pick(one.steps, two.steps), pick(one.heights, two.heights),
            pick(one.contacts, two.contacts),
        )  # fmt: skip

    return replace(
        batch, known=state(batch.known, other.known), truth=state(batch.truth, other.truth),
        offsets=pick(batch.offsets, other.offsets),
    )  # fmt: skip
