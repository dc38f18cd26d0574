"""Training on pairs of a text and a motion, measured by retrieval; base of the trainers of TMR and the evaluator."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from motionkit.contracts.dataset import TextClip, TextMotionDataset, record_of
from motionkit.contracts.open_model import trained_on
from motionkit.errors import MotionkitError
from motionkit.metrics import guo_batches, retrieval, retrieval_guo
from motionkit.rl import stable_hash
from motionkit.runs import Run, fingerprint
from motionkit.text import mirror_text, reads_sides
from motionkit.text_to_motion.crops import Crop
from motionkit.text_to_motion.metrics import retrieval_table
from motionkit.text_to_motion.pairs.data import (
    PairBatches,
    clip_inputs,
    held_out_clips,
    trained_on_clips,
    usable_clips,
)
from motionkit.text_to_motion.pairs.negatives import Negatives
from motionkit.text_to_motion.pairs.settings import PairSettings, kinds_of
from motionkit.text_to_motion.pairs.step import PairTraining
from motionkit.text_to_motion.trained import count_takes
from motionkit.tracking import entry_of
from motionkit.training.base import LOSS, Figure
from motionkit.training.device import describe_device, set_up
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World, share_of

_logger = logging.getLogger("motionkit.pretrain")
_HEADLINE = "retrieval/t2m/r3_32"
_SHOWN = {"R01": "r1", "R02": "r2", "R03": "r3", "R10": "r10", "MedR": "medr"}


def statistics(clips: Sequence[TextClip], *, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and std ``[F]``: per feature, over all frames of `clips`.

    In a feature that hardly moves in the data a generator's smallest error would be many sigmas, so a std is at least
    `floor` (``[F]``), and 1 if that is 0 too.
    """
    # In float64, since there may be millions of frames.
    count = sum(len(clip.features) for clip in clips)
    mean = torch.stack([clip.features.double().sum(0) for clip in clips]).sum(0) / count
    # Two passes: the mean of squares minus the square of the mean loses digits.
    spread = torch.stack([(clip.features.double() - mean).square().sum(0) for clip in clips]).sum(0) / count
    std = torch.maximum(spread.sqrt(), floor.double())
    return mean.float(), torch.where(std > 0, std, 1.0).float()


Settings = TypeVar("Settings", bound=PairSettings)


