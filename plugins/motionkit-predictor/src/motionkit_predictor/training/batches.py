"""The windows of an update: batches that depend on seed and update alone, and random changes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.geometry import matrix_from_6d, matrix_to_6d, rotate_yaw, yaw_matrix
from motionkit.rigs import mirror_order
from motionkit.rl import stable_hash
from motionkit_predictor.data.clips import Windows
from motionkit_predictor.states import MotionState

_WAVE = 6.0  # seconds in which a bent path swings from side to side: nearly a circle over the second that is read ahead


@dataclass(frozen=True)
class WindowBatch:
    """Windows of one batch, float32."""

    known: MotionState  # [N, P, ...]
    truth: MotionState  # [N, F', ...] the frames that follow, also those beyond the window, where its path leads
    valid: Tensor  # [N] int64 frames of the truth that are real
    offsets: Tensor  # [N, J, 3]
    contacts_known: Tensor  # [N] bool
    conditioned: Tensor  # [N] bool: windows that are conditioned on their path
    future: int  # frames F of the window

    def map(self, change: Callable[..., Tensor], *others: WindowBatch) -> WindowBatch:
        """Apply `change` to each tensor; it also gets those of `others`."""
        batches = self, *others
        known = self.known.map(change, *(batch.known for batch in others))
        truth = self.truth.map(change, *(batch.truth for batch in others))
        valid, offsets, sure, conditioned = (
            change(*(getattr(batch, name) for batch in batches))
            for name in ("valid", "offsets", "contacts_known", "conditioned")
        )
        return WindowBatch(known, truth, valid, offsets, sure, conditioned, self.future)

    def later(self, shift: Tensor, frames: int) -> WindowBatch:
        """Return windows that begin `shift` (``[N]``) frames later and predict `frames`; P stays."""
        motion = self.known.then(self.truth)
        past = self.known.frames
        rows = torch.arange(len(shift), device=shift.device)[:, None]
        places = shift[:, None] + torch.arange(past + frames, device=shift.device)
        moved = motion.map(lambda values: values[rows, places])
        return WindowBatch(
            moved.part(0, past), moved.part(past), (self.valid - shift).clamp(0, frames), self.offsets,
            self.contacts_known, self.conditioned, frames,
        )  # fmt: skip

    def somewhere(self, frames: int, generator: torch.Generator) -> tuple[Tensor, WindowBatch]:
        """Draw a start in each window for `frames` frames, at most all; return starts and the windows from there."""
        frames = min(frames, self.truth.frames)
        latest = (self.valid.clamp_max(self.future) - frames).clamp_min(0)
        drawn = torch.rand(len(latest), generator=generator).to(latest.device)
        start = (drawn * (latest + 1)).long().clamp_max(self.truth.frames - frames)
        return start, self.later(start, frames)

    def steps_from(self, shift: Tensor, frames: int) -> Tensor:
        """Return the steps ``[N, frames, 3]`` after the known frames of windows that begin `shift` later.

        After the end of the truth the path goes on as its last step.
        """
        rows = shift[:, None] + torch.arange(frames, device=shift.device)
        return self.truth.steps[
            torch.arange(len(shift), device=shift.device)[:, None], rows.clamp_max(self.truth.frames - 1)
        ]

    def mask(self) -> Tensor:
        """Return ``[N, F]``: True for real frames of the truth."""
        frames = torch.arange(self.truth.frames, device=self.valid.device)
        return frames < self.valid[:, None]


class WindowBatches:
    """Endless shuffled batches; each window once per epoch, the last batch of an epoch filled from its beginning."""

    def __init__(
        self,
        windows: Windows,  # training windows
        *,
        batch_size: int,  # windows per batch
        accumulate: int,  # batches per update
        seed: int,  # fixes everything
        device: torch.device,  # where batches go
        further: int = 0,  # frames beyond the windows that are gathered
        last: int = 1,  # frames at the end of a clip whose mean step leads on after it
    ) -> None:
        self._windows = replace(windows, frames=windows.frames.map(Tensor.float))
        self._seed, self._device = seed, device
        self._frames, self._ways = windows.future + further, self._windows.last_ways(last)
        self._size, self._accumulate = min(batch_size, len(windows)), accumulate
        self._epoch: tuple[int, Tensor] = (-1, torch.empty(0))

    @property
    def per_epoch(self) -> int:
        """Updates in one epoch."""
        return -(-len(self._windows) // (self._size * self._accumulate))

    def epoch_of(self, step: int) -> int:
        """Return the epoch, from 1, of update number `step`, from 1."""
        return 1 + (step - 1) // self.per_epoch

    def __call__(self, step: int) -> list[WindowBatch]:
        """Return the batches of update number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, torch.randperm(len(self._windows), generator=self.generator("epoch", epoch)))
        count = self._size * self._accumulate
        places = torch.arange(position * count, (position + 1) * count) % len(self._windows)
        return [self._gather(rows) for rows in self._epoch[1][places].split(self._size)]

    def drawn(self, generator: torch.Generator) -> WindowBatch:
        """Return windows drawn at random, as many as in a batch."""
        return self._gather(torch.randint(len(self._windows), (self._size,), generator=generator))

    def generator(self, purpose: str, number: int) -> torch.Generator:
        """Return the source of random numbers of one purpose and step."""
        return torch.Generator().manual_seed(stable_hash(f"train-mpl/{purpose}/{self._seed}/{number}") % 2**63)

    def _gather(self, index: Tensor) -> WindowBatch:
        windows, clip = self._windows, self._windows.clip[index]

        def placed(values: Tensor) -> Tensor:
            return values.to(self._device, torch.float32)

        truth, valid = windows.onward(index, self._frames, self._ways)
        return WindowBatch(
            windows.known(index).map(placed), truth.map(placed), valid.to(self._device),
            placed(windows.offsets[clip]), windows.contacts_known[clip].to(self._device),
            torch.ones(len(index), dtype=torch.bool, device=self._device), windows.future,
        )  # fmt: skip


