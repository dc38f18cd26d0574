"""The encoder's network: a few layers for each frame alone, and three heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from motionkit.encoders.mpl._inputs import FEET
from motionkit.encoders.mpl._scales import Scales
from motionkit.geometry._rotations import matrix_from_6d, matrix_to_6d
from motionkit.rigs import GAITS

PERIOD = 4
"""Numbers of the soft period: sine left, sine right, cosine left, cosine right."""

_LARGEST = 10.0
"""Inputs are cut at so many deviations: glitches of recorded motion."""


@dataclass(frozen=True)
class EncoderSizes:
    """Shape of an encoder.

    Attributes:
        width: Features H of a frame.
        layers: Layers, each a linear one, GELU and dropout.
        history: Poses K that are read, the current one included.
        ahead: Frames to the pose that the pose head predicts.
        dropout: Dropout while training.
    """

    width: int = 256
    layers: int = 3
    history: int = 3
    ahead: int = 3
    dropout: float = 0.1


class MotionEncoder(nn.Module):
    """Turns frames into features, one frame at a time: it remembers nothing.

    The soft period has four numbers rather than a wider latent one with a read-out: they are what is trained and
    measured, so whoever reads the period of a frozen encoder reads a known quantity. They are trained by squares, so
    the length of a foot's (sine, cosine) tells how sure its phase is: 1 is certain, 0 unknown.

    Args:
        sizes: Shape.
        names: Names of the J joints.
        fps: Frames per second that it was made for.
        scales: Of the training frames; they become buffers.
    """

    mean: Tensor
    std: Tensor
    turn_std: Tensor

    def __init__(self, sizes: EncoderSizes, names: Sequence[str], fps: float, scales: Scales) -> None:
        super().__init__()
        self.sizes, self.names, self.fps = sizes, tuple(names), fps
        for name, values in asdict(scales).items():
            self.register_buffer(name, values.clone())
        self.joints = len(self.names)
        body: list[nn.Module] = []
        for place in range(sizes.layers):
            body += [nn.Linear(sizes.width if place else self.inputs, sizes.width), nn.GELU("tanh")]
            body += [nn.Dropout(sizes.dropout)]
        self.body = nn.Sequential(*body)
        self.period_head = nn.Linear(sizes.width, PERIOD)
        self.gait_head = nn.Linear(sizes.width, len(GAITS))
        self.pose_head = nn.Linear(sizes.width, 6 * self.joints)
        nn.init.zeros_(self.pose_head.weight)  # at first nothing moves
        nn.init.zeros_(self.pose_head.bias)

    @property
    def inputs(self) -> int:
        """Width D of what it reads; see `encoder_inputs`."""
        return FEET + 3 * self.joints + 6 * self.joints * self.sizes.history

    @property
    def width(self) -> int:
        """Width H of its features."""
        return self.sizes.width

    @property
    def reach(self) -> int:
        """Frames that the features of one frame depend on, that frame included."""
        return max(2, self.sizes.history)

    def normalise(self, inputs: Tensor) -> Tensor:
        """Return ``[..., D]`` in deviations of the training frames, cut at 10."""
        at = FEET + 3 * self.joints
        mean, std = (
            torch.cat([values[:at], values[at:].repeat(self.sizes.history)]) for values in (self.mean, self.std)
        )
        return ((inputs - mean) / std).clamp(-_LARGEST, _LARGEST)

    def forward(self, inputs: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """Return features ``[..., H]`` of ``[..., D]`` as `encoder_inputs` makes them.

        Args:
            inputs: Frames.
            noise: ``[..., D]`` in deviations, added to what is read.
        """
        read = self.normalise(inputs)
        hidden: Tensor = self.body(read if noise is None else read + noise)
        return hidden

    def period(self, hidden: Tensor) -> Tensor:
        """Return the soft period ``[..., 4]`` in -1 to 1: sine left, sine right, cosine left, cosine right."""
        return torch.tanh(self.period_head(hidden))

    def gait(self, hidden: Tensor) -> Tensor:
        """Return logits ``[..., 4]`` of the gaits in `motionkit.rigs.GAITS`."""
        logits: Tensor = self.gait_head(hidden)
        return logits

    def turns(self, hidden: Tensor) -> Tensor:
        """Return the turns to the pose ahead in 6D minus the identity, in deviations: ``[..., J, 6]``."""
        residual: Tensor = self.pose_head(hidden).unflatten(-1, (self.joints, 6))
        return residual

    def pose(self, hidden: Tensor, rotations: Tensor) -> Tensor:
        """Return the pose `sizes.ahead` frames ahead, ``[..., J, 3, 3]``, of the current one."""
        residual: Tensor = self.turns(hidden) * self.turn_std.unflatten(0, (self.joints, 6))
        return matrix_from_6d(residual + matrix_to_6d(torch.eye(3).to(residual))) @ rotations

    def misfit(self, names: Sequence[str], fps: float) -> str:
        """Return why it is not made for clips of these joints at this rate, a sentence; empty if it is."""
        if tuple(names) != self.names:
            other = next((name for name in names if name not in self.names), "")
            differs = f"it does not know {other}" if other else f"it knows {self.joints} joints, not {len(names)}"
            return f"the encoder is for another skeleton: {differs}."
        if abs(fps - self.fps) > 1e-3 * self.fps:
            return f"the encoder reads {self.fps:g} frames per second, not {fps:g}."
        return ""
