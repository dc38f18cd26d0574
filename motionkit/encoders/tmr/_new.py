"""Builds an untrained TMR."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from motionkit.encoders.tmr._model import TMR
from motionkit.encoders.tmr._network import ActorDecoder, ActorEncoder, ActorSizes
from motionkit.text import TextEncoder


def new_tmr(
    sizes: ActorSizes,
    mean: Tensor,
    std: Tensor,
    text_model: TextEncoder,
    *,
    decoder: bool = False,
    text_scale: float = 1.0,
    seed: int = 0,
) -> TMR:
    """Build a TMR with random weights.

    Args:
        sizes: Sizes of the motion side; the text side takes its input width from `text_model`.
        mean: ``[F]`` mean of the training features.
        std: ``[F]`` their standard deviation.
        text_model: The text model it will be trained with.
        decoder: Also build the motion decoder that the reconstruction loss needs.
        text_scale: Root mean square of the text model's features. Unit-norm sentence vectors have values of 0.05, which
            the default initialisation would bury under the summary tokens; the text projection is divided by this.
        seed: Fixes the weights; the global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        motion = ActorEncoder(sizes)
        text = ActorEncoder(replace(sizes, features=text_model.width))
        back = ActorDecoder(sizes) if decoder else None
    with torch.no_grad():
        text.projection.weight.div_(text_scale)
    return TMR(motion, text, mean, std, text_model=text_model, motion_decoder=back).eval()
