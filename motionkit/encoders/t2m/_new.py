"""Builds an untrained evaluator."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.encoders.t2m._model import T2MEvaluator, Tagger
from motionkit.encoders.t2m._network import EvaluatorSizes, MotionEncoder, MovementEncoder, TextEncoder
from motionkit.encoders.t2m._words import WordTable


def new_evaluator(
    sizes: EvaluatorSizes, mean: Tensor, std: Tensor, words: WordTable, *, tagger: Tagger = "auto", seed: int = 0
) -> T2MEvaluator:
    """Build an evaluator with random weights.

    Args:
        sizes: Widths.
        mean: ``[F]`` mean of the training features.
        std: ``[F]`` their standard deviation.
        words: Its vocabulary.
        tagger: See `T2MEvaluator`.
        seed: Fixes the weights; the global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = MovementEncoder(sizes), MotionEncoder(sizes), TextEncoder(sizes)
    return T2MEvaluator(*networks, mean, std, words, sizes=sizes, tagger=tagger).eval()
