"""Dataset 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from motionkit.contracts.dataset import Split, TextClip
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Normalizer, feature_stats
from motionkit.text import Prompt
from motionkit.text_to_motion.data.joined import join_prompts, physics_medians

from motionkit_dataset_demo import Options


class DemoDataset:
    """An example to replace: a folder of HumanML3D features; of ten clips one is for val and one for test."""

    def __init__(self, options: Options) -> None:
        if options.root is None:
            raise MotionkitError("--dataset.root is not given.", fix="--dataset.root FOLDER")
        if not options.root.is_dir():
            raise MotionkitError(f"there is no folder {options.root}.", fix="--dataset.root FOLDER")
        self.name = "demo"
        self.skeleton = HUMANML
        self.fps = options.fps
        self.max_length = options.max_length
        self.random_crop = False
        files = sorted(options.root.glob("*.npy"))
        if len(files) < 10:
            raise MotionkitError(f"{options.root} has {len(files)} clips.", why="at least 10 are needed.")
        self._splits: dict[str, list[Path]] = {"val": files[::10], "test": files[1::10]}
        self._splits["train"] = [file for number, file in enumerate(files) if number % 10 > 1]
        self.normalizer = Normalizer(*feature_stats((clip.features for clip in self.clips("train")), self.skeleton))

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the clips of a split, always in the same order."""
        return [self._read(file) for file in self._splits[split]]

    def _read(self, file: Path) -> TextClip:
        captions = file.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
        return TextClip(file.stem, torch.from_numpy(np.load(file, allow_pickle=False)).float(), tuple(captions))

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return a prompt per caption; from two segments on, captions are joined."""
        singles = [
            Prompt((text,), (min(len(clip.features), self.max_length) // 4 * 4,), f"{clip.key}#{number}", (clip.key,))
            for clip in self.clips(split)
            for number, text in enumerate(clip.captions)
        ]
        if k_segments < 2:
            return singles
        return join_prompts(singles, k_segments, seed=seed, max_length=self.max_length)

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of the train split."""
        return physics_medians(self.clips("train"), self.skeleton, self.fps)
