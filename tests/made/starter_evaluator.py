"""A small evaluator in motionkit's own layout, for starter data: random weights, the starter's words and statistics."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit.contracts.dataset import TextMotionDataset
from motionkit.text_to_motion.evaluation.same_data import Named
from motionkit.text_to_motion.evaluator.files import open_evaluator, save_evaluator
from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, T2MEvaluator, WordTable

from .evaluators import WORDS, networks


def make(dataset: TextMotionDataset, *, width: int = 8, seed: int = 0) -> T2MEvaluator:
    sizes = EvaluatorSizes(dataset.skeleton.width, 12, 10, 8, 8, width)
    parts = networks(sizes, seed)
    table = WordTable(
        torch.randn(len(WORDS), 300, generator=torch.Generator().manual_seed(seed)),
        {word: row for row, word in enumerate(WORDS)},
        "a test",
    )
    return T2MEvaluator(
        parts["movement_encoder"],  # type: ignore[arg-type]
        parts["motion_encoder"],  # type: ignore[arg-type]
        parts["text_encoder"],  # type: ignore[arg-type]
        dataset.normalizer.mean,
        dataset.normalizer.std,
        table,
        sizes=sizes,
    ).eval()


def write(folder: Path, dataset: TextMotionDataset, **more: int) -> Path:
    save_evaluator(folder, make(dataset, **more))
    return folder


def named(place: Path) -> Named:
    return Named(open_evaluator(place), str(place), "made for a test")