class Augmentation:
    """Random augmentation of windows. Also draws which windows are conditioned on their path, a share `conditioned`.

    Speed and curvature change only in those windows. A free run has to come back to the speed of the clips: when its
    windows changed speed too, free walks on CMU went faster and faster.
    """

    def __init__(
        self,
        names: Sequence[str],  # joints
        *,
        fps: float,  # frames per second
        conditioned: float,  # share of windows that are conditioned on their path
        mirror: float,  # share of windows with left and right swapped
        speeds: tuple[float, float],  # slowest and fastest speed that windows on a path are resampled to
        bend: float,  # std in radians per metre of curves that paths are bent along
        yaw: float = 0.0,  # std in degrees of noise on the heading
    ) -> None:
        self._fps, self._conditioned, self._mirror, self._bend, self._yaw = fps, conditioned, mirror, bend, yaw
        self._order = torch.tensor(mirror_order(names))
        self._slowest, self._fastest = speeds

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
        batch = replace(batch, conditioned=drawn[2] < self._conditioned)
        if self._slowest < self._fastest:
            speed = self._slowest + (self._fastest - self._slowest) * drawn[0]
            batch = _where(batch.conditioned, batch, lambda part, rows: resampled(part, speed[rows]))
        if self._mirror and self.mirrors:
            order = self._order.to(device)
            batch = _where(drawn[1] < self._mirror, batch, lambda part, rows: mirrored(part, order))
        if self._bend:
            batch = bent(batch, self._bend * curve * batch.conditioned, round(_WAVE * self._fps))
        if self._yaw:
            batch = off_heading(batch, turned * torch.pi / 180 * self._yaw)
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

    Rotations are interpolated in 6D and made orthonormal again, steps so that the path stays where it was. A faster
    window repeats its first frame before its beginning, and ends earlier.
    """
    motion, past = batch.known.then(batch.truth), batch.known.frames
    frames = motion.frames
    now = past - 1
    places = now + (torch.arange(frames, device=speed.device) - now) * speed[:, None]  # [N, T] in old frames
    inside = places.clamp(0, frames - 1)
    low = inside.floor().long().clamp_max(frames - 2)
    part = inside - low
    rows = torch.arange(len(speed), device=speed.device)[:, None]
    poses = matrix_to_6d(motion.rotations).flatten(2)
    poses = torch.cat([poses, motion.heights[..., None], motion.contacts], dim=-1).flatten(0, 1)
    at = (rows * frames + low).flatten()
    mixed = torch.lerp(poses.index_select(0, at), poses.index_select(0, at + 1), part.flatten()[:, None])
    six, heights, contacts = mixed.view(*low.shape, -1).split([poses.shape[1] - 3, 1, 2], dim=-1)
    # Steps up to any place: the whole ones, and a part of the next.
    before = torch.cat([torch.zeros_like(motion.steps[:, :1]), motion.steps.cumsum(1)], dim=1)
    reached = before[rows, low + 1] + part[..., None] * motion.steps[rows, low + 1]
    steps = torch.cat([reached[:, :1] - before[:, :1], reached.diff(dim=1)], dim=1)
    steps[:, 0] = steps[:, 1]
    rotations = matrix_from_6d(six.unflatten(-1, (-1, 6)))
    changed = MotionState(rotations, steps, heights[..., 0], contacts)
    # The last real frame, in new frames after the last known one.
    valid = torch.div(batch.valid, speed).floor().long().clamp(1, frames - past)
    return replace(batch, known=changed.part(0, past), truth=changed.part(past), valid=valid)


def bent(batch: WindowBatch, curvature: Tensor, period: int) -> WindowBatch:
    """Return windows along other curves: the heading turns more the further the root goes.

    Only the turn of the heading per step changes; pose, speed and contacts stay. The turn is 0 if the root stands.

    Args:
        batch: Windows.
        curvature: ``[2, N]`` radians per metre, of a cosine and of a sine over time around the last known frame.
        period: Their period in frames.
    """
    past = batch.known.frames
    time = torch.arange(1 - past, batch.truth.frames + 1, device=curvature.device) * (2 * torch.pi / period)
    curve = curvature[0, :, None] * time.cos() + curvature[1, :, None] * time.sin()
    motion = batch.known.then(batch.truth)
    turn = curve * motion.steps[..., :2].norm(dim=-1)
    steps = torch.cat([motion.steps[..., :2], motion.steps[..., 2:] + turn[..., None]], dim=-1)
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
    """Apply `change` to the windows of `chosen` (``[N]`` bool); it gets them and their indices."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return batch
    changed = change(batch.map(lambda values: values[rows]), rows)
    return batch.map(lambda values, part: values.index_copy(0, rows, part), changed)
