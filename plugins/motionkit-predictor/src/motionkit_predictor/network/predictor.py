"""A predictor's network and its roll-out: frame after frame, with feet that hold the root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor, nn

from motionkit.geometry import matrix_from_6d, matrix_to_6d, rotate_yaw
from motionkit_predictor.encoder.network import MotionEncoder
from motionkit_predictor.network.features import (
    ROOT,
    Course,
    Predicted,
    RunningPeriod,
    Statistics,
    joined,
    pack,
    periods,
)
from motionkit_predictor.network.heads import Delta, OneShot, Output
from motionkit_predictor.network.unrolled import unrolled
from motionkit_predictor.settings import PredictorSettings
from motionkit_predictor.states import MotionState, follow, state_positions

SHARE, POWER, GAIN = 0.9, 2.0, 1.5
"""`livelier` aims at the movement of the known frames times SHARE: poses are extrapolated by the ratio of that to the
newest movement, to the power POWER, at most GAIN.

A prediction is a mean of possible futures, which moves less than each of them; a network that reads its own frames
comes to rest.
"""

HELD, LEVEL = 0.3, 0.01
"""The part of its slide that a foot is kept from if it certainly stands and is by far the lower one, and the metres by
which a foot must be lower than the other to count e times as much.

It is not 1: feet of captured clips move while they stand, as toes roll and skeletons fitted to markers tremble.
"""

NEARER, LONGER, CURVE, MOST = 3.0, 0.25, 0.3, 0.02
"""How the root of a run along a path is brought nearer to it in each frame: by this share of its distance per second,
at most by this share of its step, and by at most so many radians per metre of its step. A root that stands stays.

Feet and path together move a root by at most MOST metres a frame.
"""

ASTRAY = 0.5
"""Metres from its path at which feet no longer hold the root; nearer to it their hold rises linearly. Legs that do not
walk along the path would keep the root from following it."""

AGAIN = 0.1
"""Seconds after which the heads go on from their joined motion.

On CMU's validation clips free runs of 10 s keep 0.81 of the clips' movement so, and 0.70 to 0.71 with 0.2 or 0.33 s;
drawn paths are missed by 1.8, 2.0 and 2.3 m in the mean. After every single frame feet slide three times as fast.
"""


def movement(state: MotionState) -> Tensor:
    """Return how much the joints of states ``[N, T, ...]`` move: mean length of a frame's change in 6D, ``[N]``."""
    moved: Tensor = matrix_to_6d(state.rotations).diff(dim=1).norm(dim=-1).mean((1, 2))
    return moved


def livelier(state: MotionState, newest: MotionState, known: Tensor) -> MotionState:
    """Extrapolate poses from the last frame if joints move less than in the known frames.

    Root and contacts stay. Nothing is slowed down.

    Args:
        state: ``[N, F, ...]``.
        newest: ``[N, P, ...]`` the frames before them.
        known: ``[N]`` `movement` of the known frames.
    """
    gain = (SHARE * known / movement(newest).clamp_min(1e-9)).clamp_min(1.0).pow(POWER).clamp_max(GAIN)
    # In 6D, where a line between two poses goes on beyond the second: [N, 1, J, 6].
    last = matrix_to_6d(newest.rotations[:, -1:])
    further = last + gain[:, None, None, None] * (matrix_to_6d(state.rotations) - last)
    return replace(state, rotations=matrix_from_6d(further))


def roll_out(
    network: Delta,
    known: MotionState,  # [N, P, ...] float32, P more than the longest of ``network.lags``
    frames: int,  # frames F to predict
    *,
    course: Course | None = None,  # the commanded path, if any
    truth: MotionState | None = None,  # [N, F, ...]: the true frames, for `forced`
    forced: Tensor | None = None,  # [N, F] bool: predicted frames that are replaced by the true ones before being read
    noise: float = 0.0,  # see `Delta.forward`
) -> Predicted:
    """Predict frame after frame; each reads what was predicted before it."""
    lags, masks = network.lags, network.trunk.masks(len(known.heights))
    # One row [N, D] per frame: rotations in 6D, root, contacts.
    rows = list(pack(known, network.fps).unbind(1))
    memory = network.remember(torch.stack(rows, dim=1))
    rotations = known.rotations[:, -1]
    place, yaw = known.steps.new_zeros(len(rotations), 2), known.steps.new_zeros(len(rotations))
    running = None if network.encoder is None else RunningPeriod(network.encoder, known)
    made: list[Predicted] = []
    with unrolled(network, frames):
        for frame in range(frames):
            now = rows[-1][:, None]
            # [N, 1, lags, D]: the newest row and those that lie `lags` frames back
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
    # [N, 1, lags, D], as in `roll_out`
    earlier = torch.stack([rows[:, -1 - lag] for lag in network.lags], dim=1)[:, None]
    path = None if condition is None else condition[:, None]
    period = None if network.encoder is None else periods(network.encoder, known, known.frames - 1)
    output = network(rows[:, -1:], earlier, network.remember(rows), path, period=period)
    return _moved(network, known.rotations[:, -1:], rows[:, -1:], output)


