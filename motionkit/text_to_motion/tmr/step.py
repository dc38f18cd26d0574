"""An update of TMR: its losses, and the class that descends them.

The losses are those of Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.nn import zeroed
from motionkit.rl import length_mask
from motionkit.text import TextFeatures
from motionkit.text_to_motion.pairs.data import PairBatch
from motionkit.text_to_motion.pairs.negatives import ChangedCaptions, ChangedMotions
from motionkit.text_to_motion.pairs.step import CopyScores, PairTraining, above_copies, info_nce
from motionkit.text_to_motion.tmr.model import TMR, Latent, sentence_embeddings
from motionkit.text_to_motion.tmr.settings import LossSettings, PretrainTMRSettings
from motionkit.training.device import autocast
from motionkit.training.settings import OptimSettings
from motionkit.training.world import joined

_GROUPS = 4


def reconstruction(
    decoded_from_text: Tensor,  # [B, T, F], 0 in padded frames
    decoded_from_motion: Tensor,  # [B, T, F], 0 in padded frames
    target: Tensor,  # [B, T, F] normalised motions, 0 in padded frames
    *,
    elements: int = 0,  # divisor, for a part of a batch; 0: the elements of `target`
) -> Tensor:
    """Sum of both Smooth L1 (beta 1) means over all elements of ``[B, T, F]``, padding included."""
    both = (decoded_from_text, decoded_from_motion)
    total = torch.stack([F.smooth_l1_loss(decoded, target, reduction="sum") for decoded in both]).sum()
    return total / (elements or target.numel())


def kl_gaussian(p: Latent, q: Latent) -> Tensor:
    """Mean over ``[B, D]`` of KL(p || q) of diagonal Gaussians, in nats."""
    # Variances as logarithms, so that no division can overflow.
    ratio = torch.exp(p.logvar - q.logvar)
    return 0.5 * (ratio + (p.mu - q.mu).square() * torch.exp(-q.logvar) - 1 - (p.logvar - q.logvar)).mean()


def kl_latents(text: Latent, motion: Latent) -> Tensor:
    """KL(t||m) + KL(m||t) + KL(m||N(0,1)) + KL(t||N(0,1))."""
    prior = Latent(torch.zeros_like(text.mu), torch.zeros_like(text.mu))
    pairs = ((text, motion), (motion, text), (motion, prior), (text, prior))
    return torch.stack([kl_gaussian(p, q) for p, q in pairs]).sum()


def contrastive(
    text: Tensor,
    motion: Tensor,
    *,
    temperature: float,
    sentences: Tensor | None = None,
    threshold: float = 0.8,
    copies: CopyScores | None = None,
) -> Tensor:
    """Symmetric InfoNCE of cosines, without the pairs whose sentences are equivalent.

    Args:
        text: ``[B, D]`` latents.
        motion: ``[B, D]`` latents, row i belongs to text i.
        temperature: Divides the cosines.
        sentences: ``[B, F]`` unit-norm sentence embeddings; a pair i != j with a dot product above ``2 threshold - 1``
            is a false negative and left out. None: all pairs are negatives.
        threshold: See `sentences`.
        copies: Changed copies as further negatives, which are not filtered; see `info_nce`.
    """
    logits = F.normalize(text, dim=-1) @ F.normalize(motion, dim=-1).T / temperature
    if sentences is not None:  # -inf takes a pair out of both softmaxes
        # Cosines lie in -1 to 1, the threshold in 0 to 1.
        same = (sentences @ sentences.T > 2 * threshold - 1) & ~torch.eye(
            len(text), dtype=torch.bool, device=text.device
        )
        logits = logits.masked_fill(same, -torch.inf)
    return info_nce(logits, copies)


def scores(text: Tensor, motion: Tensor, *, temperature: float) -> Tensor:
    """Return ``[B]``, the cosine of each row of two ``[B, D]``, divided by the temperature."""
    return (F.normalize(text, dim=-1) * F.normalize(motion, dim=-1)).sum(-1) / temperature


class TMRTraining(PairTraining):
    """A TMR, its losses and its learner; `step` does one update.

    Args:
        tmr: What is trained, in place; with a decoder if `loss.recons` is above 0.
        loss: Weights and constants of the losses.
        optim: The optimiser.
        **options: As of `PairTraining`.

    Example:
        >>> from motionkit import load_dataset
        >>> from motionkit.text_to_motion.pairs.data import PairBatches
        >>> from motionkit.text_to_motion.tmr.files import open_tmr
        >>> clips = load_dataset("starter", clips=8).clips("train")[:8]
        >>> training = TMRTraining(open_tmr("starter"))
        >>> metrics = training.step(PairBatches(clips, batch_size=8, max_length=196, seed=0)(1))
        >>> sorted(name for name in metrics if name.startswith("loss"))
        ['loss/contrastive', 'loss/latent', 'loss/total']
    """

    renamed: ClassVar[Mapping[str, str]] = {"kl": "kl_latent"}

    def __init__(
        self, tmr: TMR, loss: LossSettings | None = None, optim: OptimSettings | None = None, **options: Any
    ) -> None:
        self.tmr, self.loss = tmr, loss or LossSettings()
        self.variational = tmr.motion_encoder.sizes.variational
        super().__init__(tmr, self.loss, optim or PretrainTMRSettings.model_fields["optim"].default, **options)

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `LossSettings`."""
        tmr, loss, device = self.tmr, self.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        # [B, T, F], padding exactly 0 like the decoder's.
        target = zeroed(tmr.normalize(raw), mask)
        # The encoder reads noise, the decoder is compared with the clean motion.
        seen = self.noisy(target, batch.generator) if self.noise else target
        elements, count = target.numel(), len(target)
        share, size = self.share(batch), self.world.size
        # This process encodes its share; the contrastive loss compares the rows of all processes.
        seen, target, mask = seen[share], target[share], mask[share]
        texts = self._encode_captions(batch.captions[share])
        groups, sizes = _groups(batch.lengths[share], device)
        motion = self._encode_motions(seen, mask, groups, sizes)
        with autocast(device, self.precision):
            text = _single(tmr.encode_tokens(texts))
        motion_z, text_z = (self._sample(latent, count, share, batch.generator) for latent in (motion, text))
        # [B, D] of all processes, with a gradient to the rows of this one
        sentences = self.world.gather(sentence_embeddings(texts))
        all_texts, all_motions = joined(text_z, self.world), joined(motion_z, self.world)
        copies = self.score_copies(batch, all_texts, all_motions)
        nce = contrastive(
            all_texts,
            all_motions,
            temperature=loss.temperature,
            sentences=sentences,
            threshold=loss.threshold,
            copies=copies,
        )
        parts = {"contrastive": nce / size, "latent": torch.nn.functional.smooth_l1_loss(all_texts, all_motions) / size}
        if copies is not None:
            parts["negatives"] = above_copies(self.score(all_texts, all_motions), copies) / size
        if self.variational:
            parts["kl"] = kl_latents(text, motion) / size
        if tmr.motion_decoder is not None:
            # Decoded group by group, as long as the longest of each, so that little padding is computed.
            recons = []
            for g, t in zip(groups, sizes, strict=True):
                with autocast(device, self.precision):
                    decoded = tmr.decode(text_z[g], mask[g, :t]), tmr.decode(motion_z[g], mask[g, :t])
                recons.append(reconstruction(decoded[0].float(), decoded[1].float(), target[g, :t], elements=elements))
            parts["recons"] = torch.stack(recons).sum()
        return parts

    def _encode_motions(self, x: Tensor, mask: Tensor, groups: Sequence[Tensor], sizes: Sequence[int]) -> Latent:
        """Encode normalised motions ``[b, T, F]`` group by group (`_groups`)."""
        with autocast(self.device, self.precision):
            encoded = [self.tmr.encode_normalized(x[g, :t], mask[g, :t]) for g, t in zip(groups, sizes, strict=True)]
        # Groups are sorted by length: the inverse permutation restores the batch's order.
        back = torch.argsort(torch.cat(list(groups)))
        return _single(Latent(*(torch.cat(rows)[back] for rows in zip(*encoded, strict=True))))

    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""
        device = self.device
        raw, lengths = copies.features.to(device), copies.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        x = zeroed(self.tmr.normalize(raw), mask)
        if self.noise:
            x = self.noisy(x, copies.generator)
        return self._sample_all(self._encode_motions(x, mask, *_groups(copies.lengths, device)), copies.generator)

    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""
        texts = self._encode_captions(captions.captions)
        with autocast(self.device, self.precision):
            text = _single(self.tmr.encode_tokens(texts))
        return self._sample_all(text, captions.generator)

    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return the scores of pairs, ``[B]``."""
        return scores(texts, motions, temperature=self.loss.temperature)

    def _sample_all(self, latent: Latent, generator: torch.Generator) -> Tensor:
        """Sample latents of changed copies, which only this process has."""
        if not self.variational:
            return latent.mu
        noise = torch.randn(latent.mu.shape, generator=generator).to(latent.mu.device)
        return latent.mu + noise * torch.exp(latent.logvar / 2)

    def _sample(self, latent: Latent, count: int, share: slice, generator: torch.Generator) -> Tensor:
        """Sample this process's latents ``[b, D]``; the noise is drawn for all `count` rows of the batch."""
        if not self.variational:
            return latent.mu
        noise = torch.randn((count, latent.mu.shape[1]), generator=generator)[share].to(latent.mu.device)
        return latent.mu + noise * torch.exp(latent.logvar / 2)

    def _encode_captions(self, captions: Sequence[str]) -> TextFeatures:
        assert self.tmr.text_model is not None
        return self.tmr.text_model.encode(captions).to(self.device)


def _groups(lengths: Tensor, device: torch.device) -> tuple[list[Tensor], list[int]]:
    """Return groups of rows of similar length, and the longest length of each: encoding them saves half the padding."""
    groups = torch.argsort(lengths, stable=True).chunk(_GROUPS)
    return [group.to(device) for group in groups], [int(lengths[group].max()) for group in groups]


def _single(latent: Latent) -> Latent:
    return Latent(latent.mu.float(), latent.logvar.float())
