"""Clips, captions and crops of each training step, a function of seed and step alone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from motionkit.config import Chosen
from motionkit.contracts.dataset import TextClip, TextMotionDataset, is_generated
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Skeleton, mirror_features, resize_features
from motionkit.motion.corpus.ids import Split
from motionkit.page.wording import count
from motionkit.rl import stable_hash
from motionkit.runs import TrainedOn, fingerprint
from motionkit.text import mirror_text
from motionkit.text_to_motion.trained import clip_fingerprint, clips_fingerprint, leave_out_clips
from motionkit.training.base import dataset_inputs


def usable_clips(dataset: TextMotionDataset, split: Split, label: str, *, least: int) -> Sequence[TextClip]:
    """Return the clips of a split, after checking each."""
    if not dataset.has_clips:
        raise MotionkitError(
            f"dataset {label!r} has prompts and no clips to train on.", fix="choose a dataset of motions with captions."
        )
    clips = dataset.clips(split)
    if len(clips) < least:
        raise MotionkitError(
            f"dataset {label!r} has {count(len(clips), 'clip')} in its {split} split, at least {least} are needed.",
            fix=f"check --dataset.root and its {split}.txt. convert deals clips out by itself, and takes the splits of "
            "a table that has them (--split-column NAME).",
        )
    for clip in clips:
        # A sum, which is fast, is finite only if all values are; that of huge ones may not be.
        if not (bool(clip.features.sum().isfinite()) or bool(torch.isfinite(clip.features).all())):
            raise MotionkitError(f"clip {clip.key!r} holds values that are not finite.", fix="remove or repair it.")
        if not len(clip.features):
            raise MotionkitError(f"clip {clip.key!r} has no frames.", fix="remove it.")
        if not clip.captions:
            raise MotionkitError(f"clip {clip.key!r} has no caption.", fix="add one, or remove the clip.")
    return clips


def trained_on_clips(dataset: TextMotionDataset, clips: Sequence[TextClip]) -> TrainedOn:
    """Return the record of training on clips; empty for generated data, whose splits never share a clip."""
    return TrainedOn() if is_generated(dataset) else TrainedOn.of(map(clip_fingerprint, clips))


def held_out_clips(
    dataset: TextMotionDataset, label: str, trained: TrainedOn, *, least: int
) -> tuple[Sequence[TextClip], str]:
    """Return the validation clips that a model was not trained on.

    Returns:
        The clips, and a sentence about those left out; empty if there are none. If too few would be left, all clips,
        and a sentence that tells so.
    """
    clips = usable_clips(dataset, "val", label, least=least)
    held_out = leave_out_clips(trained, dataset, clips)
    if not held_out.left_out:
        return clips, ""
    if len(held_out.places) < least:
        return clips, (
            f"{held_out.left_out} of the {held_out.total} validation clips of {label} are trained on too, and are "
            "measured all the same: the figures of this run are not held out."
        )
    return [clips[place] for place in held_out.places], held_out.sentence("validation clips")


def clip_inputs(
    chosen: Chosen, dataset: TextMotionDataset, train: Sequence[TextClip], val: Sequence[TextClip]
) -> dict[str, str]:
    """Return the fingerprints of a dataset by setting: of both splits and of the statistics."""
    if is_generated(dataset):
        return {}
    statistics = fingerprint(dataset.normalizer.mean, dataset.normalizer.std)
    return dataset_inputs(chosen, dataset, clips_fingerprint(train), clips_fingerprint(val), statistics)


@dataclass(frozen=True)
class PairBatch:
    """One step's data."""

    features: Tensor  # [B, T, F] not normalised, zeros past a clip's end
    lengths: Tensor  # [B] int64
    captions: list[str]  # one per clip
    generator: torch.Generator  # for further draws of the step
    step: int = 1  # from 1
    epoch: int = 0  # from 0
    rows: tuple[int, ...] = ()  # B indices of the clips
    chosen: tuple[int, ...] = ()  # B indices of the captions, among those of their clips
    varied: Variation | None = None  # augmentation, to be applied to changed copies too


@dataclass(frozen=True)
class Variation:
    """Augmentation of a batch under which captions stay true."""

    mirrored: Tensor  # [B] bool, whether clip and caption are mirrored
    sizes: Tensor  # [B] scale of the bodies
    skeleton: Skeleton

    def motions(self, features: Tensor, places: Sequence[int]) -> Tensor:
        """Return motions ``[K, T, F]``, augmented like the batch's rows `places`."""
        features, rows = features.clone(), self.mirrored[list(places)].nonzero()[:, 0]
        features[rows] = mirror_features(features[rows], self.skeleton)
        return resize_features(features, self.skeleton, self.sizes[list(places), None, None])

    def captions(self, captions: Sequence[str]) -> list[str]:
        """Return the captions of the batch, mirrored for mirrored clips."""
        pairs = zip(captions, self.mirrored.tolist(), strict=True)
        return [mirror_text(text) if mirrored else text for text, mirrored in pairs]