def teach(
    network: Delta,
    known: MotionState,  # [N, P, ...] float32
    truth: MotionState,  # [N, F, ...] the frames that follow
    *,
    course: Course | None = None,  # the commanded path, if any
    noise: float = 0.0,  # see `Delta.forward`
) -> Predicted:
    """Predict each frame from the true frames before it, all at once: teacher forcing."""
    past, frames = known.frames, truth.frames
    motion = known.then(truth.part(0, frames - 1))
    rows = pack(motion, network.fps)
    index = torch.arange(past - 1, past - 1 + frames, device=rows.device)
    # [N, F, lags, D]: for each frame the rows that lie `lags` frames before it
    earlier = torch.stack([rows[:, index - lag] for lag in network.lags], dim=2)
    condition = None
    if course is not None:
        place, yaw = follow(truth.steps)
        # Frame f is predicted from where frame f - 1 ended: shifted by one, the first at the origin.
        place = torch.cat([torch.zeros_like(place[:, :1]), place[:, :-1]], dim=1)
        yaw = torch.cat([torch.zeros_like(yaw[:, :1]), yaw[:, :-1]], dim=1)
        condition = course.at(place, yaw, torch.arange(frames, device=rows.device))
    now = rows[:, past - 1 :]
    masks = network.trunk.masks(len(now))
    period = None if network.encoder is None else periods(network.encoder, motion, past - 1)
    output = network(now, earlier, network.remember(rows), condition, masks=masks, period=period, noise=noise)
    before = motion.rotations[:, past - 1 :]
    return _moved(network, before, now, output)


def _moved(network: Delta, rotations: Tensor, now: Tensor, output: Output) -> Predicted:
    """Apply an output to the frames ``[N, F, ...]`` that it was predicted from."""
    turn = turn_of(output.residual)
    start = 6 * network.joints
    root = now[..., start : start + ROOT] + output.root
    state = MotionState(turn @ rotations, root[..., :3] / network.fps, root[..., 3], output.contacts)
    return Predicted(state, rotations, output.residual, turn, output.attention, output.hidden)


def turn_of(residual: Tensor) -> Tensor:
    """Return rotations ``[..., 3, 3]`` of residuals to the 6D identity, ``[..., 6]``."""
    return matrix_from_6d(residual.new_tensor([1.0, 0, 0, 0, 1, 0]) + residual)


def _replaced(state: MotionState, truth: MotionState, forced: Tensor) -> MotionState:
    return truth.map(
        lambda true, predicted: torch.where(forced.view(-1, *(1,) * (true.ndim - 1)), true, predicted), state
    )


