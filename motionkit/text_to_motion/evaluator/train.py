"""`motionkit pretrain t2m-evaluator`: losses, word vectors and trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import TextClip
from motionkit.metrics import distances as all_distances
from motionkit.motion import tag_caption
from motionkit.rl import length_mask, stable_hash
from motionkit.runs import Run
from motionkit.starter import student_path
from motionkit.text import StudentEncoder
from motionkit.text_to_motion.crops import Crop, encode_clips
from motionkit.text_to_motion.evaluator.files import RUN_PART, read_words, save_evaluator
from motionkit.text_to_motion.evaluator.model import (
    EvaluatorSizes,
    Sentences,
    T2MEvaluator,
    Tagger,
    WordTable,
    new_evaluator,
)
from motionkit.text_to_motion.evaluator.settings import PretrainEvaluatorSettings
from motionkit.text_to_motion.pairs.data import PairBatch, below
from motionkit.text_to_motion.pairs.negatives import ChangedCaptions, ChangedMotions
from motionkit.text_to_motion.pairs.train import CopyScores, PairTrainer, info_nce, retrieval_figures, short_crops
from motionkit.training.device import autocast
from motionkit.training.world import joined

_SPECIAL = ("sos", "eos", "unk")


def distances(text: Tensor, motion: Tensor) -> Tensor:
    """Return ``[B, B]`` euclidean distances, texts in rows, with a gradient at 0.

    By differences, since the three-term expansion of `motionkit.metrics.distances` is inexact for small distances.
    """
    # [B, 1, D] against [1, B, D]
    return ((text[:, None] - motion[None]).square().sum(-1) + 1e-12).sqrt()


def same_caption(tokens: Sequence[Sequence[str]]) -> Tensor:
    """Return ``[B, B]`` bool, True for two different rows whose captions have the same words: false negatives."""
    words = [tuple(row) for row in tokens]
    same = torch.tensor([[a == b for b in words] for a in words])
    return same & ~torch.eye(len(words), dtype=torch.bool)


def hinge(distance: Tensor, shift: int, *, margin: float, same: Tensor) -> Tensor:
    """Return ``mean d_ii^2 + mean relu(margin - d_ij)^2`` with one wrong pair per text.

    The loss of the feature extractors of Guo et al. (CVPR 2022), after Hadsell et al. (2006).

    Args:
        distance: ``[B, B]``.
        shift: The wrong motion of text i is ``j = (i + shift) mod B``.
        margin: Distance from which a wrong pair has loss 0.
        same: See `same_caption`; such a pair is left out.
    """
    # Text i and motion (i + shift) mod B: with shift in 1 to B - 1 never the right one.
    rows = torch.arange(len(distance), device=distance.device)
    wrong_row = (rows + shift) % len(rows)
    wrong = (margin - distance[rows, wrong_row]).relu().square()
    keep = ~same[rows, wrong_row] & (rows != wrong_row)
    return distance.diagonal().square().mean() + torch.where(keep, wrong, 0.0).mean()


def nce(
    distance: Tensor,  # [B, B]
    *,
    temperature: float,  # in units of distance
    same: Tensor,  # see `same_caption`
    copies: CopyScores | None = None,  # changed copies as further negatives; see `info_nce`
) -> Tensor:
    """Symmetric InfoNCE of ``-distance / temperature`` over ``[B, B]``, without the pairs of `same_caption`."""
    return info_nce((-distance / temperature).masked_fill(same, -torch.inf), copies)


def copies_apart(copies: CopyScores, *, temperature: float, margin: float) -> Tensor:
    """Return ``mean relu(margin - d)^2`` of changed copies, the published loss of wrong pairs.

    With a loss that only ranks copies below their clips they would be a few units away, where unrelated pairs are
    `margin` away.

    Args:
        copies: Scores of the copies, see `scores`.
        temperature: That of the scores.
        margin: Distance from which a copy has loss 0.
    """
    losses = [(margin + temperature * scores).relu().square().mean() for scores in copies if scores is not None]
    return torch.stack(losses).sum()


def scores(text: Tensor, motion: Tensor, *, temperature: float) -> Tensor:
    """Return ``[B]``, minus the distance of each row of two ``[B, D]``, divided by the temperature."""
    return -((text - motion).square().sum(-1) + 1e-12).sqrt() / temperature


def caption_tokens(clips: Sequence[TextClip]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return the ``word/POS`` tokens of every caption, and whether the dataset stores them.

    Captions without stored tokens get those of the built-in tagger, which is the same on every machine.
    """
    result: dict[str, tuple[str, ...]] = {}
    stored = False
    for clip in clips:
        stored_tokens: Sequence[tuple[str, ...]] = getattr(clip, "tokens", ()) or [()] * len(clip.captions)
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

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {"model": "t2m-evaluator", "words": len(self.evaluator.words.rows), **self.plan()}

    @property
    def constants(self) -> Mapping[str, Tensor]:
        """The word vectors."""
        return {"words.vectors": self.evaluator.words.vectors}

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

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `EvaluatorLossSettings`."""
        evaluator, loss, device = self.evaluator, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        # [B, T, F], 0 in padded frames, noise or not
        x = torch.where(mask[..., None], evaluator.normalize(raw), 0.0)
        if self.settings.train.noise:
            x = torch.where(mask[..., None], self.noisy(x, batch.generator), x)
        tokens = [self._tokens_of(caption) for caption in batch.captions]
        sentences = Sentences(*(part[self.share] for part in self._disturbed(tokens, batch.generator)))
        with autocast(device, self.settings.precision):
            text = evaluator.encode_sentences(sentences.to(device))
            motion = evaluator.encode_normalized(x[self.share], lengths[self.share])
        texts, motions = joined(text.float(), self.world), joined(motion.float(), self.world)
        # [B, B] over the rows of all processes
        distance = distances(texts, motions)
        same = same_caption(tokens).to(device)
        shift = 1 + below(max(len(tokens) - 1, 1), batch.generator)
        parts = {"hinge": hinge(distance, shift, margin=loss.margin, same=same)}
        copies = self.score_copies(batch, texts, motions)
        if loss.nce:
            parts["nce"] = nce(distance, temperature=loss.temperature, same=same, copies=copies)
        if copies is not None:
            parts["negatives"] = copies_apart(copies, temperature=loss.temperature, margin=loss.margin)
        # Every process computes the loss of the whole batch; gradients are summed over processes.
        return {name: value / self.world.size for name, value in parts.items()}

    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""
        raw, lengths = copies.features.to(self.device), copies.lengths.to(self.device)
        mask = length_mask(lengths, raw.shape[1])
        x = self.evaluator.normalize(raw)
        if self.settings.train.noise:
            x = self.noisy(x, copies.generator)
        x = torch.where(mask[..., None], x, 0.0)
        with autocast(self.device, self.settings.precision):
            return self.evaluator.encode_normalized(x, lengths).float()

    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""
        seed = captions.generator.initial_seed()
        # Draws for a caption depend on its row in the batch, not on the process.
        rows = [
            self._disturbed([self._tokens_of(text)], torch.Generator().manual_seed((seed + row_number) % 2**63))
            for row_number, text in zip(captions.places, captions.captions, strict=True)
        ]
        words, parts = (pad_sequence([row[part][0] for row in rows], batch_first=True) for part in (0, 1))
        sentences = Sentences(words, parts, torch.cat([row[2] for row in rows])).to(self.device)
        with autocast(self.device, self.settings.precision):
            return self.evaluator.encode_sentences(sentences).float()

    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return the scores of pairs, ``[B]``."""
        return scores(texts, motions, temperature=self.settings.loss.temperature)

    def _tokens_of(self, caption: str) -> Sequence[str]:
        """Return the tokens of a caption, tagged if it is not in the data."""
        if caption not in self._tokens:
            self._tokens[caption] = tag_caption(caption, builtin=True)
        return self._tokens[caption]

    def _disturbed(self, tokens: Sequence[Sequence[str]], generator: torch.Generator) -> Sentences:
        """Return captions with words dropped and noise on the others, for robustness to other wordings."""
        settings, table = self.settings.words, self.evaluator.words
        thinned = [_thinned(row, settings.dropout, generator) for row in tokens]
        sentences = table.look_up(thinned)
        if not settings.noise:
            return sentences
        scale = settings.noise * float(table.vectors.square().mean().sqrt())
        # Drawn on the CPU, so that a seed means the same on every device.
        noise = scale * torch.randn(sentences.words.shape, generator=generator)
        return sentences._replace(words=sentences.words + noise)


def _thinned(tokens: Sequence[str], share: float, generator: torch.Generator) -> list[str]:
    """Drop each token with probability `share`, but not all of them."""
    keep = (torch.rand(len(tokens), generator=generator) >= share).tolist()
    return [token for token, keeps in zip(tokens, keep, strict=True) if keeps] or list(tokens)
