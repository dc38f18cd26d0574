"""A predictor's network: the delta head, the one-shot head, or both."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.mpl._course import Course
from motionkit.policies.mpl._delta import Delta
from motionkit.policies.mpl._features import Statistics
from motionkit.policies.mpl._lively import livelier, movement
from motionkit.policies.mpl._one_shot import OneShot
from motionkit.policies.mpl._roll_out import roll_out
from motionkit.policies.mpl._settings import PredictorSettings
from motionkit.policies.mpl._standing import Standing, steered

AGAIN = 0.1
"""Seconds after which the heads go on from their joined motion.

On CMU's validation clips free runs of 10 s keep 0.81 of real movement so, and 0.70 to 0.71 with 0.2 or 0.33 s; drawn
paths are missed by 1.8, 2.0 and 2.3 m in the mean. After every single frame feet slide three times as fast.
"""


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

        The first shot is predicted by each head on its own frames and then joined: so the first second is best. After
        it both heads go on from the joined motion, again and again after `AGAIN`: on its own frames the one-shot head
        stands still after some seconds, and sees a path once in a shot. Without a path it is then kept as lively as the
        known frames are; along one the path says how much there is to do.

        Args:
            known: ``[N, P, ...]`` float32.
            frames: Frames F.
            command: ``[N, F', 3]`` the path to follow; only a network that was trained with one reads it.
            fastest: Metres per second that a root goes at most along a path, as in `Course`; None: no limit.
            standing: What feet say of the root, after the first shot; None: they are not heeded.
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
        found: list[MotionState] = []
        if self.delta is not None:
            found.append(roll_out(self.delta, known, frames, course=course).state)
        if self.shot is not None:
            condition = None
            if course is not None:
                here = known.steps.new_zeros(len(known.steps), 2)
                condition = course.at(here, here[:, 0], 0)
            found.append(self.shot(known, condition).state.part(0, frames))
        return found[0] if len(found) == 1 else _between(found[0], found[1], self.share)


def _between(first: MotionState, second: MotionState, share: float) -> MotionState:
    """Return a mean of two motions, `share` of it the second: rotations in 6D, made orthonormal again."""
    six = torch.lerp(matrix_to_6d(first.rotations), matrix_to_6d(second.rotations), share)
    return MotionState(
        matrix_from_6d(six),
        torch.lerp(first.steps, second.steps, share),
        torch.lerp(first.heights, second.heights, share),
        torch.lerp(first.contacts, second.contacts, share),
    )
