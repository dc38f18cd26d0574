"""The soft period of steps as a frozen encoder reads it off the frames, one by one or all at once."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.encoders.mpl._inputs import encoder_inputs, frame_features, with_history
from motionkit.encoders.mpl._network import MotionEncoder
from motionkit.motion.prediction._state import MotionState


def periods(encoder: MotionEncoder, state: MotionState, first: int = 0) -> Tensor:
    """Return the soft periods ``[N, T - first, 4]`` of frames, from frame `first` on."""
    inputs = encoder_inputs(state, encoder.fps, history=encoder.sizes.history)
    return encoder.period(encoder(inputs[:, first:]))


class RunningPeriod:
    """The soft period of the newest frame of a roll-out.

    Args:
        encoder: The encoder.
        known: ``[N, P, ...]`` the frames before the roll-out, at least two.
    """

    def __init__(self, encoder: MotionEncoder, known: MotionState) -> None:
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
