"""Baselines of predictors: the last pose held or moved on, the nearest neighbour, ridge regression, motion matching.

`Matching` is for runs of many seconds, the others for windows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry import matrix_from_6d, matrix_to_6d, rotate_yaw
from motionkit_predictor.data.clips import StateClip, Windows
from motionkit_predictor.states import MotionState, extended, follow, path_points

DAMPED = 0.8
"""Speed kept from each frame to the next by the damped baseline."""

HISTORY = 10
"""Frames it reads."""

PENALTY = 30.0
"""Weight of the squared coefficients, on inputs that are centred and not scaled."""

SEARCH = 0.3
"""Seconds between two searches of motion matching, and between the points of the path that it compares."""

_SPEED = 2.0  # weight of the pose's change, relative to the pose: on CMU clips 2 to 10 do alike, 0 is worse by a fifth
_AT_ONCE = 512

_POINTS = 3
_PATH = 4.0
"""Weight of the path's points, relative to the pose: chosen on CMU's validation clips, docs/predictor.md."""

_STRIDE = 2  # every second frame of the training clips can be jumped to


class Extrapolation:
    """Goes on from the last frame at a speed that shrinks by a factor from frame to frame.

    Rotations move on in 6D and are made orthonormal again: less wrong after a second than turning on about a fixed
    axis. Contacts stay as they are; with a command the root follows it. `keep` is the factor: 0 holds the last pose, 1
    keeps the speed.
    """

    past = 2

    def __init__(self, names: tuple[str, ...], fps: float, *, keep: float) -> None:
        self.names, self.fps, self._keep = names, fps, keep

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit_predictor.policy.Predictor`."""
        last = known.part(known.frames - 1)
        speeds = self._keep ** torch.arange(1, frames + 1).to(known.heights)  # of each frame, in that of the last
        ways = speeds.cumsum(0)
        six = matrix_to_6d(known.rotations[:, -2:])
        moved = six[:, 1:] + (six[:, 1:] - six[:, :1]) * ways[:, None, None]
        heights = last.heights + known.heights[:, -2:].diff(dim=1) * ways
        steps = last.steps * speeds[:, None] if command is None else command[:, :frames]
        return MotionState(matrix_from_6d(moved), steps, heights, last.contacts.expand(-1, frames, -1))


