"""A predictor's network: the delta head, the one-shot head, or both."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl import MotionEncoder
from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit.motion.prediction import MotionState, follow
from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._roll_out import roll_out
from motionkit.policies.mpl._settings import PredictorSettings


class PredictorNetwork(nn.Module):
    """The heads that a predictor has, and how their frames become one motion.

    Args:
        settings: Shape.
        joints: Joints J.
        fps: Frames per second.
        statistics: Scales, which become buffers.
        encoder: An encoder whose soft period the heads read; it is frozen here.

    Attributes:
        statistics: The scales that it was made with.
        encoder: The encoder; None without.
        delta: The head that goes frame by frame; None without.
        shot: The head that gives all frames at once; None without.
    """

    pose_std: Tensor

    def __init__(
        self,
        settings: PredictorSettings,
        joints: int,
        fps: float,
        statistics: Statistics,
        encoder: MotionEncoder | None = None,
    ) -> None:
        super().__init__()
        self.encoder = None if encoder is None else encoder.requires_grad_(False).eval()
        self.settings, self.joints, self.fps = settings, joints, fps
        self.statistics = statistics
        self.register_buffer("pose_std", statistics.pose_std.clone())
        own = settings, joints, fps, statistics, encoder
        self.delta = Delta(*own) if settings.head != "one-shot" else None
        self.shot = OneShot(*own) if settings.head != "delta" else None

    @property
    def past(self) -> int:
        """Known frames that are needed at least."""
        reach = 0 if self.encoder is None else self.encoder.reach + 1
        return max(max(self.settings.lag_frames(self.fps)) + 1, reach)

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

    def free_run(self, known: MotionState, frames: int, *, command: Tensor | None = None) -> MotionState:
        """Predict frames that read no true frame after the known ones.

        Args:
            known: ``[N, P, ...]`` float32.
            frames: Frames F.
            command: ``[N, F', 3]`` the path to follow; only a network that was trained with one reads it.
        """
        ahead = self.settings.ahead_frames(self.fps)
        course = Course(command, ahead) if command is not None and self.settings.command != "none" else None
        found: list[MotionState] = []
        if self.delta is not None:
            found.append(roll_out(self.delta, known, frames, course=course).state)
        if self.shot is not None:
            found.append(_shots(self.shot, known, frames, course))
        return found[0] if len(found) == 1 else _between(found[0], found[1], self.settings.shot_share)


def _shots(network: OneShot, known: MotionState, frames: int, course: Course | None) -> MotionState:
    """Predict any number of frames: each shot reads the one before it."""
    past, state = known.frames, known
    while (made := state.frames - past) < frames:
        condition = None
        if course is not None:
            still = torch.zeros_like(state.steps[:, :1])
            place, yaw = follow(torch.cat([still, state.steps[:, past:]], dim=1))
            condition = course.at(place[:, -1], yaw[:, -1], made)
        state = state.then(network(state, condition).state)
    return state.part(past, past + frames)


def _between(first: MotionState, second: MotionState, share: float) -> MotionState:
    """Return a mean of two motions, `share` of it the second: rotations in 6D, made orthonormal again."""
    six = torch.lerp(matrix_to_6d(first.rotations), matrix_to_6d(second.rotations), share)
    return MotionState(
        matrix_from_6d(six),
        torch.lerp(first.steps, second.steps, share),
        torch.lerp(first.heights, second.heights, share),
        torch.lerp(first.contacts, second.contacts, share),
    )
