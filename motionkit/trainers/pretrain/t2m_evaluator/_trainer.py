"""`motionkit pretrain t2m-evaluator`: the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.datasets.base import TextMotionDataset
from motionkit.encoders.t2m import (
    RUN_PART,
    Crop,
    EvaluatorSizes,
    Sentences,
    T2MEvaluator,
    Tagger,
    encode_clips,
    new_evaluator,
    read_words,
    save_evaluator,
)
from motionkit.metrics import distances as all_distances
from motionkit.rl import stable_hash
from motionkit.runs import Run
from motionkit.tracking import retrieval_table
from motionkit.trainers._device import autocast, describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Kept, restore
from motionkit.trainers.pretrain._clips import usable_clips
from motionkit.trainers.pretrain._pairs import PairBatch, PairBatches, below
from motionkit.trainers.pretrain._retrieval import retrieval_figures, short_crops
from motionkit.trainers.pretrain._statistics import WithStatistics, statistics
from motionkit.trainers.pretrain.t2m_evaluator._loss import distances, hinge, nce, same_caption
from motionkit.trainers.pretrain.t2m_evaluator._settings import PretrainEvaluatorSettings
from motionkit.trainers.pretrain.t2m_evaluator._words import caption_tokens, starter_words

_logger = logging.getLogger("motionkit.pretrain")
_HEADLINE = "retrieval/t2m/r3_32"


class PretrainEvaluator:
    """Trains a text-to-motion evaluator from scratch; see `motionkit.trainers.base.Trainer`.

    The movement encoder is trained together with the other two networks; the original trained it beforehand, as one
    half of an autoencoder. The loss is the published one plus an InfoNCE of distances (``loss.nce=0`` leaves it out).
    Statistics are computed from the training clips. The model becomes ``RUN/evaluator``.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "dataset",
        "model",
        "words",
        "loss",
        "train",
        "optim",
        "seed",
        "run.num_steps",
    )

    def __init__(self, settings: PretrainEvaluatorSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open dataset and word vectors and build the networks.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings, train, model = self.settings, self.settings.train, self.settings.model
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        label = settings.dataset.label
        clips = usable_clips(dataset, "train", label, least=4)
        self._train_clips = {"all": clips, "first": clips[0::2], "second": clips[1::2]}[train.half]
        held_out = sorted(usable_clips(dataset, "val", label, least=2), key=lambda clip: stable_hash(clip.key))
        self._val_clips = sorted(held_out[: train.val_clips], key=lambda clip: clip.key)
        self._max_length, self._random_crop = dataset.max_length, dataset.random_crop
        mean, std = statistics(self._train_clips, floor=dataset.normalizer.std.cpu() * train.std_floor)
        trained, stored = caption_tokens(self._train_clips)
        self._tokens = {**caption_tokens(self._val_clips)[0], **trained}
        glove = settings.words.glove
        words = starter_words(trained, settings.words.width) if glove is None else read_words(glove, glove)
        sizes = EvaluatorSizes(
            len(mean),
            model.movement_hidden,
            model.movement,
            model.motion_hidden,
            model.text_hidden,
            model.latent_dim,
            words.width,
            model.dropout,
        )
        tagger: Tagger = "auto" if stored else "built-in"
        self.evaluator: T2MEvaluator = new_evaluator(sizes, mean, std, words, tagger=tagger, seed=settings.seed).to(
            self.device
        )

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {
            "model": "t2m-evaluator",
            "parameters": sum(parameter.numel() for parameter in self.evaluator.parameters()),
            "words": len(self.evaluator.words.rows),
            "train_clips": len(self._train_clips),
            "val_clips": len(self._val_clips),
            "epochs": round(self.settings.run.num_steps / self._batches().per_epoch, 1),
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings, optim = self.settings, self.settings.optim
        batches = self._batches()
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, settings.train.final_rate)
        learner = Learner(WithStatistics(self.evaluator), optim, rate)
        start = Kept()
        parts = {**learner.parts(), "before": start}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            _logger.info("measuring retrieval on %d held-out clips before training", len(self._val_clips))
            start.values = self._validate()
        after: dict[str, float] = {}

        def step_fn(step: int) -> Mapping[str, float]:
            nonlocal after
            metrics = self._step(batches(step), learner, step)
            every = settings.train.val_every
            if step == settings.run.num_steps or (every and step % every == 0):
                after = self._validate()
                metrics |= after
            return metrics

        if not run_steps(run, settings, step_fn, parts):
            return {}
        after = after or self._validate()  # empty when resumed after the last step
        save_evaluator(
            run.artifact(RUN_PART), self.evaluator, half=settings.train.save_half, extra=self._provenance(after)
        )
        table = retrieval_table(after, f"Retrieval on {len(self._val_clips)} held-out clips, % (median rank: of clips)")
        return {"heldout": self._heldout(start.values, after), "metrics": after, "table": table}

    def _heldout(self, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, object]:
        name = _HEADLINE if _HEADLINE in after else "retrieval/t2m/r3"
        old, new = before[name], after[name]
        return {name: {"before": old, "after": new, "delta": new - old, "n": len(self._val_clips)}}

    def _provenance(self, metrics: Mapping[str, float]) -> dict[str, object]:
        shown = {"dataset", "model", "words", "loss", "train", "seed"}
        settings = self.settings.model_dump(mode="json", include=shown)
        return {"training": settings, "retrieval": {name: round(value, 3) for name, value in metrics.items()}}

    def _batches(self) -> PairBatches:
        train = self.settings.train
        return PairBatches(
            self._train_clips,
            batch_size=train.batch_size,
            max_length=self._max_length,
            seed=self.settings.seed,
            random_crop=self._random_crop,
            crop_share=train.crop_share,
            crop_min=train.crop_min,
            name="t2m",
        )

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Measure retrieval by distance in the co-embedding, each clip with its first caption."""
        evaluator, clips = self.evaluator.eval(), self._val_clips
        texts = evaluator.encode_tokens([self._tokens[clip.captions[0]] for clip in clips])
        whole = [Crop(0, 0, min(len(clip.features), self._max_length)) for clip in clips]
        short = short_crops(clips, self.settings.train.short)
        motions = [clip.features for clip in clips]
        similarities = [-all_distances(texts, encode_clips(evaluator, motions, crops)) for crops in (whole, short)]
        return retrieval_figures(*similarities)

    def _step(self, batch: PairBatch, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        self.evaluator.train()
        parts = self._losses(batch)
        weights = self.settings.loss
        total = torch.stack([value * float(getattr(weights, name)) for name, value in parts.items()]).sum()
        total.backward()
        moved = learner.descend(step - 1)
        named = {f"loss/{name}": float(value.detach()) for name, value in parts.items()}
        return {"loss/total": float(total.detach())} | moved | named

    def _losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `EvaluatorLossSettings`."""
        evaluator, loss, device = self.evaluator, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = torch.arange(raw.shape[1], device=device) < lengths[:, None]
        x = torch.where(mask[..., None], evaluator.normalize(raw), raw.new_zeros(()))
        if self.settings.train.noise:
            noise = torch.randn(x.shape, generator=batch.generator).to(device)
            x = x + self.settings.train.noise * torch.where(mask[..., None], noise, noise.new_zeros(()))
        tokens = [self._tokens[caption] for caption in batch.captions]
        with autocast(device, self.settings.precision):
            text = evaluator.encode_sentences(self._disturbed(tokens, batch.generator).to(device))
            motion = evaluator.encode_normalized(x, lengths)
        distance = distances(text.float(), motion.float())
        same = same_caption(tokens).to(device)
        shift = 1 + below(max(len(tokens) - 1, 1), batch.generator)
        parts = {"hinge": hinge(distance, shift, margin=loss.margin, same=same)}
        if loss.nce:
            parts["nce"] = nce(distance, temperature=loss.temperature, same=same)
        return parts

    def _disturbed(self, tokens: Sequence[Sequence[str]], generator: torch.Generator) -> Sentences:
        """Return captions with words left out and noise on the rest, so that other wordings are near."""
        settings, table = self.settings.words, self.evaluator.words
        kept = [_thinned(row, settings.dropout, generator) for row in tokens]
        sentences = table.look_up(kept)
        if not settings.noise:
            return sentences
        scale = settings.noise * float(table.vectors.square().mean().sqrt())
        noise = scale * torch.randn(sentences.words.shape, generator=generator)
        return sentences._replace(words=sentences.words + noise)


def _thinned(tokens: Sequence[str], share: float, generator: torch.Generator) -> list[str]:
    """Leave each token out with chance `share`, but not all of them."""
    kept = torch.rand(len(tokens), generator=generator) >= share
    return [token for token, keep in zip(tokens, kept.tolist(), strict=True) if keep] or list(tokens)
