"""Frames one after the other: free-running, with the true frame now and then, or all at once from true frames."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry._rotations import matrix_from_6d
from motionkit.motion.prediction._state import MotionState, follow
from motionkit.nn import unrolled
from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._delta import Delta, Output
from motionkit.policies.mpl._features import ROOT, pack
from motionkit.policies.mpl._period import RunningPeriod, periods
from motionkit.policies.mpl._predicted import Predicted, joined


def roll_out(
    network: Delta,
    known: MotionState,
    frames: int,
    *,
    course: Course | None = None,
    truth: MotionState | None = None,
    forced: Tensor | None = None,
    noise: float = 0.0,
) -> Predicted:
    """Predict frame after frame; each reads what was predicted before it.

    Args:
        network: The network.
        known: ``[N, P, ...]`` float32, P more than the longest of ``network.lags``.
        frames: Frames F to predict.
        course: The commanded path, if any.
        truth: ``[N, F, ...]``: the true frames, for `forced`.
        forced: ``[N, F]`` bool: where the frame that was just predicted is replaced by the true one before it is read.
        noise: See `Delta.forward`.
    """
    lags, masks = network.lags, network.trunk.masks(len(known.heights))
    rows = list(pack(known, network.fps).unbind(1))
    memory = network.remember(torch.stack(rows, dim=1))
    rotations = known.rotations[:, -1]
    place, yaw = known.steps.new_zeros(len(rotations), 2), known.steps.new_zeros(len(rotations))
    running = None if network.encoder is None else RunningPeriod(network.encoder, known)
    made: list[Predicted] = []
    with unrolled(network, frames):
        for frame in range(frames):
            now = rows[-1][:, None]
            earlier = torch.stack([rows[-1 - lag] for lag in lags], dim=1)[:, None]
            condition = None if course is None else course.at(place, yaw, frame)[:, None]
            period = None if running is None else running.now()
            output = network(now, earlier, memory, condition, masks=masks, period=period, noise=noise)
            predicted = _moved(network, rotations[:, None], now, output)
            made.append(predicted)
            state = predicted.state
            if frame == frames - 1:
                break
            if forced is not None and truth is not None:
                state = _replaced(state, truth.part(frame, frame + 1), forced[:, frame])
            rotations = state.rotations[:, 0]
            if running is not None:
                running.add(state)
            if course is not None:
                place, yaw = stepped(place, yaw, state.steps[:, 0])
            row = pack(state, network.fps)
            rows.append(row[:, 0])
            memory = _longer(memory, network.remember(row), network.settings.window)
    return joined(made)


def step_once(network: Delta, known: MotionState, condition: Tensor | None = None) -> Predicted:
    """Predict one frame after ``[N, P, ...]`` known ones; `condition` ``[N, 4 K + 1]`` of the path ahead."""
    rows = pack(known, network.fps)
    earlier = torch.stack([rows[:, -1 - lag] for lag in network.lags], dim=1)[:, None]
    told = None if condition is None else condition[:, None]
    period = None if network.encoder is None else periods(network.encoder, known, known.frames - 1)
    output = network(rows[:, -1:], earlier, network.remember(rows), told, period=period)
    return _moved(network, known.rotations[:, -1:], rows[:, -1:], output)


def teach(
    network: Delta, known: MotionState, truth: MotionState, *, course: Course | None = None, noise: float = 0.0
) -> Predicted:
    """Predict each frame from the true frames before it, all at once: teacher forcing.

    Args:
        network: The network.
        known: ``[N, P, ...]`` float32.
        truth: ``[N, F, ...]`` the frames that follow.
        course: The commanded path, if any.
        noise: See `Delta.forward`.
    """
    past, frames = known.frames, truth.frames
    whole = known.then(truth.part(0, frames - 1))
    rows = pack(whole, network.fps)
    index = torch.arange(past - 1, past - 1 + frames, device=rows.device)
    earlier = torch.stack([rows[:, index - lag] for lag in network.lags], dim=2)
    condition = None
    if course is not None:
        place, yaw = follow(truth.steps)
        place = torch.cat([torch.zeros_like(place[:, :1]), place[:, :-1]], dim=1)
        yaw = torch.cat([torch.zeros_like(yaw[:, :1]), yaw[:, :-1]], dim=1)
        condition = course.at(place, yaw, torch.arange(frames, device=rows.device))
    now = rows[:, past - 1 :]
    masks = network.trunk.masks(len(now))
    period = None if network.encoder is None else periods(network.encoder, whole, past - 1)
    output = network(now, earlier, network.remember(rows), condition, masks=masks, period=period, noise=noise)
    before = whole.rotations[:, past - 1 :]
    return _moved(network, before, now, output)


def _moved(network: Delta, rotations: Tensor, now: Tensor, output: Output) -> Predicted:
    """Return the frames after ``[N, F, ...]`` frames: turned, the root's features changed, new contacts."""
    turn = turn_of(output.residual)
    start = 6 * network.joints
    root = now[..., start : start + ROOT] + output.root
    state = MotionState(turn @ rotations, root[..., :3] / network.fps, root[..., 3], output.contacts)
    return Predicted(state, rotations, output.residual, turn, output.attention, output.hidden)


def turn_of(residual: Tensor) -> Tensor:
    """Return rotations ``[..., 3, 3]`` of what a network adds to the 6D identity, ``[..., 6]``."""
    return matrix_from_6d(residual.new_tensor([1.0, 0, 0, 0, 1, 0]) + residual)


def _replaced(state: MotionState, truth: MotionState, forced: Tensor) -> MotionState:
    return truth.map(lambda one, other: torch.where(forced.view(-1, *(1,) * (one.ndim - 1)), one, other), state)


def stepped(place: Tensor, yaw: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Add one step ``[N, 3]``, seen in the heading before it, to a place ``[N, 2]`` and a heading ``[N]``."""
    cos, sin = yaw.cos(), yaw.sin()
    x, z = step[:, 0] * cos + step[:, 1] * sin, step[:, 1] * cos - step[:, 0] * sin
    return place + torch.stack([x, z], dim=-1), yaw + step[:, 2]


def _longer(
    memory: tuple[Tensor, Tensor] | None, new: tuple[Tensor, Tensor] | None, window: int
) -> tuple[Tensor, Tensor] | None:
    if memory is None or new is None:
        return None
    return torch.cat([memory[0], new[0]], dim=1)[:, -window:], torch.cat([memory[1], new[1]], dim=1)[:, -window:]