class PairTrainer(ABC, Generic[Settings]):
    """Trains a model of texts and motions; see `motionkit.training.base.Trainer`.

    AdamW with warm-up and cosine decay, one random caption per motion, random crops. A subclass opens its model in
    `prepare`, after `open_clips`, which sets ``items`` (the record of the training data) and ``inputs``, and makes
    ``training`` last, which does the updates.
    """

    figures: ClassVar[tuple[Figure, ...]] = (LOSS, Figure("R@3", (_HEADLINE,)))
    stream: ClassVar[str]  # name of the trainer's random stream
    folder: ClassVar[str]  # name of the model's folder in the run
    training: PairTraining

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.world: World = OneProcess()
        self.negatives: Negatives | None = None
        self.mirror = self.resize = 0.0
        self.unmirrored: Set[str] = frozenset()

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """The trained model."""

    @abstractmethod
    def save(self, run: Run, provenance: Mapping[str, object], *, tensors: bool = True) -> None:
        """Write the model into its folder of the run; without `tensors` only its config.json."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Measure retrieval on the held-out clips."""

    def open_clips(self, init: str = "") -> tuple[TextMotionDataset, Tensor, Tensor]:
        """Open the dataset and choose its clips; return it with mean and std ``[F]`` of the training clips.

        Clips that the model `init`, from which training starts, was trained on are not held out.
        """
        settings, train = self.settings, self.settings.train
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        label = settings.dataset.label
        clips = usable_clips(dataset, "train", label, least=4)
        if len(captions := {text for clip in clips for text in clip.captions}) < 2:
            raise MotionkitError(
                f"all training clips of {label} have the same caption, {min(captions)!r}.",
                why="the model learns which caption belongs to which clip, and there is nothing to tell apart.",
                fix="give the clips captions of their own: motionkit convert IN... OUT --captions CSV.",
            )
        self.train_clips = {"all": clips, "first": clips[0::2], "second": clips[1::2]}[train.half]
        size = min(train.batch_size, len(self.train_clips))
        share_of(size, self.world, what="clips", flag="--batch-size")
        self.items = trained_on_clips(dataset, self.train_clips)
        if init:
            self.items |= trained_on(init)
        held_out_of_split, note = held_out_clips(dataset, label, self.items, least=2)
        self.notes = [note] if note else []
        held_out = sorted(held_out_of_split, key=lambda clip: stable_hash(clip.key))
        self.val_clips = sorted(held_out[: train.val_clips], key=lambda clip: clip.key)
        self._trained_on = record_of(dataset)
        self.inputs = clip_inputs(settings.dataset, dataset, self.train_clips, self.val_clips)
        self.max_length, self._random_crop = dataset.max_length, dataset.random_crop
        self._skeleton = dataset.skeleton
        mean, std = statistics(self.train_clips, floor=dataset.normalizer.std.cpu() * train.std_floor)
        return dataset, mean, std

    def open_negatives(self, dataset: TextMotionDataset, readable: Callable[[Sequence[str]], Set[str]]) -> None:
        """Prepare augmentation and changed copies; `readable` returns the texts that the text model can encode."""
        settings, train = self.settings, self.settings.train
        kinds = kinds_of(train.negatives, starter=dataset.name == "starter")
        self.mirror = train.mirror if train.mirror is not None else 0.5 * bool(kinds)
        self.resize = train.resize if train.resize is not None else 0.15 * bool(kinds)
        captions = list(dict.fromkeys(text for clip in self.train_clips for text in clip.captions))
        if self.mirror:
            known = readable([mirror_text(text) for text in captions])
            # A caption in another language may name a side, which would be wrong for the mirror image.
            self.unmirrored = frozenset(
                text for text in captions if not reads_sides(text) or mirror_text(text) not in known
            )
            captions = list(dict.fromkeys([*captions, *(mirror_text(text) for text in captions)]))
        if not kinds:
            return
        self.negatives = Negatives(
            self.train_clips,
            kinds,
            share=train.copies,
            skeleton=dataset.skeleton,
            fps=dataset.fps,
            max_length=dataset.max_length,
            random_crop=dataset.random_crop,
            crop_share=train.crop_share,
            crop_min=train.crop_min,
            seed=settings.seed,
            name=self.stream,
        )
        self.notes += self.negatives.settle(captions, settings.dataset.label, readable)
        if self.negatives.unreadable:
            # Another text model may encode other captions: then resuming is refused.
            self.inputs["train.negatives"] = fingerprint("\n".join(sorted(self.negatives.unreadable)))

    def common(self) -> dict[str, Any]:
        """Return the keywords of `PairTraining` that do not depend on the model."""
        settings = self.settings
        return {
            "optim": settings.optim,
            "updates": settings.run.num_steps,
            "final": settings.train.final_rate,
            "negatives": self.negatives,
            "noise": settings.train.noise,
            "precision": settings.precision,
            "world": self.world,
        }

    def plan(self) -> dict[str, object]:
        """Return the lines of the plan that do not depend on the model."""
        return {
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "train_clips": len(self.train_clips),
            "val_clips": len(self.val_clips),
            "epochs": round(self.settings.run.num_steps / self.batches().per_epoch, 1),
            "device": describe_device(self.device),
            **({"negatives": ", ".join(self.negatives.kinds)} if self.negatives is not None else {}),
            **({"notes": self.notes} if self.notes else {}),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings = self.settings
        for note in self.notes:
            _logger.warning("%s", note)
        batches = self.batches()

        def begin() -> None:
            if self.world.main:
                self.save(run, self._provenance({}), tensors=False)
                self.items.write(run.artifact(self.folder))

        def validate_first() -> dict[str, float]:
            _logger.info("measuring retrieval on %d held-out clips before training", len(self.val_clips))
            return self.validate()

        fitted = fit(
            run,
            settings,
            self.training.learner,
            lambda step: self.training.step(batches(step)),
            measure=lambda step: self.validate(),
            every=settings.train.val_every,
            before=validate_first,
            begin=begin,
        )
        if fitted is None:
            return {}
        after = fitted.after
        if self.world.main:
            self.save(run, self._provenance(after))
            self.items.write(run.artifact(self.folder))
        table = retrieval_table(after, f"Retrieval on {len(self.val_clips)} held-out clips, % (median rank: of clips)")
        return {"heldout": self._heldout(fitted.before, after), "metrics": after, "table": table}

    def batches(self) -> PairBatches:
        """Return the batches of training, by step."""
        train = self.settings.train
        return PairBatches(
            self.train_clips,
            batch_size=train.batch_size,
            max_length=self.max_length,
            seed=self.settings.seed,
            random_crop=self._random_crop,
            crop_share=train.crop_share,
            crop_min=train.crop_min,
            name=self.stream,
            mirror=self.mirror,
            unmirrored=self.unmirrored,
            resize=self.resize,
            skeleton=self._skeleton,
        )

    def _heldout(self, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, object]:
        name = _HEADLINE if _HEADLINE in after else "retrieval/t2m/r3"
        return {name: entry_of(before[name], after[name], count_takes(self.val_clips))}

    def _provenance(self, metrics: Mapping[str, float]) -> dict[str, object]:
        shown = {"dataset", "model", "words", "loss", "train", "seed"} & type(self.settings).model_fields.keys()
        settings = self.settings.model_dump(mode="json", include=shown)
        # The kinds in use, "auto" resolved: an audit marks the kinds that a model was trained against.
        kinds = {} if self.negatives is None else dict(self.negatives.kinds)
        settings["train"] |= {"negatives": kinds, "mirror": self.mirror, "resize": self.resize}
        return {
            "trained_on": self._trained_on.model_dump(),
            "training": settings,
            "retrieval": {name: round(value, 3) for name, value in metrics.items()},
        }


def retrieval_figures(whole: Tensor, short: Tensor, *, sentences: Tensor | None = None) -> dict[str, float]:
    """Measure retrieval with similarities of N texts (rows) and their N motions.

    Args:
        whole: ``[N, N]`` similarities to whole motions; the order of the clips matters for the batches of 32.
        short: ``[N, N]`` similarities to `short_crops`.
        sentences: ``[N, F]`` unit-norm sentence embeddings, for the figures that end in ``_same``.

    Returns:
        ``retrieval/t2m/r1`` ... among all clips; ``..._same`` also counts clips with an equivalent caption (cosine of
        the sentences above 0.9) as right; ``..._32`` in batches of 32, ``..._32_short`` the same on short crops;
        ``..._chance`` the expectation of random guesses.
    """
    count = len(whole)
    result = _named(retrieval(whole), "")
    if sentences is not None:
        result |= _named(retrieval(whole, sentences=sentences), "_same")
    result["retrieval/t2m/r1_chance"] = 100.0 / count
    result["retrieval/t2m/r3_chance"] = 100.0 * min(3, count) / count
    if guo_batches(count):
        result |= _named(retrieval_guo(whole), "_32")
        result |= _named(retrieval_guo(short), "_32_short")
        result["retrieval/t2m/r1_32_chance"] = 100.0 / 32
        result["retrieval/t2m/r3_32_chance"] = 300.0 / 32
    return result


def _named(values: dict[str, float], tag: str) -> dict[str, float]:
    return {
        f"retrieval/{direction}/{short}{tag}": values[f"{direction}/{name}"]
        for direction in ("t2m", "m2t")
        for name, short in _SHOWN.items()
    }


def short_crops(clips: Sequence[TextClip], frames: int) -> list[Crop]:
    """Return a crop of at most `frames` frames of each clip, at a place chosen by its key; all rows are 0."""
    crops = []
    for clip in clips:
        spare = max(0, len(clip.features) - frames)
        crops.append(Crop(0, stable_hash(f"short/{clip.key}") % (spare + 1), min(frames, len(clip.features))))
    return crops
