"""`motionkit pretrain t2m-evaluator`: the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.encoders._crops import Crop, encode_clips
from motionkit.encoders.t2m._beside import read_words
from motionkit.encoders.t2m._load import RUN_PART
from motionkit.encoders.t2m._model import T2MEvaluator, Tagger
from motionkit.encoders.t2m._native import save_evaluator
from motionkit.encoders.t2m._network import EvaluatorSizes
from motionkit.encoders.t2m._new import new_evaluator
from motionkit.encoders.t2m._words import Sentences
from motionkit.metrics import distances as all_distances
from motionkit.motion import tag_caption
from motionkit.runs import Run
from motionkit.trainers._device import autocast
from motionkit.trainers._world import joined
from motionkit.trainers.pretrain._negatives import ChangedCaptions, ChangedMotions
from motionkit.trainers.pretrain._pair_trainer import PairTrainer
from motionkit.trainers.pretrain._pairs import PairBatch, below
from motionkit.trainers.pretrain._retrieval import retrieval_figures, short_crops
from motionkit.trainers.pretrain.t2m_evaluator._loss import copies_apart, distances, hinge, nce, same_caption, scores
from motionkit.trainers.pretrain.t2m_evaluator._settings import PretrainEvaluatorSettings
from motionkit.trainers.pretrain.t2m_evaluator._words import caption_tokens, starter_words


class PretrainEvaluator(PairTrainer[PretrainEvaluatorSettings]):
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

    stream, folder = "t2m", RUN_PART

    @property
    def model(self) -> T2MEvaluator:
        """What is trained."""
        return self.evaluator

    def prepare(self) -> None:
        """Open dataset and word vectors and build the networks.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings, model = self.settings, self.settings.model
        dataset, mean, std = self.open_clips()
        trained, stored = caption_tokens(self.train_clips)
        self._tokens = {**caption_tokens(self.val_clips)[0], **trained}
        glove = settings.words.glove
        words = starter_words(trained, settings.words.width) if glove is None else read_words(glove, glove)
        if glove is not None:
            self.inputs["words.glove"] = words.fingerprint()
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
        self.open_negatives(dataset, frozenset)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {"model": "t2m-evaluator", "words": len(self.evaluator.words.rows), **self.plan()}

    def save(self, run: Run, provenance: Mapping[str, object]) -> None:
        """Write ``RUN/evaluator``."""
        save_evaluator(run.artifact(RUN_PART), self.evaluator, half=self.settings.train.save_half, extra=provenance)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Measure retrieval by distance in the co-embedding, each clip with its first caption."""
        evaluator, clips = self.evaluator.eval(), self.val_clips
        texts = evaluator.encode_tokens([self._tokens[clip.captions[0]] for clip in clips])
        whole = [Crop(0, 0, min(len(clip.features), self.max_length)) for clip in clips]
        short = short_crops(clips, self.settings.train.short)
        motions = [clip.features for clip in clips]
        similarities = [-all_distances(texts, encode_clips(evaluator, motions, crops)) for crops in (whole, short)]
        return retrieval_figures(*similarities)

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `EvaluatorLossSettings`."""
        evaluator, loss, device = self.evaluator, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = torch.arange(raw.shape[1], device=device) < lengths[:, None]
        x = torch.where(mask[..., None], evaluator.normalize(raw), raw.new_zeros(()))
        if self.settings.train.noise:
            x = torch.where(mask[..., None], self.noisy(x, batch.generator), x)
        tokens = [self._tokens_of(caption) for caption in batch.captions]
        sentences = Sentences(*(part[self.share] for part in self._disturbed(tokens, batch.generator)))
        with autocast(device, self.settings.precision):
            text = evaluator.encode_sentences(sentences.to(device))
            motion = evaluator.encode_normalized(x[self.share], lengths[self.share])
        texts, motions = joined(text.float(), self.world), joined(motion.float(), self.world)
        distance = distances(texts, motions)
        same = same_caption(tokens).to(device)
        shift = 1 + below(max(len(tokens) - 1, 1), batch.generator)
        parts = {"hinge": hinge(distance, shift, margin=loss.margin, same=same)}
        beside = self.beside(batch, texts, motions)
        if loss.nce:
            parts["nce"] = nce(distance, temperature=loss.temperature, same=same, beside=beside)
        if beside is not None:
            parts["negatives"] = copies_apart(beside, temperature=loss.temperature, margin=loss.margin)
        return {name: value / self.world.size for name, value in parts.items()}

    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""
        raw, lengths = copies.features.to(self.device), copies.lengths.to(self.device)
        mask = torch.arange(raw.shape[1], device=self.device) < lengths[:, None]
        x = self.evaluator.normalize(raw)
        if self.settings.train.noise:
            x = self.noisy(x, copies.generator)
        x = torch.where(mask[..., None], x, raw.new_zeros(()))
        with autocast(self.device, self.settings.precision):
            return self.evaluator.encode_normalized(x, lengths).float()

    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""
        seed = captions.generator.initial_seed()
        # What is drawn for a caption follows from its place in the batch, whichever process has it.
        rows = [
            self._disturbed([self._tokens_of(text)], torch.Generator().manual_seed((seed + place) % 2**63))
            for place, text in zip(captions.places, captions.captions, strict=True)
        ]
        words, parts = (pad_sequence([row[part][0] for row in rows], batch_first=True) for part in (0, 1))
        sentences = Sentences(words, parts, torch.cat([row[2] for row in rows])).to(self.device)
        with autocast(self.device, self.settings.precision):
            return self.evaluator.encode_sentences(sentences).float()

    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return the scores of pairs, ``[B]``."""
        return scores(texts, motions, temperature=self.settings.loss.temperature)

    def _tokens_of(self, caption: str) -> Sequence[str]:
        """Return the tokens of a caption; one that is not in the data is tagged at its first use."""
        if caption not in self._tokens:
            self._tokens[caption] = tag_caption(caption, builtin=True)
        return self._tokens[caption]

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
