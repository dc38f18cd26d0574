"""The three TMR rewards: those of any joint space, in TMR's."""

from __future__ import annotations

import torch

from motionkit.encoders.tmr._model import TMR
from motionkit.rewards._matching.rewards import DenseReward, MatchingReward
from motionkit.rewards.tmr import CosineOptions, DenseOptions, MatchingOptions, TmrOptions
from motionkit.rewards.tmr.opening import open_tmr


def _open(options: TmrOptions, dataset: object, device: torch.device | str) -> TMR:
    return open_tmr(
        options.weights,
        text_encoder=options.text_encoder,
        motion_encoder=options.motion_encoder,
        motion_decoder=options.motion_decoder,
        heads=options.heads,
        stats=options.stats,
        text_model=options.text_model,
        device=device,
    )


class TmrCosine(MatchingReward[CosineOptions]):
    """Cosine of the whole motion's and the whole text's latent."""

    name = "tmr-cosine"
    open_space = staticmethod(_open)


class TmrMatching(MatchingReward[MatchingOptions]):
    """Cosine or euclidean matching score of the whole motion, with a choice of normalisations."""

    name = "tmr-matching"
    open_space = staticmethod(_open)


class TmrDense(DenseReward[DenseOptions]):
    """Score per segment, minus the confusion with the prompt's other texts."""

    name = "tmr-dense"
    open_space = staticmethod(_open)
