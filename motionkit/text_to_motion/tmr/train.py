"""`motionkit pretrain tmr`: losses and trainer.

The losses are those of Petrovich et al., "TMR: Text-to-Motion Retrieval" (ICCV 2023), section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from motionkit.contracts.dataset import TextClip
from motionkit.errors import MotionkitError
from motionkit.rl import length_mask
from motionkit.runs import Run
from motionkit.text import CachedEncoder, StoredEncoder, TextEncoder, TextFeatures, proof
from motionkit.text_to_motion.init import differing, for_training
from motionkit.text_to_motion.pairs.data import PairBatch
from motionkit.text_to_motion.pairs.negatives import ChangedCaptions, ChangedMotions
from motionkit.text_to_motion.pairs.train import (
    CopyScores,
    PairTrainer,
    above_copies,
    info_nce,
    retrieval_figures,
    short_crops,
)
from motionkit.text_to_motion.tmr.files import open_tmr, save_tmr, text_table
from motionkit.text_to_motion.tmr.model import (
    TMR,
    ActorSizes,
    Latent,
    encode_captions,
    encode_clips,
    new_tmr,
    open_text_model,
    sentence_embeddings,
)
from motionkit.text_to_motion.tmr.settings import PretrainTMRSettings
from motionkit.training.device import autocast
from motionkit.training.world import joined

FOLDER = "tmr"
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


def text_scale(text_model: TextEncoder, clips: Sequence[TextClip]) -> float:
    """Root mean square of the features of up to 256 first captions; also loads the text model."""
    stride = max(1, len(clips) // 256)
    features = text_model.encode([clip.captions[0] for clip in clips[::stride]])
    return max(float(features.tokens[features.mask].square().mean().sqrt()), 1e-6)


def readable(text_model: TextEncoder, texts: Sequence[str]) -> frozenset[str]:
    """Return those of `texts` that a text model can encode: a table of stored embeddings lacks others."""

    def encodes(some: Sequence[str]) -> bool:
        try:
            text_model.encode(some)
        except MotionkitError:
            return False
        return True

    table = text_model.encoder if isinstance(text_model, CachedEncoder) else text_model
    if isinstance(table, StoredEncoder):
        known = frozenset(text for text in texts if text in table)
        if len(known) < len(set(texts)) and table.alone:  # faster than errors, which look for the nearest spelling
            return known
    if not texts or encodes(texts):
        return frozenset(texts)
    return frozenset(text for text in texts if encodes([text]))


@torch.no_grad()
def retrieval_metrics(tmr: TMR, clips: Sequence[TextClip], *, short: int) -> dict[str, float]:
    """Return `retrieval_figures` by latent means, of each clip with its first caption.

    The order of the clips matters for the batches of 32; `short` is the length of the short crops in frames.
    """
    texts, sentences = encode_captions(tmr, [clip.captions[0] for clip in clips])
    motions = [clip.features for clip in clips]
    similarities = texts @ encode_clips(tmr, motions).T
    cut = texts @ encode_clips(tmr, motions, short_crops(clips, short)).T
    return retrieval_figures(similarities, cut, sentences=sentences)


class PretrainTMR(PairTrainer[PretrainTMRSettings]):
    """Trains a TMR, from scratch or from another one; see `motionkit.training.base.Trainer`.

    Losses of TMR with filtered negatives, AdamW with warm-up and cosine decay, one random caption per motion, random
    crops. TMR's statistics are computed from the training clips. The model becomes ``RUN/tmr``.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "init",
        "dataset",
        "model",
        "text",
        "loss",
        "train",
        "optim",
        "seed",
        "run.num_steps",
    )

    stream, folder = "tmr", FOLDER
    typed: Collection[str] = ()
    renamed: ClassVar[Mapping[str, str]] = {"kl": "kl_latent"}

    @property
    def model(self) -> TMR:
        """The trained model."""
        return self.tmr

    def prepare(self) -> None:
        """Open dataset and text encoder and build the networks."""
        settings = self.settings
        dataset, mean, std = self.open_clips(settings.init)
        self.tmr: TMR = self._new(dataset.name, mean, std) if not settings.init else self._given(settings.init)
        assert self.tmr.text_model is not None
        if mark := proof(self.tmr.text_model.fingerprint):
            self.inputs["text.model"] = mark
        self.variational = self.tmr.motion_encoder.sizes.variational
        self.open_negatives(dataset, self._readable)

    def _new(self, dataset: str, mean: Tensor, std: Tensor) -> TMR:
        """Build a TMR with random weights."""
        settings, model = self.settings, self.settings.model
        name = settings.text.encoder
        if name == "auto":
            name = "stored" if dataset == "starter" else "minilm"
        text_model = open_text_model(settings.text.model or name, kind=name, table=text_table(), device=self.device)
        sizes = ActorSizes(
            len(mean) * model.patch_size,
            model.latent_dim,
            model.ff_size,
            model.layers,
            model.num_heads,
            model.variational,
            model.dropout,
        )
        return new_tmr(
            sizes,
            mean,
            std,
            text_model,
            decoder=settings.loss.recons > 0,
            text_scale=text_scale(text_model, self.train_clips),
            seed=settings.seed,
        ).to(self.device)

    def _given(self, init: str) -> TMR:
        """Open the TMR from which training starts, with its shape, text model and statistics."""
        settings = self.settings
        text = settings.text.model or settings.text.encoder
        try:
            tmr = open_tmr(init, text_model="" if text == "auto" else text, device=self.device)
            tmr.check_width(self.train_clips[0].features)
        except MotionkitError as error:
            raise for_training(error) from error
        self.inputs["init"] = tmr.fingerprint()
        sizes = tmr.motion_encoder.sizes
        theirs = {
            "latent_dim": sizes.latent,
            "layers": sizes.layers,
            "patch_size": tmr.patch,
            "num_heads": sizes.heads,
            "ff_size": sizes.feedforward,
            "dropout": sizes.dropout,
            "variational": sizes.variational,
        }
        if odd := differing(settings.model, theirs, self.typed):
            name, value = odd
            raise MotionkitError(
                f"--init {init}: the {name} of this TMR is {value}, not {getattr(settings.model, name)}.",
                why="training keeps its shape.",
                fix=f"leave model.{name} out, or train from random weights.",
            )
        if settings.loss.recons and tmr.motion_decoder is None:
            raise MotionkitError(
                f"--init {init}: this TMR has no decoder, which loss.recons needs.", fix="--set loss.recons=0"
            )
        if not settings.loss.recons:
            tmr.motion_decoder = None  # it would not be trained with the encoders
        return tmr

    def _readable(self, texts: Sequence[str]) -> Set[str]:
        assert self.tmr.text_model is not None
        return readable(self.tmr.text_model, texts)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        assert self.tmr.text_model is not None
        return {"model": "tmr", "text_encoder": self.tmr.text_model.name, **self.plan()}

    def save(self, run: Run, provenance: Mapping[str, object], *, tensors: bool = True) -> None:
        """Write ``RUN/tmr``."""
        half = self.settings.train.save_half
        save_tmr(run.artifact(FOLDER), self.tmr, half=half, extra=provenance, weights=tensors)

    def validate(self) -> dict[str, float]:
        """Measure retrieval on the held-out clips."""
        return retrieval_metrics(self.tmr.eval(), self.val_clips, short=self.settings.train.short)

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `LossSettings`."""
        tmr, loss, device = self.tmr, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        # [B, T, F], padding exactly 0 like the decoder's.
        target = torch.where(mask[..., None], tmr.normalize(raw), 0.0)
        # The encoder reads noise, the decoder is compared with the clean motion.
        seen = self.noisy(target, batch.generator) if self.settings.train.noise else target
        elements, count = target.numel(), len(target)
        share, size = self.share, self.world.size
        # This process encodes its share; the contrastive loss compares the rows of all processes.
        seen, target, mask = seen[share], target[share], mask[share]
        texts = self._encode_captions(batch.captions[share])
        groups, sizes = _groups(batch.lengths[share], device)
        motion = self._encode_motions(seen, mask, groups, sizes)
        with autocast(device, self.settings.precision):
            text = _single(tmr.encode_tokens(texts))
        motion_z, text_z = (self._sample(latent, count, batch.generator) for latent in (motion, text))
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
                with autocast(device, self.settings.precision):
                    decoded = tmr.decode(text_z[g], mask[g, :t]), tmr.decode(motion_z[g], mask[g, :t])
                recons.append(reconstruction(decoded[0].float(), decoded[1].float(), target[g, :t], elements=elements))
            parts["recons"] = torch.stack(recons).sum()
        return parts

    def _encode_motions(self, x: Tensor, mask: Tensor, groups: Sequence[Tensor], sizes: Sequence[int]) -> Latent:
        """Encode normalised motions ``[b, T, F]`` group by group (`_groups`)."""
        with autocast(self.device, self.settings.precision):
            encoded = [self.tmr.encode_normalized(x[g, :t], mask[g, :t]) for g, t in zip(groups, sizes, strict=True)]
        # Groups are sorted by length: the inverse permutation restores the batch's order.
        back = torch.argsort(torch.cat(list(groups)))
        return _single(Latent(*(torch.cat(rows)[back] for rows in zip(*encoded, strict=True))))

    def encode_copies(self, copies: ChangedMotions) -> Tensor:
        """Encode changed motions: ``[K, D]``."""
        device = self.device
        raw, lengths = copies.features.to(device), copies.lengths.to(device)
        mask = length_mask(lengths, raw.shape[1])
        x = torch.where(mask[..., None], self.tmr.normalize(raw), 0.0)
        if self.settings.train.noise:
            x = self.noisy(x, copies.generator)
        return self._sample_all(self._encode_motions(x, mask, *_groups(copies.lengths, device)), copies.generator)

    def encode_changed(self, captions: ChangedCaptions) -> Tensor:
        """Encode changed captions: ``[K, D]``."""
        texts = self._encode_captions(captions.captions)
        with autocast(self.device, self.settings.precision):
            text = _single(self.tmr.encode_tokens(texts))
        return self._sample_all(text, captions.generator)

    def score(self, texts: Tensor, motions: Tensor) -> Tensor:
        """Return the scores of pairs, ``[B]``."""
        return scores(texts, motions, temperature=self.settings.loss.temperature)

    def _sample_all(self, latent: Latent, generator: torch.Generator) -> Tensor:
        """Sample latents of changed copies, which only this process has."""
        if not self.variational:
            return latent.mu
        noise = torch.randn(latent.mu.shape, generator=generator).to(latent.mu.device)
        return latent.mu + noise * torch.exp(latent.logvar / 2)

    def _sample(self, latent: Latent, count: int, generator: torch.Generator) -> Tensor:
        """Sample this process's latents ``[b, D]``; the noise is drawn for all `count` rows of the batch."""
        if not self.variational:
            return latent.mu
        noise = torch.randn((count, latent.mu.shape[1]), generator=generator)[self.share].to(latent.mu.device)
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
