"""What a predictor's network says of frames: the frames, and what its losses read beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from motionkit.motion.prediction._state import MotionState


@dataclass(frozen=True)
class Predicted:
    """Predicted frames; ``state.rotations == turn @ before``, for the losses as for the roll-out.

    Attributes:
        state: ``[N, F, ...]`` float32, with gradients.
        before: ``[N, F, J, 3, 3]`` rotations of the frame that each was predicted from, true or fed back.
        residual: ``[N, F, J, 6]`` what the network gives before Gram-Schmidt, minus the 6D identity: of the turn, or of
            the rotation itself where all frames are predicted at once.
        turn: ``[N, F, J, 3, 3]`` turn of each joint since the frame before.
        attention: ``[N, F, heads, W]`` weights over the last W frames, the newest last; they sum to 1.
        hidden: ``[N, F, H]`` hidden state behind each frame.
    """

    state: MotionState
    before: Tensor
    residual: Tensor
    turn: Tensor
    attention: Tensor
    hidden: Tensor

    def first(self, frames: int) -> Predicted:
        """Return the first `frames` frames."""
        return Predicted(
            self.state.part(0, frames),
            self.before[:, :frames],
            self.residual[:, :frames],
            self.turn[:, :frames],
            self.attention[:, :frames],
            self.hidden[:, :frames],
        )


def joined(parts: Sequence[Predicted]) -> Predicted:
    """Return parts one after the other; attention to few frames gets zeros for the frames that were not there."""
    widest = max(part.attention.shape[-1] for part in parts)
    states = [part.state for part in parts]
    return Predicted(
        MotionState(
            torch.cat([state.rotations for state in states], dim=1),
            torch.cat([state.steps for state in states], dim=1),
            torch.cat([state.heights for state in states], dim=1),
            torch.cat([state.contacts for state in states], dim=1),
        ),
        torch.cat([part.before for part in parts], dim=1),
        torch.cat([part.residual for part in parts], dim=1),
        torch.cat([part.turn for part in parts], dim=1),
        torch.cat([nn.functional.pad(part.attention, (widest - part.attention.shape[-1], 0)) for part in parts], dim=1),
        torch.cat([part.hidden for part in parts], dim=1),
    )
