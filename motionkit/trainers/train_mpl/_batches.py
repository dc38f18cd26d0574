"""Which windows an update sees: a function of seed and update alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.datasets.motions._windows import Windows
from motionkit.motion.prediction._state import MotionState
from motionkit.rl import stable_hash


@dataclass(frozen=True)
class WindowBatch:
    """Windows of one batch, float32.

    Attributes:
        known: ``[N, P, ...]``.
        truth: ``[N, F', ...]`` what follows, beyond the window too: where its path leads.
        valid: ``[N]`` int64 frames of the truth that are real.
        offsets: ``[N, J, 3]``.
        contacts_known: ``[N]`` bool.
        told: ``[N]`` bool: windows that are told their path.
        future: Frames F of the window.
    """

    known: MotionState
    truth: MotionState
    valid: Tensor
    offsets: Tensor
    contacts_known: Tensor
    told: Tensor
    future: int

    def map(self, change: Callable[..., Tensor], *others: WindowBatch) -> WindowBatch:
        """Return windows with each tensor changed; `change` also gets that of `others`."""
        every = self, *others

        known = self.known.map(change, *(one.known for one in others))
        truth = self.truth.map(change, *(one.truth for one in others))
        valid, offsets, sure, told = (
            change(*(getattr(one, name) for one in every)) for name in ("valid", "offsets", "contacts_known", "told")
        )
        return WindowBatch(known, truth, valid, offsets, sure, told, self.future)

    def later(self, shift: Tensor, frames: int) -> WindowBatch:
        """Return windows that begin `shift` (``[N]``) frames later and predict `frames`; P stays."""
        whole = self.known.then(self.truth)
        past = self.known.frames
        rows = torch.arange(len(shift), device=shift.device)[:, None]
        places = shift[:, None] + torch.arange(past + frames, device=shift.device)
        moved = whole.map(lambda values: values[rows, places])
        return WindowBatch(
            moved.part(0, past), moved.part(past), (self.valid - shift).clamp(0, frames), self.offsets,
            self.contacts_known, self.told, frames,
        )  # fmt: skip

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
    """Endless shuffled batches; each window once per epoch, the last batch of an epoch filled from its beginning.

    Args:
        windows: Training windows.
        batch_size: Windows per batch.
        accumulate: Batches per update.
        seed: Fixes everything.
        device: Where batches go.
        further: Frames beyond the windows that are gathered.
        last: Frames at the end of a clip whose mean step leads on after it.
    """

    def __init__(
        self,
        windows: Windows,
        *,
        batch_size: int,
        accumulate: int,
        seed: int,
        device: torch.device,
        further: int = 0,
        last: int = 1,
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
