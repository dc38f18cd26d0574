"""Windows of clips: what is known, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import StateClip
from motionkit.errors import MotionkitError
from motionkit.motion.prediction._state import MotionState


@dataclass(frozen=True)
class Windows:
    """Windows of ``past`` known frames and ``future`` frames after them, gathered from the clips when asked for.

    A clip shorter than a window gives one window: it stands still in its first frame before it begins, and in its
    last one after it ended; the frames after its end do not count (`valid`).

    Attributes:
        frames: All clips one after the other, those of short clips filled up: ``[sum T, ...]``.
        keys: Id of each of the C clips.
        offsets: ``[C, J, 3]`` of each clip.
        contacts_known: ``[C]`` bool.
        starts: ``[N]`` int64, first frame of each window.
        clip: ``[N]`` int64, clip of each window.
        valid: ``[N]`` int64, frames of the future that are real.
        past: Known frames P.
        future: Frames F to predict.
        spans: ``[C, 2]`` int64, the first real frame of each clip and the one after its last.
        short: Ids of the clips that were filled up.
        left_out: Ids of the clips of a single frame, which give no window.
    """

    frames: MotionState
    keys: tuple[str, ...]
    offsets: Tensor
    contacts_known: Tensor
    starts: Tensor
    clip: Tensor
    valid: Tensor
    past: int
    future: int
    spans: Tensor
    short: tuple[str, ...]
    left_out: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.starts)

    def known(self, index: Tensor, *, shift: int = 0) -> MotionState:
        """Return the known frames of windows `index`, ``[N, P, ...]``; with `shift`, of windows so much later."""
        return self._gather(index, shift, self.past)

    def last_ways(self, frames: int) -> Tensor:
        """Return the mean step of the last `frames` of each clip, ``[C, 3]``."""
        spans = [(max(first, end - frames), end) for first, end in self.spans.tolist()]
        return torch.stack([self.frames.steps[first:end].mean(0) for first, end in spans])

    def onward(self, index: Tensor, frames: int, ways: Tensor) -> tuple[MotionState, Tensor]:
        """Return what follows the known frames of windows, beyond the window too, and how much of it is real.

        Where a clip ends its last pose stays, and its root goes on: so a path that is read ahead of the end leads on.

        Args:
            index: ``[N]`` int64 windows.
            frames: Frames F'.
            ways: ``[C, 3]`` the step of each clip's root after its end.

        Returns:
            ``[N, F', ...]``, and ``[N]`` int64 real frames of them, at least 1.
        """
        rows = self.starts[index, None] + self.past + torch.arange(frames)
        end = self.spans[self.clip[index], 1]
        state = self.frames.map(lambda values: values[rows.minimum(end[:, None] - 1)])
        steps = torch.where((rows < end[:, None])[..., None], state.steps, ways[self.clip[index], None])
        real = (end - self.starts[index] - self.past).clamp(1, frames)
        return MotionState(state.rotations, steps, state.heights, state.contacts), real

    def last(self, index: Tensor) -> MotionState:
        """Return the last known frame of windows `index`, ``[N, 1, ...]``."""
        return self._gather(index, self.past - 1, 1)

    def following(self, index: Tensor, *, shift: int = 0) -> MotionState:
        """Return the frames that follow, ``[N, F - shift, ...]``; with `shift`, without so many of the first."""
        return self._gather(index, self.past + shift, self.future - shift)

    def whole(self) -> Tensor:
        """Return the indices of the windows whose future is real to its end."""
        return (self.valid == self.future).nonzero()[:, 0]

    def _gather(self, index: Tensor, first: int, count: int) -> MotionState:
        rows = self.starts[index, None] + first + torch.arange(count)
        return self.frames.map(lambda values: values[rows])


def cut_windows(clips: Sequence[StateClip], *, past: int, future: int, stride: int) -> Windows:
    """Cut clips into windows.

    Args:
        clips: Clips of one skeleton and rate.
        past: Known frames P, at least 2.
        future: Frames F to predict.
        stride: Frames between the beginnings of two windows of a clip.

    Raises:
        MotionkitError: No clip has two frames.
    """
    states: list[MotionState] = []
    starts, owners, valid = [], [], []
    short, left_out = [], []
    spans: list[tuple[int, int]] = []
    used: list[StateClip] = []
    begin = 0
    for clip in clips:
        state, real = clip.state, clip.state.frames
        if real < 2:
            left_out.append(clip.key)
            continue
        missing, before = past + future - real, 0
        if missing > 0:
            short.append(clip.key)
            before = max(0, past - real + 1)
            state = _filled(state, before=before, total=past + future)
        first = torch.arange(0, state.frames - past - future + 1, stride)
        starts.append(begin + first)
        owners.append(torch.full_like(first, len(used)))
        valid.append(torch.full_like(first, future if missing <= 0 else max(1, real - past)))
        spans.append((begin + before, begin + before + real))
        states.append(state)
        used.append(clip)
        begin += state.frames
    if not used:
        raise MotionkitError("no clip has two frames or more.", fix="give longer clips.")
    return Windows(
        MotionState.joined(states), tuple(clip.key for clip in used), torch.stack([clip.offsets for clip in used]),
        torch.tensor([clip.contacts_known for clip in used]), torch.cat(starts), torch.cat(owners), torch.cat(valid),
        past, future, torch.tensor(spans), tuple(short), tuple(left_out),
    )  # fmt: skip


def _filled(state: MotionState, *, before: int, total: int) -> MotionState:
    """Stand still before the first frame and after the last one."""

    def still(frame: MotionState, count: int) -> MotionState:
        held = frame.map(lambda values: values.expand(count, *values.shape[1:]))
        return MotionState(held.rotations, torch.zeros_like(held.steps), held.heights, held.contacts)

    after = total - before - state.frames
    return still(state.part(0, 1), before).then(state).then(still(state.part(state.frames - 1), after))
