"""Opens an evaluator: the released checkpoints, or one that motionkit trained."""

from __future__ import annotations

from pathlib import Path

import torch

from motionkit import weights
from motionkit.encoders.t2m._beside import read_stats, read_words
from motionkit.encoders.t2m._layout import build, find_file, split_file
from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.encoders.t2m._native import WEIGHTS, is_native, read_native
from motionkit.errors import MotionkitError

RUN_PART = "evaluator"
"""Folder of the model in a run of `pretrain t2m-evaluator`."""


def load_evaluator(
    path: str | Path,
    *,
    glove: Path | None = None,
    stats: Path | None = None,
    device: torch.device | str = "cpu",
) -> T2MEvaluator:
    """Open a text-to-motion evaluator strictly: every tensor must be known, and every network complete.

    Args:
        path: ``finest.tar``; a folder that holds it, up to the ``checkpoints`` of the release; a folder written by
            motionkit, or the run that wrote it.
        glove: Folder of the ``our_vab_*`` files; looked for above the checkpoint when None.
        stats: Folder with the evaluator's own mean and std; looked for above the checkpoint when None.
        device: Where to put it.

    Returns:
        The model in eval mode.

    Raises:
        MotionkitError: What is wrong with which file, and what it really is.
    """
    root = Path(path)
    if not root.exists():
        raise MotionkitError(
            f"{root} does not exist.", fix="give an evaluator's folder or file, or leave it at 'starter'."
        )
    for folder in (root, root / RUN_PART, root.parent):
        if is_native(folder) and (folder in (root, root / RUN_PART) or root == folder / WEIGHTS):
            return _native(folder, glove, stats).to(device).eval()
    file = find_file(root)
    networks = build(split_file(weights.read(file), str(file)), str(file))
    mean, std = read_stats(stats, file, networks.sizes.features)
    words = read_words(glove, file)
    model = T2MEvaluator(
        networks.movement,
        networks.motion,
        networks.text,
        mean,
        std,
        words,
        sizes=networks.sizes,
        origin=str(file),
    )
    return model.to(device).eval()


def _native(folder: Path, glove: Path | None, stats: Path | None) -> T2MEvaluator:
    if glove is not None or stats is not None:
        raise MotionkitError(
            f"{folder} has its own {'statistics' if stats is not None else 'words'}.",
            why="an evaluator only understands those it was trained with.",
            fix="leave the option out; it is for the released checkpoints.",
        )
    stored = read_native(folder)
    networks = build(stored.parts, str(folder))
    return T2MEvaluator(
        networks.movement,
        networks.motion,
        networks.text,
        stored.mean,
        stored.std,
        stored.words,
        sizes=networks.sizes,
        tagger=stored.tagger,
        origin=str(folder),
        trained_on=stored.trained_on,
    )
