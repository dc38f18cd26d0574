"""Training on pairs of a text and a motion, measured by retrieval: what TMR and the evaluator have in common."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from motionkit.datasets.base import TextMotionDataset
from motionkit.evaluation._trained_on import trained_on
from motionkit.motion import DataRecord
from motionkit.rl import stable_hash
from motionkit.runs import Run, fingerprint
from motionkit.text import mirror_text, reads_sides
from motionkit.tracking import retrieval_table
from motionkit.trainers._device import describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Kept, restore
from motionkit.trainers._world import OneProcess, World, joined, share_of, sum_over
from motionkit.trainers.base import LOSS, Figure
from motionkit.trainers.pretrain._clips import clip_inputs, held_out_clips, trained_on_clips, usable_clips
from motionkit.trainers.pretrain._contrast import Beside
from motionkit.trainers.pretrain._kinds import kinds_of
from motionkit.trainers.pretrain._negatives import ChangedCaptions, ChangedMotions, Negatives
from motionkit.trainers.pretrain._pair_settings import PairSettings
from motionkit.trainers.pretrain._pairs import PairBatch, PairBatches
from motionkit.trainers.pretrain._statistics import WithStatistics, statistics

_logger = logging.getLogger("motionkit.pretrain")
_HEADLINE = "retrieval/t2m/r3_32"

Settings = TypeVar("Settings", bound=PairSettings)


class PairTrainer(ABC, Generic[Settings]):
    """Trains a model of texts and motions; see `motionkit.trainers.base.Trainer`.

    AdamW with warm-up and cosine decay, one random caption per motion, random crops. A subclass opens its model in
    `prepare`, after `open_clips`.

    Args:
        settings: All settings.

    Attributes:
        stream: Keeps the random draws of one trainer apart from those of another.
        renamed: Names of losses in metrics, where they differ from those in the settings.
        folder: Name of the model's folder in the run.
        items: What the model is trained on; known after `open_clips`, as is ``inputs``, which a subclass adds to.
    """

    figures: ClassVar[tuple[Figure, ...]] = (LOSS, Figure("R@3", (_HEADLINE,)))
    stream: ClassVar[str]
    folder: ClassVar[str]
    renamed: ClassVar[Mapping[str, str]] = {}

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.world: World = OneProcess()
        self.negatives: Negatives | None = None
        self.mirror = self.resize = 0.0
        self.unmirrored: Set[str] = frozenset()

    @property
    @abstractmethod
    def model(self) -> nn.Module:
        """What is trained."""

    @abstractmethod
    def save(self, run: Run, provenance: Mapping[str, object]) -> None:
        """Write the trained model into its folder of the run."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Measure retrieval on the held-out clips."""

    @abstractmethod
    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted losses by their names in the settings, of several processes this one's share.

        A process encodes the rows `share` of the batch.
        """

    @abstractmethod
    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""

    @abstractmethod
    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""

    @abstractmethod
    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return ``[B]`` scores of ``[B, D]`` texts and motions, in units of the temperature."""

    def beside(self, batch: PairBatch, texts: Tensor, motions: Tensor) -> Beside | None:
        """Return the scores of the changed copies of a batch; None in training without them.

        Args:
            batch: The step's data.
            texts: ``[B, D]`` latents of the captions, those of all processes.
            motions: ``[B, D]`` latents of the motions.
        """
        if self.negatives is None:
            return None
        copies, captions = self.negatives.motions(batch, self.share), self.negatives.captions(batch, self.share)
        found = Beside()
        if self.negatives.of_motions:
            rows, there = self._of_all(copies and self.encode_copies(copies), copies and copies.places, texts)
            found = found._replace(motions=self.score(texts, rows).masked_fill(~there, -torch.inf))
        if self.negatives.of_captions:
            rows, there = self._of_all(captions and self.encode_changed(captions), captions and captions.places, texts)
            found = found._replace(captions=self.score(rows, motions).masked_fill(~there, -torch.inf))
        return found

    def _of_all(self, latents: Tensor | None, places: Sequence[int] | None, like: Tensor) -> tuple[Tensor, Tensor]:
        """Put latents of this process's rows at their places among those of all processes.

        Args:
            latents: ``[K, D]``, or None where this process has no copy; it takes part all the same.
            places: ``K`` places in the batch.
            like: ``[B, D]``.

        Returns:
            ``[B, D]``, zeros where there is no copy, and ``[B]`` bool, where there is one.
        """
        rows = like.new_zeros(len(like) // self.world.size, like.shape[1])
        there = torch.zeros(len(rows), dtype=torch.uint8, device=like.device)
        if latents is not None and places is not None:
            index = torch.tensor(places, device=like.device) - self.share.start
            rows = rows.index_copy(0, index, latents)
            there[index] = 1
        return joined(rows, self.world), self.world.gather(there).bool()

    def open_clips(self, init: str = "") -> tuple[TextMotionDataset, Tensor, Tensor]:
        """Open the dataset and choose its clips; returns it with mean and std ``[F]`` of the training clips.

        Args:
            init: Model that training goes on from: what it was trained on is held out neither.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings, train = self.settings, self.settings.train
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        label = settings.dataset.label
        clips = usable_clips(dataset, "train", label, least=4)
        self.train_clips = {"all": clips, "first": clips[0::2], "second": clips[1::2]}[train.half]
        size = min(train.batch_size, len(self.train_clips))
        self.share = share_of(size, self.world, what="clips", flag="--batch-size")
        self.items = trained_on_clips(dataset, self.train_clips)
        if init:
            self.items |= trained_on(init)
        found, said = held_out_clips(dataset, label, self.items, least=2)
        self.notes = [said] if said else []
        held_out = sorted(found, key=lambda clip: stable_hash(clip.key))
        self.val_clips = sorted(held_out[: train.val_clips], key=lambda clip: clip.key)
        self._trained_on = DataRecord.of(dataset)
        self.inputs = clip_inputs(settings.dataset, dataset, self.train_clips, self.val_clips)
        self.max_length, self._random_crop = dataset.max_length, dataset.random_crop
        self._skeleton = dataset.skeleton
        mean, std = statistics(self.train_clips, floor=dataset.normalizer.std.cpu() * train.std_floor)
        return dataset, mean, std

    def open_negatives(self, dataset: TextMotionDataset, readable: Callable[[Sequence[str]], Set[str]]) -> None:
        """Prepare the changed copies that the settings ask for.

        Args:
            dataset: Where the clips are from.
            readable: Returns those of many texts that the text side of the model can read.

        Raises:
            MotionkitError: A kind is unknown, or the clips do not allow for negatives.
        """
        settings, train = self.settings, self.settings.train
        kinds = kinds_of(train.negatives, starter=dataset.name == "starter")
        self.mirror = train.mirror if train.mirror is not None else 0.5 * bool(kinds)
        self.resize = train.resize if train.resize is not None else 0.15 * bool(kinds)
        captions = list(dict.fromkeys(text for clip in self.train_clips for text in clip.captions))
        if self.mirror:
            there = readable([mirror_text(text) for text in captions])
            # A caption in another language may name a side, which the mirror image would not show.
            self.unmirrored = frozenset(
                text for text in captions if not reads_sides(text) or mirror_text(text) not in there
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
            # With another text model at hand, other captions would be read: a resumed run is told.
            self.inputs["train.negatives"] = fingerprint("\n".join(sorted(self.negatives.unreadable)))

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
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings, optim = self.settings, self.settings.optim
        for note in self.notes:
            _logger.warning("%s", note)
        batches = self.batches()
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, settings.train.final_rate)
        learner = Learner(WithStatistics(self.model), optim, rate, world=self.world)
        start = Kept()
        parts = {**learner.parts(), "before": start}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            _logger.info("measuring retrieval on %d held-out clips before training", len(self.val_clips))
            start.values = self.validate()
        after: dict[str, float] = {}

        def step_fn(step: int) -> Mapping[str, float]:
            nonlocal after
            metrics = self._step(batches(step), learner, step)
            every = settings.train.val_every
            if step == settings.run.num_steps or (every and step % every == 0):
                after = self.validate()
                metrics |= after
            return metrics

        if not run_steps(run, settings, step_fn, parts, world=self.world):
            return {}
        after = after or self.validate()  # empty when resumed after the last step
        if self.world.main:
            self.save(run, self._provenance(after))
            self.items.write(run.artifact(self.folder))
        table = retrieval_table(after, f"Retrieval on {len(self.val_clips)} held-out clips, % (median rank: of clips)")
        return {"heldout": self._heldout(start.values, after), "metrics": after, "table": table}

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

    def noisy(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return normalised motions with the noise of the settings; the caller masks what is past an end."""
        noise: Tensor = torch.randn(x.shape, generator=generator).to(x.device)
        return x + float(self.settings.train.noise) * noise

    def _step(self, batch: PairBatch, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        self.model.train()
        parts = self.losses(batch)
        weights = self.settings.loss
        total = torch.stack([value * float(getattr(weights, name)) for name, value in parts.items()]).sum()
        total.backward()
        moved = learner.descend(step - 1)
        shares = {"loss/total": total} | {
            f"loss/{self.renamed.get(name, name)}": value for name, value in parts.items()
        }
        return moved | sum_over({name: float(value.detach()) for name, value in shares.items()}, self.world)

    def _heldout(self, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, object]:
        name = _HEADLINE if _HEADLINE in after else "retrieval/t2m/r3"
        old, new = before[name], after[name]
        return {name: {"before": old, "after": new, "delta": new - old, "n": len(self.val_clips)}}

    def _provenance(self, metrics: Mapping[str, float]) -> dict[str, object]:
        shown = {"dataset", "model", "words", "loss", "train", "seed"} & type(self.settings).model_fields.keys()
        settings = self.settings.model_dump(mode="json", include=shown)
        # What "auto" came to: an audit marks the kinds that a model was trained against.
        kinds = {} if self.negatives is None else dict(self.negatives.kinds)
        settings["train"] |= {"negatives": kinds, "mirror": self.mirror, "resize": self.resize}
        return {
            "trained_on": self._trained_on.model_dump(),
            "training": settings,
            "retrieval": {name: round(value, 3) for name, value in metrics.items()},
        }
