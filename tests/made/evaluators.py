"""A text-to-motion evaluator in the layout of its release, small, for either body."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch

from motionkit.text_to_motion.evaluator.model import EvaluatorSizes, MotionEncoder, MovementEncoder, TextEncoder

WORDS = (
    "sos", "eos", "unk", "a", "man", "person", "walk", "left", "arm", "slowly", "ball", "the", "or", "jump", "wave",
)  # fmt: skip


def networks(sizes: EvaluatorSizes, seed: int = 0) -> dict[str, torch.nn.Module]:
    """The three networks with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return {
            "movement_encoder": MovementEncoder(sizes),
            "motion_encoder": MotionEncoder(sizes),
            "text_encoder": TextEncoder(sizes),
        }


def vocabulary(folder: Path, words: tuple[str, ...] = WORDS, width: int = 300) -> Path:
    """Write the three files of ``our_vab``."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "our_vab_data.npy", np.random.default_rng(0).standard_normal((len(words), width)))
    (folder / "our_vab_words.pkl").write_bytes(pickle.dumps(list(words)))
    (folder / "our_vab_idx.pkl").write_bytes(pickle.dumps({word: row for row, word in enumerate(words)}))
    return folder


def statistics(folder: Path, width: int, prefix: str = "") -> Path:
    """Write mean and std, with contacts as the evaluator's are."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    mean = rng.standard_normal(width)
    mean[-4:] = 0.86
    np.save(folder / f"{prefix}mean.npy", mean)
    std = rng.uniform(0.1, 0.3, width)
    std[-4:] = 0.014
    np.save(folder / f"{prefix}std.npy", std)
    return folder


def release(root: Path, dataset: str = "t2m", seed: int = 0) -> Path:
    """Write ``DATASET/text_mot_match/model/finest.tar``, ``DATASET/Comp_v6_KLD01/meta`` and ``glove``."""
    width = 251 if dataset == "kit" else 263
    sizes = EvaluatorSizes(width, 12, 10, 8, 8, 6)
    file = root / dataset / "text_mot_match" / "model" / "finest.tar"
    file.parent.mkdir(parents=True)
    state = {name: network.state_dict() for name, network in networks(sizes, seed).items()}
    torch.save(state | {"opt_text_encoder": {}, "opt_motion_encoder": {}, "epoch": 1, "iter": 1}, file)
    statistics(root / dataset / ("Comp_v6_KLD005" if dataset == "kit" else "Comp_v6_KLD01") / "meta", width)
    vocabulary(root / "glove")
    return root
