"""`motionkit pretrain tmr`: the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.encoders.tmr import (
    TMR,
    ActorSizes,
    Latent,
    new_tmr,
    open_text_model,
    save_tmr,
    sentence_embeddings,
)
from motionkit.rewards.tmr.opening import text_table
from motionkit.runs import Run
from motionkit.text import TextFeatures, proof
from motionkit.trainers._device import autocast
from motionkit.trainers._world import joined
from motionkit.trainers.pretrain._pair_trainer import PairTrainer
from motionkit.trainers.pretrain._pairs import PairBatch
from motionkit.trainers.pretrain.tmr._data import text_scale
from motionkit.trainers.pretrain.tmr._evaluate import retrieval_metrics
from motionkit.trainers.pretrain.tmr._loss import contrastive, kl_latents, reconstruction
from motionkit.trainers.pretrain.tmr._settings import PretrainTMRSettings

FOLDER = "tmr"
_GROUPS = 4


class PretrainTMR(PairTrainer[PretrainTMRSettings]):
    """Trains a TMR from scratch; see `motionkit.trainers.base.Trainer`.

    Losses of TMR with filtered negatives, AdamW with warm-up and cosine decay, one random caption per motion, random
    crops. TMR's own statistics are computed from the training clips. The model becomes ``RUN/tmr``.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
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
    renamed: ClassVar[Mapping[str, str]] = {"kl": "kl_latent"}

    @property
    def model(self) -> TMR:
        """What is trained."""
        return self.tmr

    def prepare(self) -> None:
        """Open dataset and text encoder and build the networks.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings = self.settings
        dataset, mean, std = self.open_clips()
        name = settings.text.encoder
        if name == "auto":
            name = "stored" if dataset.name == "starter" else "minilm"
        text_model = open_text_model(settings.text.model or name, kind=name, table=text_table(), device=self.device)
        if found := proof(text_model.fingerprint):
            self.inputs["text.model"] = found
        model = settings.model
        sizes = ActorSizes(
            len(mean) * model.patch_size,
            model.latent_dim,
            model.ff_size,
            model.layers,
            model.num_heads,
            model.variational,
            model.dropout,
        )
        self.tmr: TMR = new_tmr(
            sizes,
            mean,
            std,
            text_model,
            decoder=settings.loss.recons > 0,
            text_scale=text_scale(text_model, self.train_clips),
            seed=settings.seed,
        ).to(self.device)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        assert self.tmr.text_model is not None
        return {"model": "tmr", "text_encoder": self.tmr.text_model.name, **self.plan()}

    def save(self, run: Run, provenance: Mapping[str, object]) -> None:
        """Write ``RUN/tmr``."""
        save_tmr(run.artifact(FOLDER), self.tmr, half=self.settings.train.save_half, extra=provenance)

    def validate(self) -> dict[str, float]:
        """Measure retrieval on the held-out clips."""
        return retrieval_metrics(self.tmr.eval(), self.val_clips, short=self.settings.train.short)

    def losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `LossSettings`."""
        tmr, loss, device = self.tmr, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = torch.arange(raw.shape[1], device=device) < lengths[:, None]
        target = torch.where(mask[..., None], tmr.normalize(raw), raw.new_zeros(()))
        seen = target
        if self.settings.train.noise:
            seen = self.noisy(target, batch.generator)
        elements, count = target.numel(), len(target)
        own, size = self.share, self.world.size
        seen, target, mask = seen[own], target[own], mask[own]
        texts = self._encode_captions(batch.captions[own])
        # Clips of similar length are encoded together: the same numbers for half the padding.
        groups = [group.to(device) for group in torch.argsort(batch.lengths[own], stable=True).chunk(_GROUPS)]
        sizes = [int(batch.lengths[own][group.cpu()].max()) for group in groups]
        with autocast(device, self.settings.precision):
            encoded = [tmr.encode_normalized(seen[g, :t], mask[g, :t]) for g, t in zip(groups, sizes, strict=True)]
            text = _single(tmr.encode_tokens(texts))
        back = torch.argsort(torch.cat(groups))
        motion = _single(Latent(*(torch.cat(rows)[back] for rows in zip(*encoded, strict=True))))
        motion_z, text_z = (self._sample(latent, count, batch.generator) for latent in (motion, text))
        sentences = self.world.gather(sentence_embeddings(texts))
        all_texts, all_motions = joined(text_z, self.world), joined(motion_z, self.world)
        found = contrastive(
            all_texts, all_motions, temperature=loss.temperature, sentences=sentences, threshold=loss.threshold
        )
        parts = {
            "contrastive": found / size,
            "latent": torch.nn.functional.smooth_l1_loss(all_texts, all_motions) / size,
        }
        if self.settings.model.variational:
            parts["kl"] = kl_latents(text, motion) / size
        if tmr.motion_decoder is not None:
            recons = []
            for g, t in zip(groups, sizes, strict=True):
                with autocast(device, self.settings.precision):
                    decoded = tmr.decode(text_z[g], mask[g, :t]), tmr.decode(motion_z[g], mask[g, :t])
                recons.append(reconstruction(decoded[0].float(), decoded[1].float(), target[g, :t], elements=elements))
            parts["recons"] = torch.stack(recons).sum()
        return parts

    def _sample(self, latent: Latent, count: int, generator: torch.Generator) -> Tensor:
        """Sample this process's latents ``[b, D]``; the noise is drawn for all `count` rows of the batch."""
        if not self.settings.model.variational:
            return latent.mu
        noise = torch.randn((count, latent.mu.shape[1]), generator=generator)[self.share].to(latent.mu.device)
        return latent.mu + noise * torch.exp(latent.logvar / 2)

    def _encode_captions(self, captions: Sequence[str]) -> TextFeatures:
        assert self.tmr.text_model is not None
        return self.tmr.text_model.encode(captions).to(self.device)


def _single(latent: Latent) -> Latent:
    return Latent(latent.mu.float(), latent.logvar.float())
