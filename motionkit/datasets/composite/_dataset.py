"""The composite dataset: implements `TextMotionDataset` on composite files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import get_args

from torch import Tensor

from motionkit.datasets.base import HasCaptionTokens, Split, TextClip, TextMotionDataset
from motionkit.datasets.composite import CompositeOptions
from motionkit.datasets.composite._arrays import Arrays, read_arrays
from motionkit.datasets.composite._consistency import longest, one_fps, one_skeleton, refuse_twins, shared_clips
from motionkit.datasets.composite._motion import reference_features
from motionkit.datasets.composite._read import CompositeFile, find_files
from motionkit.datasets.humanml import HumanMLOptions, KitOptions, humanml, kit
from motionkit.errors import MotionkitError
from motionkit.motion import KIT, Normalizer
from motionkit.runs import fingerprint, fingerprint_files
from motionkit.text import Prompt

_log = logging.getLogger("motionkit.datasets")
_STATS_FIX = "give the folder of the single clips with --dataset.root DIR, or compose the set again."


class Composite:
    """Prompts of K actions with fixed lengths, from the files of `motionkit compose` or of the original code.

    Each file belongs to one split, and a split uses its own files only: prompts made of training clips are never used
    for measuring.

    Args:
        options: Which files, and what they must agree with.

    Raises:
        MotionkitError: A file is missing or refused, two files disagree, or an option has no effect.
    """

    name = "composite"
    random_crop = False

    def __init__(self, options: CompositeOptions) -> None:
        if options.random_crop:
            raise MotionkitError(
                "composite data cannot be cropped at random.",
                why="every segment has its own length, which a crop would break.",
                fix="leave --random-crop out; it is off by itself here.",
            )
        self._files = find_files(options.path)
        refuse_twins(self._files)
        self.skeleton = one_skeleton(self._files)
        self.fps = one_fps(self._files, options.fps)
        self.max_length = longest(self._files, options.max_length)
        self._source = self._open_source(options)
        self._arrays: dict[Path, Arrays] = {}
        self._told = False
        if shared := shared_clips(self._files):
            _log.warning(
                "%d source motion(s), such as %s, are in the composite prompts of two splits.", len(shared), shared[0]
            )

    def __repr__(self) -> str:
        return f"Composite({len(self._files)} files, {self.fps:g} fps, {self.skeleton.name})"

    @property
    def source_name(self) -> str:
        """Dataset that the clips come from."""
        return self._files[0].document.metadata.dataset_name

    @property
    def source(self) -> TextMotionDataset | None:
        """The dataset of the single clips, where ``root`` names its folder."""
        return self._source

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Fingerprints of the files, and of the statistics of the single clips' dataset; arrays by their own hashes."""
        found = {"path": fingerprint(*(fingerprint_files(file.path, [file.path]) for file in self._files))}
        if self._source is not None:
            found["root"] = fingerprint(self._source.normalizer.mean, self._source.normalizer.std)
        return found

    @property
    def splits(self) -> tuple[Split, ...]:
        """Splits that there is a file of."""
        have = {file.document.metadata.split for file in self._files}
        return tuple(split for split in get_args(Split) if split in have)

    @cached_property
    def normalizer(self) -> Normalizer:
        """Mean and Std of the dataset that the clips come from.

        Raises:
            MotionkitError: A file of the original code has none, and no ``root`` was given.
        """
        if self._source is not None:
            return self._source.normalizer
        own = [file for file in self._files if file.document.arrays is not None]
        if not own:
            raise MotionkitError(
                f"{self._files[0].path} has no Mean and Std.",
                why="the original code's composite files hold prompts only.",
                fix="add --dataset.root DIR (the folder of the single clips) or --policy.stats DIR.",
            )
        return self._read(own[0]).normalizer

    def caption_tokens(self) -> Mapping[str, Sequence[str]]:
        """Return the stored ``word/POS`` tokens of the captions of the source dataset, none without a ``root``."""
        return self._source.caption_tokens() if isinstance(self._source, HasCaptionTokens) else {}

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the reference motions of a split, captioned with the whole prompt; none where there is no file."""
        if not self._told:  # warned here because only motions are cropped, never prompts
            self._told = True
            _log.info("composite data: every segment has its own length, so random crops are off.")
        return tuple(
            TextClip(sample.id, reference_features(joints, self.skeleton), (sample.text, sample.composite_prompt))
            for file in self._of(split)
            if file.document.arrays is not None
            for sample, joints in zip(file.document.samples, self._read(file).joints, strict=True)
        )

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return the prompts of a split; `seed` changes nothing, they were drawn when they were composed.

        Raises:
            MotionkitError: There is no file of that split, or none with `k_segments` segments.
        """
        file = self._file(split, k_segments)
        return tuple(
            Prompt(
                sample.sub_prompts,
                sample.durations_frames,
                sample.id or f"composite-{split}-k{len(sample.sub_prompts)}-{number:05d}",
                sample.source_ids,
            )
            for number, sample in enumerate(file.document.samples)
        )

    def similarity(self, split: Split, *, k_segments: int = 0) -> Tensor | None:
        """Return the stored B-matrices ``[N, K, K]`` of a split's prompts, if there are any.

        They come from the text tower that the file names. Rewards compute B-matrices with their own tower instead.
        """
        file = self._file(split, k_segments)
        return None if file.document.arrays is None else self._read(file).similarity

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and jerk (m/s^3) of the source dataset's train split.

        Raises:
            MotionkitError: The files do not hold it, and no ``root`` was given.
        """
        if self._source is not None:
            return self._source.physics_reference()
        for file in self._files:
            if (found := file.document.metadata.physics_reference) is not None:
                return found
        raise MotionkitError(f"{self._files[0].path} has no physics reference.", fix=_STATS_FIX)

    def _of(self, split: str) -> list[CompositeFile]:
        return [file for file in self._files if file.document.metadata.split == split]

    def _file(self, split: Split, k_segments: int) -> CompositeFile:
        """Return the file of a split and a number of segments; 0 takes the only one."""
        files = self._of(split)
        if not files:
            have = ", ".join(f"{file.path} ({file.document.metadata.split})" for file in self._files)
            raise MotionkitError(
                f"there are no composite prompts of the {split} split.",
                why=f"each split has its own file, and prompts of one never stand in for another's; there is {have}.",
                fix=f"motionkit compose ... --split {split} into the same folder, and name the folder with "
                "--dataset.path.",
            )
        counts = {file.document.metadata.k_segments: file for file in files}
        if k_segments == 0 and len(counts) == 1:
            return files[0]
        listed = ", ".join(f"{k} in {file.path}" for k, file in sorted(counts.items()))
        if k_segments == 0:
            raise MotionkitError(
                f"the {split} split has prompts of several numbers of segments: {listed}.",
                fix=f"choose with --k-segments {min(counts)}, or name one file with --dataset.path.",
            )
        if k_segments not in counts:
            raise MotionkitError(
                f"prompts of K = {k_segments} segments are wanted (--k-segments), the {split} prompts have K = "
                f"{listed}.",
                why="the segments of a composite prompt are fixed when it is composed.",
                fix=f"use the file's K, or motionkit compose --k-segments {k_segments} --split {split} ...",
            )
        return counts[k_segments]

    def _read(self, file: CompositeFile) -> Arrays:
        if file.path not in self._arrays:
            self._arrays[file.path] = read_arrays(file, self.skeleton)
        return self._arrays[file.path]

    def _open_source(self, options: CompositeOptions) -> TextMotionDataset | None:
        if options.root is None:
            return None
        chosen, kind = (kit, KitOptions) if self.skeleton is KIT else (humanml, HumanMLOptions)
        source: TextMotionDataset = chosen.build(kind(root=options.root))
        return source
