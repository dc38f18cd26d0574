"""`motionkit pretrain t2m-evaluator`: losses, word vectors and trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.contracts.dataset import TextClip
from motionkit.metrics import distances as all_distances
from motionkit.motion import tag_caption
from motionkit.rl import stable_hash
from motionkit.runs import Run
from motionkit.starter import student_path
from motionkit.text import StudentEncoder
from motionkit.text_to_motion.crops import Crop, encode_clips
from motionkit.text_to_motion.evaluator.files import RUN_PART, read_words, save_evaluator
from motionkit.text_to_motion.evaluator.model import (
    EvaluatorSizes,
    T2MEvaluator,
    Tagger,
    WordTable,
    new_evaluator,
)
from motionkit.text_to_motion.evaluator.settings import PretrainEvaluatorSettings
from motionkit.text_to_motion.evaluator.step import EvaluatorTraining
from motionkit.text_to_motion.pairs.train import PairTrainer, retrieval_figures, short_crops

_SPECIAL = ("sos", "eos", "unk")


def caption_tokens(clips: Sequence[TextClip]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return the ``word/POS`` tokens of every caption, and whether the dataset stores them.

    Captions without stored tokens get those of the built-in tagger, which is the same on every machine.
    """
    result: dict[str, tuple[str, ...]] = {}
    stored = False
    for clip in clips:
        stored_tokens = clip.tokens or ((),) * len(clip.captions)
        for caption, tokens in zip(clip.captions, stored_tokens, strict=True):
            stored |= bool(tokens)
            if tokens or caption not in result:
                result[caption] = tokens or tag_caption(caption, builtin=True)
    return result, stored


def starter_words(tokens: Mapping[str, Sequence[str]], width: int) -> WordTable:
    """Make a table of word vectors from those of the starter's student of MiniLM.

    Words are reduced to the forms in tagged captions, with the mean of all words of one form, and vectors to their
    first `width` principal components, scaled to a mean square of 1. Other words of `tokens` get a random vector,
    seeded by the word.
    """
    forms: dict[str, list[Tensor]] = {}
    for word, vector in StudentEncoder(student_path()).word_vectors().items():
        for form in _forms(word):
            forms.setdefault(form, []).append(vector)
    words = list(forms)
    # [W, E]; in double, as the squares of small components are summed over all words
    table = torch.stack([torch.stack(forms[word]).mean(0) for word in words]).double()
    table = table - table.mean(0)
    # Principal directions by the eigenvectors of the covariance; signs are fixed by the largest entry.
    vectors = torch.linalg.eigh(table.T @ table).eigenvectors.flip(1)[:, :width]
    vectors = vectors * vectors.gather(0, vectors.abs().argmax(0)[None]).sign()
    table = table @ vectors
    table = table / table.square().mean().sqrt()
    used = sorted({token.rpartition("/")[0] for row in tokens.values() for token in row})
    new = list(dict.fromkeys(word for word in (*_SPECIAL, *used) if word not in forms))
    rows = [*table.float(), *(_random(word, width) for word in new)]
    return WordTable(torch.stack(rows), {word: row for row, word in enumerate((*words, *new))}, "starter")


def _forms(word: str) -> list[str]:
    """Return the forms that the tagger reduces a word to, as a noun or as a verb."""
    contexts = (word, f"a {word}", f"is {word}")
    result = [token.rpartition("/")[0] for text in contexts for token in tag_caption(text, builtin=True)[-1:]]
    return list(dict.fromkeys(result))


def _random(word: str, width: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(stable_hash(f"word/{word}") % 2**63))


class PretrainEvaluator(PairTrainer[PretrainEvaluatorSettings]):
    """Trains a text-to-motion evaluator from scratch; see `motionkit.training.base.Trainer`.

    The movement encoder is trained together with the other two networks; the original trained it before, as a part of
    an autoencoder. The loss is the published one plus an InfoNCE of distances (``loss.nce=0`` leaves it out).
    Statistics are computed from the training clips. The model becomes ``RUN/evaluator``.
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
        """The trained model."""
        return self.evaluator

    def prepare(self) -> None:
        """Open dataset and word vectors and build the networks."""
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
        self.training = EvaluatorTraining(
            self.evaluator, settings.loss, settings.words, tokens=self._tokens, **self.common()
        )

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {"model": "t2m-evaluator", "words": len(self.evaluator.words.rows), **self.plan()}

    def save(self, run: Run, provenance: Mapping[str, object], *, tensors: bool = True) -> None:
        """Write ``RUN/evaluator``."""
        half = self.settings.train.save_half
        save_evaluator(run.artifact(RUN_PART), self.evaluator, half=half, extra=provenance, weights=tensors)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Measure retrieval by distance in the co-embedding, each clip with its first caption."""
        evaluator, clips = self.evaluator.eval(), self.val_clips
        texts = evaluator.encode_tokens([self._tokens[clip.captions[0]] for clip in clips])
        full = [Crop(0, 0, min(len(clip.features), self.max_length)) for clip in clips]
        short = short_crops(clips, self.settings.train.short)
        motions = [clip.features for clip in clips]
        similarities = [-all_distances(texts, encode_clips(evaluator, motions, crops)) for crops in (full, short)]
        return retrieval_figures(*similarities)