def stepped(place: Tensor, yaw: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Add one step ``[N, 3]``, seen in the heading before it, to a place ``[N, 2]`` and a heading ``[N]``."""
    cos, sin = yaw.cos(), yaw.sin()
    # From the root's axes into the world's: a rotation by yaw about y.
    x, z = step[:, 0] * cos + step[:, 1] * sin, step[:, 1] * cos - step[:, 0] * sin
    return place + torch.stack([x, z], dim=-1), yaw + step[:, 2]


def _longer(
    memory: tuple[Tensor, Tensor] | None, new: tuple[Tensor, Tensor] | None, window: int
) -> tuple[Tensor, Tensor] | None:
    if memory is None or new is None:
        return None
    return torch.cat([memory[0], new[0]], dim=1)[:, -window:], torch.cat([memory[1], new[1]], dim=1)[:, -window:]


class Standing:
    """Corrects the steps of the root so that the foot that stands slides less.

    Root and pose are two predictions. Over seconds they come apart: a root that goes faster than its legs glides, and
    goes faster and faster.
    """

    def __init__(
        self,
        offsets: Tensor,  # [J, 3] metres from the parent
        parents: Sequence[int],  # parent of each joint, -1 for joint 0
        feet: tuple[int, int],  # the joint of the left foot that stands longest, and of the right one
    ) -> None:
        joints = {0}
        for foot in feet:
            while foot > 0:
                joints.add(foot)
                foot = parents[foot]
        # Only the joints between root and feet, each after its parent.
        self._joints = sorted(joints)
        self._parents = [-1, *(self._joints.index(parents[joint]) for joint in self._joints[1:])]
        self._feet = [self._joints.index(foot) for foot in feet]
        self._offsets = offsets[self._joints].float()

    def pull(self, last: MotionState, state: MotionState) -> Tensor:
        """Return corrections ``[N, F, 2]`` in metres of the steps of ``[N, F, ...]``, given the frame before."""
        motion = last.then(state)
        rotations, still = motion.rotations[:, :, self._joints], torch.zeros_like(motion.steps)
        # Feet as they move under a root that stays: what they move, the root must move back.
        legs = MotionState(rotations, still, torch.zeros_like(motion.heights), motion.contacts)
        feet = state_positions(legs, self._offsets.to(rotations), self._parents)[:, :, self._feet]
        # [N, F, 2, 3]: both feet before each step of the root and after it, in the axes from before it
        before, now = feet[:, :-1], rotate_yaw(feet[:, 1:], state.steps[:, :, None, 2].expand(-1, -1, 2))
        # With this step of the root the foot stays in its place.
        way = (before - now)[..., ::2]
        # [N, F, 2]: which foot is the lower one, by the mean height of both frames
        lower = torch.softmax((feet[:, 1:, :, 1] + feet[:, :-1, :, 1]) / (-2 * LEVEL), dim=-1)
        stands = HELD * lower * torch.minimum(motion.contacts[:, 1:], motion.contacts[:, :-1])
        pull: Tensor = (stands[..., None] * (way - state.steps[:, :, None, :2])).sum(2)
        return pull


def steered(
    state: MotionState,  # [N, F, ...]
    pull: Tensor | None,  # as `Standing.pull` returns it; None: without the feet
    course: Course | None,  # the path from the first frame on, which also limits the steps; None: the root goes freely
    fps: float,  # frames per second
) -> MotionState:
    """Correct the root's steps by the foot that stands, and bring it nearer to the path."""
    if pull is None and course is None:
        return state
    ways = state.steps[..., :2]
    drawn = torch.zeros_like(ways) if pull is None else _at_most(pull, MOST)
    if course is None:
        return replace(state, steps=torch.cat([ways + drawn, state.steps[..., 2:]], dim=-1))
    place, yaw = ways.new_zeros(len(ways), 2), ways.new_zeros(len(ways))
    steps = []
    for frame in range(state.frames):
        step, missed = state.steps[:, frame], course.missed(place, yaw, frame + 1)
        off = (missed - step)[:, :2].norm(dim=-1, keepdim=True)
        kept = step[:, :2] + (1 - off / ASTRAY).clamp_min(0.0) * drawn[:, frame]
        far = kept.norm(dim=-1, keepdim=True)
        nearer = kept + _at_most(NEARER / fps * (missed[:, :2] - kept), LONGER * far)
        moved = step[:, :2] + _at_most(nearer - step[:, :2], MOST)
        moved = moved if course.fastest is None else _at_most(moved, course.fastest)
        turn = (NEARER / fps * (missed - step)[:, 2:]).clamp(-CURVE * far, CURVE * far)
        step = torch.cat([moved, step[:, 2:] + turn], dim=-1)
        place, yaw = stepped(place, yaw, step)
        steps.append(step)
    return replace(state, steps=torch.stack(steps, dim=1))


def _at_most(way: Tensor, most: float | Tensor) -> Tensor:
    """Shorten vectors ``[..., 2]`` that are longer than `most`."""
    shorter: Tensor = way * (most / way.norm(dim=-1, keepdim=True).clamp_min(1e-9)).clamp_max(1.0)
    return shorter


class PredictorNetwork(nn.Module):
    """The heads of a predictor, and the roll-out that joins their frames."""

    pose_std: Tensor

    def __init__(
        self,
        settings: PredictorSettings,  # shape
        joints: int,  # joints J
        fps: float,  # frames per second
        statistics: Statistics,  # scales, which become buffers
        encoder: MotionEncoder | None = None,  # an encoder whose soft period the heads read; it is frozen here
    ) -> None:
        super().__init__()
        self.encoder = None if encoder is None else encoder.requires_grad_(False).eval()
        self.settings, self.joints, self.fps = settings, joints, fps
        self.statistics = statistics
        self.register_buffer("pose_std", statistics.pose_std.clone())
        common = settings, joints, fps, statistics, encoder
        self.delta = Delta(*common) if settings.head != "one-shot" else None
        self.shot = OneShot(*common) if settings.head != "delta" else None

    @property
    def past(self) -> int:
        """Known frames that are needed at least."""
        reach = 0 if self.encoder is None else self.encoder.reach + 1
        return max(max(self.settings.lag_frames(self.fps)) + 1, reach)

    @property
    def reach(self) -> int:
        """The newest frames that are read at most."""
        return max(self.past, self.settings.window)

    @property
    def again(self) -> int:
        """Frames after which the heads go on from their joined motion, once the first shot is over."""
        return max(1, round(AGAIN * self.fps))

    @property
    def first(self) -> int:
        """Frames that the heads predict on their own before they are joined: a shot, without one as afterwards."""
        return self.again if self.shot is None else self.shot.frames

    @property
    def share(self) -> float:
        """Share of the one-shot head in the joined motion."""
        if self.shot is None or self.delta is None:
            return float(self.delta is None)
        return self.settings.shot_share

    @property
    def last_shared(self) -> Tensor:
        """Weight of the last layer that all losses of a head depend on."""
        head = self.delta if self.delta is not None else self.shot
        assert head is not None
        layer = head.trunk.layers[-1]
        assert isinstance(layer, nn.Linear)
        return layer.weight

    def train(self, mode: bool = True) -> Self:
        """Switch dropout; the encoder stays as it is."""
        super().train(mode)
        if self.encoder is not None:
            self.encoder.eval()
        return self

    def free_run(
        self,
        known: MotionState,
        frames: int,
        *,
        command: Tensor | None = None,
        standing: Standing | None = None,
        fastest: float | None = None,
    ) -> MotionState:
        """Predict frames that read no true frame after the known ones.

        In the first shot each head reads its own frames, and the results are joined: this is best for the first second.
        After it both heads go on from the joined motion, every `AGAIN` seconds: on its own frames the one-shot head
        stands still after some seconds, and reads a path only once per shot. Without a path the motion is then kept as
        lively as the known frames; along one the path sets the pace.

        Args:
            known: ``[N, P, ...]`` float32.
            frames: Frames F.
            command: ``[N, F', 3]`` the path to follow; only a network that was trained with one reads it.
            standing: Correction of the root by the feet, after the first shot; None: without it.
            fastest: Metres per second that a root goes at most along a path, as in `Course`; None: no limit.
        """
        ahead = self.settings.ahead_frames(self.fps)
        course = None
        if command is not None and self.settings.command != "none":
            course = Course(command, ahead, fastest=None if fastest is None else fastest / self.fps)
        reach, made = self.reach, 0
        moved = None if course is not None or self.shot is None else movement(known.part(max(0, known.frames - reach)))
        parts: list[MotionState] = []
        while made < frames:
            part = self._joined(known, min(self.again if made else self.first, frames - made), course)
            if made and moved is not None:
                part = livelier(part, known, moved)
            pull = None if standing is None or not made else standing.pull(known.part(known.frames - 1), part)
            part = steered(part, pull, course, self.fps)
            if course is not None:
                course = course.after(part.steps)
            made += part.frames
            known = known.then(part).part(max(0, known.frames + part.frames - reach))
            parts.append(part)
        return MotionState.joined(parts)

    def _joined(self, known: MotionState, frames: int, course: Course | None) -> MotionState:
        """Return frames of all heads, each on its own frames: at most those of a shot."""
        motions: list[MotionState] = []
        if self.delta is not None:
            motions.append(roll_out(self.delta, known, frames, course=course).state)
        if self.shot is not None:
            condition = None
            if course is not None:
                here = known.steps.new_zeros(len(known.steps), 2)
                condition = course.at(here, here[:, 0], 0)
            motions.append(self.shot(known, condition).state.part(0, frames))
        return motions[0] if len(motions) == 1 else _between(motions[0], motions[1], self.share)


def _between(first: MotionState, second: MotionState, share: float) -> MotionState:
    """Return a mean of two motions, `share` of it the second: rotations in 6D, made orthonormal again."""
    # Angles would jump at 180 degrees; 6D vectors are continuous.
    six = torch.lerp(matrix_to_6d(first.rotations), matrix_to_6d(second.rotations), share)
    between = first.map(lambda one, other: torch.lerp(one, other, share), second)
    return replace(between, rotations=matrix_from_6d(six))