class PairBatches:
    """Endless shuffled batches; each clip once per pass with one of its captions.

    Batches are not sorted by length: clips of one length tend to show one action, so lengths alone would identify the
    texts of a mixed batch less.

    Args:
        clips: The training clips.
        batch_size: Clips per batch; fewer if there are fewer clips.
        max_length: Longer clips are cropped.
        seed: Seed of the run.
        random_crop: Crop at a random place, not at the first frame.
        crop_share: Share of clips that are cropped to a random length.
        crop_min: Shortest such crop; shorter clips are not cropped.
        name: Random stream of the trainer.
        mirror: Share of clips that are mirrored, their captions too.
        unmirrored: Captions whose clips are not mirrored.
        resize: Largest change of a body's size, as a share of it.
        skeleton: Body of the clips.
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        *,
        batch_size: int,
        max_length: int,
        seed: int,
        random_crop: bool = True,
        crop_share: float = 0.0,
        crop_min: int = 32,
        name: str = "tmr",
        mirror: float = 0.0,
        unmirrored: Set[str] = frozenset(),
        resize: float = 0.0,
        skeleton: Skeleton = HUMANML,
    ) -> None:
        self._clips = clips
        self._size = min(batch_size, len(clips))
        self._max, self._seed, self._random_crop = max_length, seed, random_crop
        self._share, self._min, self._name = crop_share, crop_min, name
        self._mirror, self._resize, self._skeleton = mirror, resize, skeleton
        self._unmirrored = unmirrored
        self._epoch: tuple[int, list[int]] = (-1, [])

    @property
    def per_epoch(self) -> int:
        """Batches in one pass; the last few clips of a pass wait for the next one."""
        return len(self._clips) // self._size

    def __call__(self, step: int) -> PairBatch:
        """Return the batch of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            order = torch.randperm(len(self._clips), generator=self._generator("epoch", epoch))
            self._epoch = (epoch, order.tolist())
        rows = self._epoch[1][position * self._size : (position + 1) * self._size]
        batch = self._make([self._clips[row] for row in rows], self._generator("step", step))
        batch = replace(batch, step=step, epoch=epoch, rows=tuple(rows))
        return self._varied(batch, step) if self._mirror or self._resize else batch

    def _varied(self, batch: PairBatch, step: int) -> PairBatch:
        """Mirror and resize clips, by another random stream."""
        generator, count = self._generator("varied", step), len(batch.rows)
        turned = torch.rand(count, generator=generator) < self._mirror
        varied = Variation(
            turned & torch.tensor([text not in self._unmirrored for text in batch.captions]),
            1 + self._resize * (2 * torch.rand(count, generator=generator) - 1),
            self._skeleton,
        )
        features = varied.motions(batch.features, range(count))
        return replace(batch, features=features, captions=varied.captions(batch.captions), varied=varied)

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"{self._name}/{purpose}/{self._seed}/{number}") % 2**63)

    def _make(self, clips: Sequence[TextClip], generator: torch.Generator) -> PairBatch:
        crops = [self._crop(clip.features, generator) for clip in clips]
        chosen = tuple(below(len(clip.captions), generator) for clip in clips)
        captions = [clip.captions[number] for clip, number in zip(clips, chosen, strict=True)]
        lengths = torch.tensor([len(crop) for crop in crops])
        padded = torch.nn.utils.rnn.pad_sequence(crops, batch_first=True)
        return PairBatch(padded, lengths, captions, generator, chosen=chosen)

    def _crop(self, features: Tensor, generator: torch.Generator) -> Tensor:
        start, length = crop_of(
            len(features), generator, longest=self._max, shortest=self._min, share=self._share, random=self._random_crop
        )
        return features[start : start + length]


def crop_of(
    frames: int,  # length of the clip
    generator: torch.Generator,
    *,
    longest: int,  # longest crop
    shortest: int,  # shortest crop to a random length; shorter clips are not cropped
    share: float,  # share of clips that are cropped to a random length
    random: bool = True,  # begin at a random frame, not at the first
) -> tuple[int, int]:
    """Draw a crop of a clip: its first frame and its length."""
    length = most = min(frames, longest)
    if most > shortest and float(torch.rand((), generator=generator)) < share:
        length = shortest + below(most - shortest + 1, generator)
    return (below(frames - length + 1, generator) if random else 0), length


def below(limit: int, generator: torch.Generator) -> int:
    """Draw an integer from 0 to `limit` - 1."""
    return int(torch.randint(limit, (), generator=generator))
