"""What a policy is asked: captions of a split with lengths, drawn anew for each replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.datasets.content import clips_fingerprint, leave_out_clips, leave_out_prompts, prompt_fingerprint
from motionkit.errors import MotionkitError
from motionkit.rl import stable_hash
from motionkit.runs import TrainedOn, fingerprint
from motionkit.text import Prompt

_UNIT = 4


@dataclass(frozen=True)
class Question:
    """A prompt, and the real motion that it describes.

    Attributes:
        prompt: As long as `truth`; its key is unique in the evaluation, so that the noise is too.
        truth: ``[T, F]`` unnormalised features; None where there is no real motion.
    """

    prompt: Prompt
    truth: Tensor | None


class Questions:
    """Questions of one split, the same for every policy and machine.

    A clip is asked for as the public loaders serve it: one of its captions at random, cut to a multiple of 4 frames,
    once in three times 4 frames shorter, at a random place. A composite prompt is asked for as it is.

    Args:
        dataset: Where clips and captions come from.
        split: Which of them.
        longest: Longest motion of the policy in frames.
        k_segments: Segments per prompt; composite data only.
        seed: Seed of the draw.
        trained: What the policies were trained on, which is not asked for.

    Attributes:
        kept: What was left out.

    Raises:
        MotionkitError: There are none, none that the policies were not trained on, or `dataset` was composed of
            training clips.
    """

    def __init__(
        self,
        dataset: TextMotionDataset,
        split: Split,
        *,
        longest: int,
        k_segments: int = 0,
        seed: int = 0,
        trained: TrainedOn | None = None,
    ) -> None:
        self._seed, self._longest, self._crop = seed, longest, dataset.random_crop
        splits: Sequence[Split] | None = getattr(dataset, "splits", None)
        self.composite = splits is not None
        if splits == ("train",):
            raise MotionkitError(
                f"this {dataset.name} set was composed from the train split.",
                why="a policy may have been trained on its clips; the figures would not be held out.",
                fix=f"motionkit compose --split {split} ... OUT, then --dataset.path OUT",
            )
        if not self.composite and k_segments > 1:
            raise MotionkitError(
                f"--k-segments {k_segments} acts with composite data only.",
                why="prompts that are joined on the way have no real motion to compare with.",
                fix=f"motionkit compose --k-segments {k_segments} --split {split} ... OUT, then --dataset composite.",
            )
        self._prompts = list(dataset.prompts(split, k_segments=k_segments)) if self.composite else []
        self._clips = list(dataset.clips(split))
        if not (self._prompts or self._clips):
            raise MotionkitError(f"the {split} split of {dataset.name} has nothing to ask for.")
        trained = trained or TrainedOn()
        if self.composite:
            self.kept = leave_out_prompts(trained, dataset, split, self._prompts)
            self._prompts = [self._prompts[place] for place in self.kept.places]
        else:
            self.kept = leave_out_clips(trained, dataset, self._clips)
            self._clips = [self._clips[place] for place in self.kept.places]
        self.kept.require(self.what, f"the {split} split of {dataset.name}", f"give --dataset with other {self.what}.")
        self._truth = {clip.key: clip.features for clip in self._clips} if self.composite else {}
        self.count = len(self._prompts) if self.composite else len(self._clips)

    @property
    def what(self) -> str:
        """What an item is called, in the plural."""
        return "composite prompts" if self.composite else "clips"

    def fingerprint(self) -> str:
        """Return the fingerprint of the clips and prompts that are asked for."""
        return fingerprint(clips_fingerprint(self._clips), *map(prompt_fingerprint, self._prompts))

    @property
    def clips(self) -> Sequence[TextClip]:
        """The real clips of the split."""
        return self._clips

    @property
    def prompts(self) -> Sequence[Prompt]:
        """The composite prompts of the split; none of other data."""
        return self._prompts

    @property
    def captions(self) -> int:
        """Number of captions, or of composite prompts."""
        return len(self._prompts) or sum(len(clip.captions) for clip in self._clips)

    def tokens(self) -> dict[str, Sequence[str]]:
        """Return the stored ``word/POS`` tokens of captions, where the dataset has them."""
        return {
            caption: tokens
            for clip in self._clips
            for caption, tokens in zip(clip.captions, getattr(clip, "tokens", ()), strict=False)
        }

    def draw(self, replication: int, count: int) -> list[Question]:
        """Return the questions of a replication.

        The split is gone through in a new random order; where it has fewer than `count` items this starts again with
        another order, so that an item comes again only after all others, with a new caption, cut and noise.
        """
        rng = self._generator("ask", replication)
        order: list[int] = []
        while len(order) < count:
            order += rng.permutation(self.count).tolist()
        return [self._question(rng, place, f"{replication}.{n}") for n, place in enumerate(order[:count])]

    def real(self, replication: int) -> list[Question]:
        """Return every item of the split once, in a new random order; those of a composite set that have a motion."""
        rng = self._generator("real", replication)
        found = [self._question(rng, place, f"real {replication}") for place in rng.permutation(self.count).tolist()]
        return [question for question in found if question.truth is not None]

    def _generator(self, name: str, replication: int) -> np.random.Generator:
        return np.random.default_rng([abs(stable_hash(f"{name} {self._seed} {replication}"))])

    def _question(self, rng: np.random.Generator, place: int, label: str) -> Question:
        if self.composite:
            prompt = self._prompts[place]
            truth = self._truth.get(prompt.key)
            key = f"{prompt.key}/{label}"
            return Question(Prompt(prompt.segments, prompt.frames, key, prompt.source_ids), truth)
        clip = self._clips[place]
        number = int(rng.integers(len(clip.captions)))
        units = min(len(clip.features), self._longest) // _UNIT
        if self._crop:
            units = max(units - int(rng.integers(3) == 0), 1)  # "single, single, double" of the public loaders
        length = max(units * _UNIT, 1)
        start = int(rng.integers(len(clip.features) - length + 1)) if self._crop else 0
        prompt = Prompt((clip.captions[number],), (length,), f"{clip.key}#{number}/{label}", (clip.key,))
        return Question(prompt, clip.features[start : start + length])