class Nearest:
    """The nearest training window by pose and its change over one and four frames; its future, moved onto this pose.

    Rotations and height go on from the last known frame by the neighbour's changes, so that nothing jumps; steps and
    contacts are the neighbour's. With a command five points of the path count for the distance, and the root follows
    the command. Windows that are filled up are not used.
    """

    def __init__(self, names: tuple[str, ...], fps: float, windows: Windows, *, command: bool = False) -> None:
        self.names, self.fps, self.past = names, fps, min(5, windows.past)
        self._windows, self._index = windows, windows.whole()
        self._every = max(1, windows.future // 5) if command else 0
        keys = [
            self._key(windows.known(index), windows.following(index).steps) for index in self._index.split(_AT_ONCE)
        ]
        self._keys = torch.cat(keys)

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit_predictor.policy.Predictor`."""
        best = self._index[torch.cdist(self._key(known, command), self._keys).argmin(1)]
        start = self._windows.known(best).part(self._windows.past - 1)
        future = self._windows.following(best).part(0, frames)
        turned = known.rotations[:, -1:] @ start.rotations.transpose(-1, -2) @ future.rotations
        heights = known.heights[:, -1:] + future.heights - start.heights
        steps = future.steps if command is None else command[:, :frames]
        return MotionState(turned, steps, heights, future.contacts)

    def _key(self, known: MotionState, command: Tensor | None) -> Tensor:
        six = matrix_to_6d(known.rotations[:, -self.past :]).flatten(2)
        key = [six[:, -1], _SPEED * (six[:, -1] - six[:, -2]), _SPEED / 2 * (six[:, -1] - six[:, 0])]
        if self._every and command is not None:
            key.append(path_points(command, self._every))
        return torch.cat(key, dim=1)


class Ridge:
    """Linear regression with squared penalty, one fit for each frame of the future, bias not penalised.

    Joints are predicted from joints: 6D rotations of the last frame, and of the nine before it minus it; the target is
    the 6D of a future frame minus the last. Root rotation, height, steps and contacts are predicted from these and
    from their own history. With a command the joints read five points of the path as well, and the root follows it.
    Windows that are filled up are not used.
    """

    def __init__(self, names: tuple[str, ...], fps: float, windows: Windows, *, command: bool = False) -> None:
        self.names, self.fps = names, fps
        self.past = min(HISTORY, windows.past)
        self._every = max(1, windows.future // 5) if command else 0
        moments = _Moments()
        for index in windows.whole().split(_AT_ONCE):
            known, truth = windows.known(index), windows.following(index)
            pose, root = self._inputs(known, truth.steps)
            moments.add(
                torch.cat([pose, root], dim=1), self._pose_targets(known, truth), self._root_targets(known, truth)
            )
        width = pose.shape[1]
        self._of_pose = moments.fit(0, width)
        self._of_root = moments.fit(1, width + root.shape[1])

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit_predictor.policy.Predictor`."""
        pose, root = self._inputs(known, command)
        last = known.part(known.frames - 1)
        six = matrix_to_6d(last.rotations)  # [N, 1, J, 6]
        joints = six[:, :, 1:] + self._of_pose.at(pose, frames).unflatten(-1, (-1, 6))
        moved = self._of_root.at(torch.cat([pose, root], dim=1), frames)
        turn, height, steps, contacts = moved.split([6, 1, 3, 2], dim=-1)
        hips = six[:, :, :1] + turn[:, :, None]
        return MotionState(
            matrix_from_6d(torch.cat([hips, joints], dim=2)),
            steps / self.fps if command is None else command[:, :frames],
            last.heights + height[..., 0],
            contacts.clamp(0.0, 1.0),
        )

    def _inputs(self, known: MotionState, command: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the inputs of the joints, the command's points among them, and the further inputs of the root."""
        recent = known.part(known.frames - self.past)
        six = matrix_to_6d(recent.rotations)
        hips = torch.cat([six[:, :, 0], recent.heights[..., None]], dim=-1)
        pose = [_since_last(six[:, :, 1:].flatten(2))]
        if self._every and command is not None:
            pose.append(path_points(command, self._every))
        # Steps per second, so that the penalty weighs them about as it weighs rotations.
        root = [_since_last(hips), (recent.steps * self.fps).flatten(1), recent.contacts.flatten(1)]
        return torch.cat(pose, dim=1), torch.cat(root, dim=1)

    def _pose_targets(self, known: MotionState, truth: MotionState) -> Tensor:
        return (matrix_to_6d(truth.rotations) - matrix_to_6d(known.rotations[:, -1:]))[:, :, 1:].flatten(2)

    def _root_targets(self, known: MotionState, truth: MotionState) -> Tensor:
        turn = matrix_to_6d(truth.rotations[:, :, 0]) - matrix_to_6d(known.rotations[:, -1:, 0])
        height = (truth.heights - known.heights[:, -1:])[..., None]
        return torch.cat([turn, height, truth.steps * self.fps, truth.contacts], dim=-1)


def _since_last(values: Tensor) -> Tensor:
    """Return ``[N, P D]`` of ``[N, P, D]``: all frames minus the last, and the last."""
    return torch.cat([(values[:, :-1] - values[:, -1:]).flatten(1), values[:, -1]], dim=1)


class _Fit:
    """Coefficients ``[inputs, F, D]`` with the means that belong to them."""

    def __init__(self, weights: Tensor, inputs: Tensor, targets: Tensor) -> None:
        self._weights, self._inputs, self._targets = weights, inputs, targets

    def at(self, inputs: Tensor, frames: int) -> Tensor:
        """Return ``[N, frames, D]``."""
        weights = self._weights[:, :frames]
        flat = (inputs - self._inputs) @ weights.flatten(1)
        return flat.view(-1, *weights.shape[1:]) + self._targets[:frames]


class _Moments:
    """Sums over windows, so that any number of them fits into the memory."""

    def __init__(self) -> None:
        self._count = 0
        self._sums: list[Tensor] = []
        self._shapes: list[torch.Size] = []

    def add(self, inputs: Tensor, *targets: Tensor) -> None:
        """Add windows: inputs ``[N, K]``, and targets ``[N, F, D]`` of each fit."""
        self._shapes = [target.shape[1:] for target in targets]
        flat = [target.flatten(1) for target in targets]
        new = [inputs.sum(0), inputs.T @ inputs, *(part for y in flat for part in (y.sum(0), inputs.T @ y))]
        self._sums = [old + addend for old, addend in zip(self._sums, new, strict=True)] if self._sums else new
        self._count += len(inputs)

    def fit(self, number: int, width: int) -> _Fit:
        """Fit targets `number` to the first `width` inputs."""
        total, square, y_total, product = *self._sums[:2], *self._sums[2 + 2 * number : 4 + 2 * number]
        mean, y_mean = total[:width] / self._count, y_total / self._count
        # Centred moments: sum (x - mx)(y - my) = sum x y - n mx my.
        within = square[:width, :width] - self._count * mean[:, None] * mean
        across = product[:width] - self._count * mean[:, None] * y_mean
        weights = torch.linalg.solve(within + PENALTY * torch.eye(width, dtype=within.dtype), across)
        shape = self._shapes[number]
        return _Fit(weights.unflatten(1, shape), mean, y_mean.unflatten(0, shape))


class Matching:
    """Motion matching: plays the training clips, and every `SEARCH` seconds jumps to the frame that fits best.

    Compared are the pose, its change since the frame before, the height, and the path's points in the next 3 x `SEARCH`
    seconds, relative to the root; each is divided by its deviation over the training clips, so that the groups count
    alike, and the path counts `_PATH` times as much. The difference at a jump is added to the new frames and fades
    until the next search (Bollo, "Inertialization", GDC 2018, with a smooth step). The root moves as in the clip. Clips
    that are shorter than the path's points need are not used.
    """

    past = 2

    def __init__(self, names: tuple[str, ...], fps: float, clips: list[StateClip]) -> None:
        self.names, self.fps = names, fps
        self._every = max(1, round(SEARCH * fps))
        reach = _POINTS * self._every
        used = [clip.state for clip in clips if clip.state.frames > reach + 1]
        self._frames = MotionState.joined(used).map(Tensor.double)
        self._six = matrix_to_6d(self._frames.rotations).flatten(1)
        starts, begin = [], 0
        for state in used:
            starts.append(torch.arange(begin + 1, begin + state.frames - reach, _STRIDE))
            begin += state.frames
        self._starts = torch.cat(starts)
        ahead = self._starts[:, None] + torch.arange(1, reach + 1)
        points = path_points(self._frames.steps[ahead], self._every)
        poses = self._pose(self._six[self._starts], self._six[self._starts - 1], self._frames.heights[self._starts])
        scales = [float(part.var(0).sum().sqrt().clamp_min(1e-6)) for part in (*poses, points)]
        self._scales = (*scales[:-1], scales[-1] / _PATH)
        self._keys = self._key((*poses, points)).float()

    @property
    def numbers(self) -> int:
        """How many numbers it keeps: 6D, steps, height and contacts of each frame, and the search keys."""
        return int(self._six.numel() + (3 + 1 + 2) * len(self._six) + self._keys.numel())

    @staticmethod
    def enough(clips: list[StateClip], fps: float) -> bool:
        """Whether a clip is long enough to be played."""
        return any(clip.state.frames > _POINTS * max(1, round(SEARCH * fps)) + 1 for clip in clips)

    def predict(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict the frames that follow; see `motionkit_predictor.policy.Predictor`."""
        known = known.map(Tensor.double)
        six, before = (matrix_to_6d(known.rotations[:, -1 - lag]).flatten(1) for lag in (0, 1))
        heights = known.heights[:, -1]
        path = None if command is None else extended(command.double(), frames + _POINTS * self._every)
        made: list[MotionState] = []
        for done in range(0, frames, self._every):
            parts = self._pose(six, before, heights)
            if path is not None:
                steps = torch.cat([part.steps for part in made], dim=1) if made else known.steps[:, :0]
                parts = (*parts, self._ahead(path, steps, done))
            key = self._key(parts).float()
            row = self._starts[torch.cdist(key, self._keys[:, : key.shape[1]]).argmin(1)]
            played, six_played = self._played(row, six, heights)
            made.append(played)
            heights = played.heights[:, -1]
            before, six = (six_played[:, -2] if self._every > 1 else six), six_played[:, -1]
        return MotionState.joined(made).part(0, frames)

    def _played(self, row: Tensor, six: Tensor, heights: Tensor) -> tuple[MotionState, Tensor]:
        """Return the frames after `row`, with the difference to the current pose faded out, and their 6D."""
        time = torch.arange(1, self._every + 1)
        rows = row[:, None] + time
        part = time.double() / self._every
        left = 1.0 - part * part * (3.0 - 2.0 * part)
        raw = self._six[rows] + left[:, None] * (six - self._six[row])[:, None]
        rotations = matrix_from_6d(raw.unflatten(-1, (-1, 6)))
        height = self._frames.heights[rows] + left * (heights - self._frames.heights[row])[:, None]
        state = MotionState(rotations, self._frames.steps[rows], height, self._frames.contacts[rows])
        return state, matrix_to_6d(rotations).flatten(2)

    def _ahead(self, path: Tensor, steps: Tensor, done: int) -> Tensor:
        """Return the path's points relative to the root, as `path_points`."""
        still = path.new_zeros(len(path), 1, 3)
        place, yaw = (values[:, -1:] for values in follow(torch.cat([still, steps], dim=1)))
        there, facing = follow(torch.cat([still, path[:, : done + _POINTS * self._every]], dim=1))
        rows = done + self._every * torch.arange(1, _POINTS + 1)
        away, turn = there[:, rows] - place, facing[:, rows] - yaw
        flat = torch.stack([away[..., 0], torch.zeros_like(turn), away[..., 1]], dim=-1)
        near = rotate_yaw(flat, -yaw.expand_as(turn))[..., ::2]
        return torch.cat([near, turn.sin()[..., None], turn.cos()[..., None]], dim=-1).flatten(-2)

    @staticmethod
    def _pose(six: Tensor, before: Tensor, heights: Tensor) -> tuple[Tensor, ...]:
        return six, six - before, heights[:, None]

    def _key(self, parts: tuple[Tensor, ...]) -> Tensor:
        return torch.cat([part / scale for part, scale in zip(parts, self._scales, strict=False)], dim=1)
