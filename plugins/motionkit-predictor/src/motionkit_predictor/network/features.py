"""Motion states as vectors, and the inputs that a network computes from them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from motionkit.geometry import matrix_to_6d, rotate_yaw
from motionkit_predictor.encoder.network import MotionEncoder, encoder_inputs, frame_features, with_history
from motionkit_predictor.states import MotionState, follow

ROOT = 4
"""Features of the root's motion: its step per second (x, z, turn) and its height."""

FEET = 2
_OTHERS = 0.5  # weight of root and contacts (m/s, rad/s, m and shares) among the inputs, relative to 6D rotations

_SPEED, _FADE, _FIRST = 8.0, 0.75, 1 / 30
"""A difference over t seconds is weighed by 8 (t / (1 / 30 s)) ** -0.75, relative to the pose."""

_FLOOR = 0.3  # smallest scale of a joint's turns, as a share of the median one: joints that hardly move
_LARGEST_TURN = 0.5  # turns per frame are cut at this for their scale, in 6D: glitches of recorded motion


class Course:
    """A commanded path as seen by a roll-out.

    The condition is the path relative to the root, so that a roll-out that has left the path is led back to it. A
    course begins where the path does; `after` gives the course of a roll-out that begins later, and elsewhere.
    """

    def __init__(
        self,
        command: Tensor,  # [N, F, 3] steps as in `MotionState`; after its end the path goes on as its last step
        ahead: Sequence[int],  # frames ahead of the K points that are read
        given: Tensor | None = None,  # [N] bool: samples that are conditioned on the path; None for all
        # Largest step of a root in metres: points out of reach are moved nearer, in their direction. None: no limit.
        fastest: float | None = None,
    ) -> None:
        longest = command.shape[1] + max(ahead)
        steps = torch.cat([command, command[:, -1:].expand(-1, longest - command.shape[1], -1)], dim=1)
        start = steps.new_zeros(len(steps), 1, 2)
        place, yaw = follow(steps)
        # Row t is where the path is after t steps.
        self._place, self._yaw = torch.cat([start, place], dim=1), torch.cat([start[..., 0], yaw], dim=1)
        self._ahead = torch.tensor(list(ahead), device=command.device)
        self._given = None if given is None else given[:, None]
        self.fastest = fastest
        self._most = None if fastest is None else (fastest * self._ahead)[:, None]
        self._start = start[:, 0], start[:, 0, 0], 0

    def after(self, steps: Tensor) -> Course:
        """Return the same path for a roll-out that begins after steps ``[N, F, 3]`` of the root."""
        place, yaw = follow(steps)
        later = copy(self)
        later._start = *self._from_start(place[:, -1], yaw[:, -1]), self._start[2] + steps.shape[1]
        return later

    def off(
        self,
        away: Tensor,  # [N, 3] metres x and z and radians from this path at its start
        frames: int,  # frames until it is this path again; the distance falls linearly
    ) -> Course:
        """Return a path that begins elsewhere and comes back to this one."""
        time = torch.arange(self._yaw.shape[1], device=away.device) / frames
        left = away[:, None] * (1 - time).clamp_min(0.0)[:, None]
        other = copy(self)
        other._place, other._yaw = self._place + left[..., :2], self._yaw + left[..., 2]
        return other

    def at(
        self,
        place: Tensor,  # [N, ..., 2] metres, where the root is, seen from where the roll-out began
        yaw: Tensor,  # [N, ...] radians, where it faces
        frame: int | Tensor,  # steps made since then; a tensor [F] where place has a dimension of frames
    ) -> Tensor:
        """Return the condition ``[N, ..., 4 K + 1]``: x, z, sine and cosine of the K points, and 1 for a known path."""
        near, turn = self._seen(place, yaw, torch.as_tensor(frame, device=yaw.device)[..., None] + self._ahead)
        if self._most is not None:
            near = near * (self._most / near.norm(dim=-1, keepdim=True).clamp_min(1e-9)).clamp_max(1.0)
        points = torch.cat([near, turn.sin()[..., None], turn.cos()[..., None]], dim=-1).flatten(-2)
        condition = torch.cat([points, torch.ones_like(points[..., :1])], dim=-1)
        if self._given is None:
            return condition
        given = self._given.view(-1, *(1 for _ in condition.shape[1:]))
        return torch.where(given, condition, torch.zeros_like(condition))

    def missed(self, place: Tensor, yaw: Tensor, frame: int) -> Tensor:
        """Return the step ``[N, 3]`` from a root ``[N, 2]``, ``[N]`` to where the path is after `frame` steps."""
        near, turn = self._seen(place, yaw, torch.tensor([frame], device=yaw.device))
        return torch.cat([near[:, 0], turn], dim=-1)

    def _seen(self, place: Tensor, yaw: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return places and headings of the path after ``[..., K]`` steps, relative to the root."""
        place, yaw = self._from_start(place, yaw)
        rows = (self._start[2] + frames).clamp_max(self._yaw.shape[1] - 1)
        there, facing = self._place[:, rows], self._yaw[:, rows]
        away = there - place[..., None, :]
        flat = torch.stack([away[..., 0], torch.zeros_like(facing), away[..., 1]], dim=-1)
        near = rotate_yaw(flat, -yaw[..., None].expand_as(facing))[..., ::2]
        return near, facing - yaw[..., None]

    def _from_start(self, place: Tensor, yaw: Tensor) -> tuple[Tensor, Tensor]:
        """Transform place and heading from the frame of the roll-out's start to that of the path."""
        dims = (1,) * (yaw.ndim - 1)
        start, facing = self._start[0].view(-1, *dims, 2), self._start[1].view(-1, *dims)
        flat = torch.stack([place[..., 0], torch.zeros_like(yaw), place[..., 1]], dim=-1)
        return start + rotate_yaw(flat, facing.expand_as(yaw))[..., ::2], facing + yaw


def width_of(joints: int) -> int:
    """Return D, the features of a frame."""
    return 6 * joints + ROOT + FEET


def pack(state: MotionState, fps: float) -> Tensor:
    """Return ``[..., T, D]``: 6D rotations, steps per second, height, contacts."""
    six = matrix_to_6d(state.rotations).flatten(-2)
    return torch.cat([six, state.steps * fps, state.heights[..., None], state.contacts], dim=-1)


def reading(now: Tensor, earlier: Tensor, mean: Tensor, lags: Sequence[int], fps: float) -> Tensor:
    """Return ``[..., reading_width]``: the pose, its differences to earlier ones, root and contacts now and before.

    All rotations share one scale, and so do all their differences over one time. A scale per joint would amplify the
    noise of joints at rest; it cost a tenth of the accuracy on CMU.

    Args:
        now: ``[..., D]`` frames as `pack` makes them.
        earlier: ``[..., L, D]`` the frames at `lags` before each.
        mean: ``[D]`` of the training frames.
        lags: L frames.
        fps: Frames per second.
    """
    six = now.shape[-1] - ROOT - FEET
    weights = [_SPEED * (lag / fps / _FIRST) ** -_FADE for lag in lags]
    late = (now[..., None, :six] - earlier[..., :six]) * now.new_tensor(weights)[:, None]
    centred = now - mean
    before = earlier[..., len(lags) // 2, six:] - mean[six:]
    return torch.cat([centred[..., :six], late.flatten(-2), _OTHERS * centred[..., six:], _OTHERS * before], dim=-1)


def reading_width(joints: int, lags: int) -> int:
    """Return the features of a `reading`."""
    return 6 * joints * (1 + lags) + 2 * (ROOT + FEET)


@dataclass(frozen=True)
class Statistics:
    """Scales of a network's inputs and outputs, from the training frames."""

    mean: Tensor  # [D] of frames
    scale: Tensor  # [] mean deviation of a reading
    turn_std: Tensor  # [6 J] root mean square of the turns per frame minus the identity
    root_std: Tensor  # [4] root mean square of the change of the root's features per frame
    pose_std: Tensor  # [D] deviation of frames

    @classmethod
    def neutral(cls, joints: int) -> Statistics:
        """Return statistics that change nothing, for a network whose statistics are loaded after it was made."""
        width = width_of(joints)
        return cls(torch.zeros(width), torch.ones(()), torch.ones(6 * joints), torch.ones(ROOT), torch.ones(width))

    @classmethod
    def of(cls, clips: Sequence[MotionState], fps: float, lags: Sequence[int]) -> Statistics:
        """Measure clips, each ``[T, ...]``; no difference crosses the border between two of them."""
        packed = [pack(clip, fps).double() for clip in clips]
        frames = torch.cat(packed)
        joints = clips[0].rotations.shape[-3]
        turns = torch.cat([clip.rotations[1:] @ clip.rotations[:-1].mT for clip in clips]).double()
        rest = matrix_to_6d(torch.eye(3, dtype=turns.dtype))
        residual = (matrix_to_6d(turns) - rest).flatten(-2).clamp(-_LARGEST_TURN, _LARGEST_TURN)
        changes = torch.cat([clip.diff(dim=0) for clip in packed])[:, 6 * joints : 6 * joints + ROOT]
        mean, far = frames.mean(0), max(lags)
        # A clip shorter than the longest difference stands still before its first frame.
        padded = [torch.cat([clip[:1].expand(far, -1), clip]) for clip in packed]
        read = []
        for clip in padded:
            earlier = torch.stack([clip[far - lag : len(clip) - lag] for lag in lags], dim=1)
            read.append(reading(clip[far:], earlier, mean, lags, fps))
        turned = _rms(residual)
        return cls(
            mean.float(),
            torch.cat(read).std(0, correction=0).mean().clamp_min(1e-4).float(),
            turned.clamp_min(max(float(turned.median()) * _FLOOR, 1e-4)).float(),
            _rms(changes).clamp_min(1e-4).float(),
            frames.std(0, correction=0).clamp_min(1e-3).float(),
        )


def _rms(values: Tensor) -> Tensor:
    return values.square().mean(0).sqrt()


def periods(encoder: MotionEncoder, state: MotionState, first: int = 0) -> Tensor:
    """Return the soft periods ``[N, T - first, 4]`` of frames, from frame `first` on."""
    inputs = encoder_inputs(state, encoder.fps, history=encoder.sizes.history)
    return encoder.period(encoder(inputs[:, first:]))


class RunningPeriod:
    """The soft period of the newest frame of a roll-out."""

    def __init__(
        self,
        encoder: MotionEncoder,
        known: MotionState,  # [N, P, ...] the frames before the roll-out, at least two
    ) -> None:
        self._encoder, self._history = encoder, encoder.sizes.history
        recent = known.part(max(0, known.frames - encoder.reach - 1))
        features = frame_features(recent, encoder.fps)
        self._last = known.part(known.frames - 1)
        self._features = list(features[:, -self._history :].unbind(1))
        while len(self._features) < self._history:
            self._features.insert(0, self._features[0])

    def now(self) -> Tensor:
        """Return ``[N, 1, 4]``."""
        rows = torch.arange(self._history - 1, -1, -1)[None]
        inputs = with_history(torch.stack(self._features, dim=1), rows, self._encoder.joints)
        return self._encoder.period(self._encoder(inputs))

    def add(self, state: MotionState) -> None:
        """Add a frame ``[N, 1, ...]``."""
        self._features = [*self._features[1:], frame_features(self._last.then(state), self._encoder.fps)[:, 1]]
        self._last = state


@dataclass(frozen=True)
class Predicted:
    """Predicted frames; ``state.rotations == turn @ before``, for the losses as for the roll-out."""

    state: MotionState  # [N, F, ...] float32, with gradients
    before: Tensor  # [N, F, J, 3, 3] rotations of the frame that each was predicted from, true or fed back
    # [N, F, J, 6] the network's output before Gram-Schmidt, minus the 6D identity: of the turn, or of the rotation
    # itself if all frames are predicted at once
    residual: Tensor
    turn: Tensor  # [N, F, J, 3, 3] turn of each joint since the frame before
    attention: Tensor  # [N, F, heads, W] weights over the last W frames, the newest last; they sum to 1
    hidden: Tensor  # [N, F, H] hidden state behind each frame

    def first(self, frames: int) -> Predicted:
        """Return the first `frames` frames."""
        rest = (getattr(self, field.name)[:, :frames] for field in fields(self)[1:])
        return Predicted(self.state.part(0, frames), *rest)


def joined(parts: Sequence[Predicted]) -> Predicted:
    """Concatenate parts; attention to fewer frames is padded with zeros on the left."""
    widest = max(part.attention.shape[-1] for part in parts)
    wide = [
        replace(part, attention=nn.functional.pad(part.attention, (widest - part.attention.shape[-1], 0)))
        for part in parts
    ]
    rest = (torch.cat([getattr(part, field.name) for part in wide], dim=1) for field in fields(Predicted)[1:])
    return Predicted(MotionState.joined([part.state for part in parts]), *rest)
