"""The three networks of the text-to-motion evaluator, with the tensor names of its released checkpoint.

Source: Guo et al., "Generating Diverse and Natural 3D Human Motions from Text" (CVPR 2022), appendix; the sizes in
`EvaluatorSizes` are those of ``text_mot_match/model/finest.tar``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

UNIT = 4
"""Frames per step of the movement encoder's output."""

WINDOW = 196
"""Frames of the buffer that the original encodes; a longer motion fills a buffer of its own length."""

CONTACTS = 4
"""Features at the end of a frame (foot contacts) that the movement encoder does not read."""

TAGS = 15
"""Length of the one-hot vector of a word's part of speech."""

_SLOPE = 0.2


@dataclass(frozen=True)
class EvaluatorSizes:
    """Widths of the evaluator.

    Attributes:
        features: Features per frame, contacts included (263, or 251 for KIT-ML).
        movement_hidden: Channels of the first convolution.
        movement: Width of a movement step.
        motion_hidden: Width of the motion GRU, per direction.
        text_hidden: Width of the text GRU, per direction.
        latent: Width of the co-embedding.
        word: Width of a word vector.
        dropout: Dropout of the convolutions, in training.
    """

    features: int = 263
    movement_hidden: int = 512
    movement: int = 512
    motion_hidden: int = 1024
    text_hidden: int = 512
    latent: int = 512
    word: int = 300
    dropout: float = 0.2


class MovementEncoder(nn.Module):
    """Two strided convolutions: four frames become one movement step.

    Args:
        sizes: See `EvaluatorSizes`.
    """

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__()
        hidden, width = sizes.movement_hidden, sizes.movement
        self.main = nn.Sequential(
            nn.Conv1d(sizes.features - CONTACTS, hidden, UNIT, stride=2, padding=1),
            nn.Dropout(sizes.dropout),
            nn.LeakyReLU(_SLOPE),
            nn.Conv1d(hidden, width, UNIT, stride=2, padding=1),
            nn.Dropout(sizes.dropout),
            nn.LeakyReLU(_SLOPE),
        )
        self.out_net = nn.Linear(width, width)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Encode ``[N, T, F]`` normalised frames with contacts; frames past ``lengths [N]`` are read as they are.

        The last step of a motion reads up to three frames past its end. What it finds there does not depend on how far
        the batch is padded: zeros follow the given frames, and a motion of `WINDOW` frames or more ends where its
        buffer ends, as in the original, whose buffers hold `WINDOW` frames.

        Returns:
            ``[N, T // 4, M]``; the first ``lengths // 4`` steps of a motion are its own.
        """
        steps = x.shape[1] // UNIT
        # Four more frames of zeros: the first convolution then has an output past every motion's end.
        half = self.main[:3](F.pad(x[..., :-CONTACTS].transpose(1, 2), (0, UNIT)))  # [N, H, T / 2 + 2]
        end = torch.where(lengths < WINDOW, half.shape[2], lengths // UNIT * 2)
        inside = torch.arange(half.shape[2], device=x.device) < end[:, None]
        half = torch.where(inside[:, None], half, half.new_zeros(()))
        movements = self.main[3:](half).transpose(1, 2)[:, :steps]
        out: Tensor = self.out_net(movements)
        return out


class _Recurrent(nn.Module):
    """A bidirectional GRU with a learned first state; its two last states become one latent.

    Args:
        inputs: Features per step.
        hidden: Width per direction.
        inner: Width of the first output layer.
        latent: Width of the latent.
    """

    def __init__(self, inputs: int, hidden: int, inner: int, latent: int) -> None:
        super().__init__()
        self.input_emb = nn.Linear(inputs, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.hidden = nn.Parameter(torch.randn(2, 1, hidden))
        self.output_net = nn.Sequential(
            nn.Linear(2 * hidden, inner), nn.LayerNorm(inner), nn.LeakyReLU(_SLOPE), nn.Linear(inner, latent)
        )

    def run(self, steps: Tensor, counts: Tensor) -> Tensor:
        """Encode ``[N, S, I]`` steps, of which the first ``counts [N]`` (at least 1 each) are a sequence's own."""
        # Unsorted packing: the results come in the order of the inputs, for any order of lengths.
        packed = pack_padded_sequence(self.input_emb(steps), counts.cpu(), batch_first=True, enforce_sorted=False)
        with _backward_in_eval(steps, self.training):
            _, last = self.gru(packed, self.hidden.expand(-1, len(steps), -1).contiguous())
        out: Tensor = self.output_net(torch.cat([last[0], last[1]], -1))
        return out


class MotionEncoder(_Recurrent):
    """Movement steps to a latent.

    Args:
        sizes: See `EvaluatorSizes`.
    """

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__(sizes.movement, sizes.motion_hidden, sizes.motion_hidden, sizes.latent)

    def forward(self, movements: Tensor, counts: Tensor) -> Tensor:
        """Encode ``[N, S, M]`` movement steps of which ``counts [N]`` count: ``[N, E]``."""
        return self.run(movements, counts)


class TextEncoder(_Recurrent):
    """Words with their parts of speech to a latent.

    Args:
        sizes: See `EvaluatorSizes`.
    """

    def __init__(self, sizes: EvaluatorSizes) -> None:
        super().__init__(sizes.word, sizes.text_hidden, sizes.text_hidden, sizes.latent)
        self.pos_emb = nn.Linear(TAGS, sizes.word)

    def forward(self, words: Tensor, parts: Tensor, counts: Tensor) -> Tensor:
        """Encode ``words [N, L, W]`` and one-hot ``parts [N, L, P]``, of which ``counts [N]`` count: ``[N, E]``."""
        return self.run(words + self.pos_emb(parts), counts)


@contextmanager
def _backward_in_eval(inputs: Tensor, training: bool) -> Iterator[None]:
    """Switch cuDNN off where a gradient is wanted in eval mode: its GRU refuses to compute one."""
    if training or not inputs.is_cuda or not inputs.requires_grad:
        yield
        return
    with torch.backends.cudnn.flags(enabled=False):
        yield
