"""An update of the text-to-motion evaluator: its losses, and the class that descends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.motion import tag_caption
from motionkit.nn import zeroed
from motionkit.rl import length_mask
from motionkit.text_to_motion.evaluator.model import Sentences, T2MEvaluator
from motionkit.text_to_motion.evaluator.settings import (
    EvaluatorLossSettings,
    EvaluatorWordSettings,
)
from motionkit.text_to_motion.pairs.data import PairBatch, below
from motionkit.text_to_motion.pairs.negatives import ChangedCaptions, ChangedMotions
from motionkit.text_to_motion.pairs.step import CopyScores, PairTraining, info_nce
from motionkit.training.device import autocast
from motionkit.training.settings import OptimSettings
from motionkit.training.world import joined


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


class EvaluatorTraining(PairTraining):
    """An evaluator, its losses and its learner; `step` does one update.

    Args:
        evaluator: What is trained, in place.
        loss: Weights and constants of the losses.
        words: How captions are disturbed.
        optim: The optimiser.
        tokens: ``word/POS`` tokens by caption; a caption that is not there is tagged.
        **options: As of `PairTraining`.
    """

    def __init__(
        self,
        evaluator: T2MEvaluator,
        loss: EvaluatorLossSettings,
        words: EvaluatorWordSettings,
        optim: OptimSettings,
        *,
        tokens: dict[str, tuple[str, ...]],
        **options: Any,
    ) -> None:
        self.evaluator, self.loss, self.words, self._tokens = evaluator, loss, words, tokens
        super().__init__(evaluator, loss, optim, constants={"words.vectors": evaluator.words.vectors}, **options)

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `EvaluatorLossSettings`."""
        evaluator, loss, device, share = self.evaluator, self.loss, self.device, self.share(batch)
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        # [B, T, F], 0 in padded frames, noise or not
        x = zeroed(evaluator.normalize(raw), mask)
        if self.noise:
            x = torch.where(mask[..., None], self.noisy(x, batch.generator), x)
        tokens = [self._tokens_of(caption) for caption in batch.captions]
        sentences = Sentences(*(part[share] for part in self._disturbed(tokens, batch.generator)))
        with autocast(device, self.precision):
            text = evaluator.encode_sentences(sentences.to(device))
            motion = evaluator.encode_normalized(x[share], lengths[share])
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
        if self.noise:
            x = self.noisy(x, copies.generator)
        x = zeroed(x, mask)
        with autocast(self.device, self.precision):
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
        with autocast(self.device, self.precision):
            return self.evaluator.encode_sentences(sentences).float()

    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return the scores of pairs, ``[B]``."""
        return scores(texts, motions, temperature=self.loss.temperature)

    def _tokens_of(self, caption: str) -> Sequence[str]:
        """Return the tokens of a caption, tagged if it is not in the data."""
        if caption not in self._tokens:
            self._tokens[caption] = tag_caption(caption, builtin=True)
        return self._tokens[caption]

    def _disturbed(self, tokens: Sequence[Sequence[str]], generator: torch.Generator) -> Sentences:
        """Return captions with words dropped and noise on the others, for robustness to other wordings."""
        words, table = self.words, self.evaluator.words
        thinned = [_thinned(row, words.dropout, generator) for row in tokens]
        sentences = table.look_up(thinned)
        if not words.noise:
            return sentences
        scale = words.noise * float(table.vectors.square().mean().sqrt())
        # Drawn on the CPU, so that a seed means the same on every device.
        noise = scale * torch.randn(sentences.words.shape, generator=generator)
        return sentences._replace(words=sentences.words + noise)


def _thinned(tokens: Sequence[str], share: float, generator: torch.Generator) -> list[str]:
    """Drop each token with probability `share`, but not all of them."""
    keep = (torch.rand(len(tokens), generator=generator) >= share).tolist()
    return [token for token, keeps in zip(tokens, keep, strict=True) if keeps] or list(tokens)
