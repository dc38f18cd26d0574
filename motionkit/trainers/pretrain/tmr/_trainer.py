"""`motionkit pretrain tmr`: the trainer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from motionkit.datasets.base import TextMotionDataset
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
from motionkit.rl import stable_hash
from motionkit.runs import Run
from motionkit.text import TextFeatures, proof
from motionkit.tracking import retrieval_table
from motionkit.trainers._device import autocast, describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._state import Kept, restore
from motionkit.trainers.pretrain._clips import usable_clips
from motionkit.trainers.pretrain._pairs import PairBatch, PairBatches
from motionkit.trainers.pretrain._statistics import WithStatistics, statistics
from motionkit.trainers.pretrain.tmr._data import text_scale
from motionkit.trainers.pretrain.tmr._evaluate import retrieval_metrics
from motionkit.trainers.pretrain.tmr._loss import contrastive, kl_latents, reconstruction
from motionkit.trainers.pretrain.tmr._settings import PretrainTMRSettings

_logger = logging.getLogger("motionkit.pretrain")
FOLDER = "tmr"
_GROUPS = 4
_HEADLINE = "retrieval/t2m/r3_32"


class PretrainTMR:
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

    def __init__(self, settings: PretrainTMRSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open dataset and text encoder and build the networks.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings, train = self.settings, self.settings.train
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        label = settings.dataset.label
        clips = usable_clips(dataset, "train", label, least=4)
        self._train_clips = {"all": clips, "first": clips[0::2], "second": clips[1::2]}[train.half]
        held_out = sorted(usable_clips(dataset, "val", label, least=2), key=lambda clip: stable_hash(clip.key))
        self._val_clips = sorted(held_out[: train.val_clips], key=lambda clip: clip.key)
        self._max_length, self._random_crop = dataset.max_length, dataset.random_crop
        mean, std = statistics(self._train_clips, floor=dataset.normalizer.std.cpu() * train.std_floor)
        name = settings.text.encoder
        if name == "auto":
            name = "stored" if dataset.name == "starter" else "minilm"
        text_model = open_text_model(settings.text.model or name, kind=name, table=text_table(), device=self.device)
        self.inputs = {"text.model": found} if (found := proof(text_model.fingerprint)) else {}
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
            text_scale=text_scale(text_model, self._train_clips),
            seed=settings.seed,
        ).to(self.device)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        assert self.tmr.text_model is not None
        return {
            "model": "tmr",
            "parameters": sum(parameter.numel() for parameter in self.tmr.parameters()),
            "train_clips": len(self._train_clips),
            "val_clips": len(self._val_clips),
            "text_encoder": self.tmr.text_model.name,
            "epochs": round(self.settings.run.num_steps / self._batches().per_epoch, 1),
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings, optim = self.settings, self.settings.optim
        batches = self._batches()
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, settings.train.final_rate)
        learner = Learner(WithStatistics(self.tmr), optim, rate)
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
        save_tmr(run.artifact(FOLDER), self.tmr, half=settings.train.save_half, extra=self._provenance(after))
        table = retrieval_table(after, f"Retrieval on {len(self._val_clips)} held-out clips, % (median rank: of clips)")
        return {"heldout": self._heldout(start.values, after), "metrics": after, "table": table}

    def _heldout(self, before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, object]:
        name = _HEADLINE if _HEADLINE in after else "retrieval/t2m/r3"
        old, new = before[name], after[name]
        return {name: {"before": old, "after": new, "delta": new - old, "n": len(self._val_clips)}}

    def _provenance(self, metrics: Mapping[str, float]) -> dict[str, object]:
        settings = self.settings.model_dump(mode="json", include={"dataset", "model", "loss", "train", "seed"})
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
        )

    def _validate(self) -> dict[str, float]:
        return retrieval_metrics(self.tmr.eval(), self._val_clips, short=self.settings.train.short)

    def _step(self, batch: PairBatch, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        self.tmr.train()
        parts = self._losses(batch)
        weights = self.settings.loss
        total = torch.stack([value * float(getattr(weights, name)) for name, value in parts.items()]).sum()
        total.backward()
        moved = learner.descend(step - 1)
        named = {"kl_latent" if name == "kl" else name: float(value.detach()) for name, value in parts.items()}
        return {"loss/total": float(total.detach())} | moved | {f"loss/{name}": value for name, value in named.items()}

    def _losses(self, batch: PairBatch) -> dict[str, Tensor]:
        """Return the unweighted parts by the names of `LossSettings`."""
        tmr, loss, device = self.tmr, self.settings.loss, self.device
        raw, lengths = batch.features.to(device), batch.lengths.to(device)
        mask = torch.arange(raw.shape[1], device=device) < lengths[:, None]
        target = torch.where(mask[..., None], tmr.normalize(raw), raw.new_zeros(()))
        seen = target
        if self.settings.train.noise:
            seen = target + self.settings.train.noise * _normal(target, batch.generator)
        texts = self._encode_captions(batch.captions)
        # Clips of similar length are encoded together: the same numbers for half the padding.
        groups = [group.to(device) for group in torch.argsort(batch.lengths, stable=True).chunk(_GROUPS)]
        sizes = [int(batch.lengths[group.cpu()].max()) for group in groups]
        with autocast(device, self.settings.precision):
            encoded = [tmr.encode_normalized(seen[g, :t], mask[g, :t]) for g, t in zip(groups, sizes, strict=True)]
            text = _single(tmr.encode_tokens(texts))
        back = torch.argsort(torch.cat(groups))
        motion = _single(Latent(*(torch.cat(rows)[back] for rows in zip(*encoded, strict=True))))
        motion_z, text_z = (self._sample(latent, batch.generator) for latent in (motion, text))
        sentences = sentence_embeddings(texts)
        parts = {
            "contrastive": contrastive(
                text_z, motion_z, temperature=loss.temperature, sentences=sentences, threshold=loss.threshold
            ),
            "latent": torch.nn.functional.smooth_l1_loss(text_z, motion_z),
        }
        if self.settings.model.variational:
            parts["kl"] = kl_latents(text, motion)
        if tmr.motion_decoder is not None:
            recons = []
            for g, t in zip(groups, sizes, strict=True):
                with autocast(device, self.settings.precision):
                    decoded = tmr.decode(text_z[g], mask[g, :t]), tmr.decode(motion_z[g], mask[g, :t])
                recons.append(
                    reconstruction(decoded[0].float(), decoded[1].float(), target[g, :t], elements=target.numel())
                )
            parts["recons"] = torch.stack(recons).sum()
        return parts

    def _sample(self, latent: Latent, generator: torch.Generator) -> Tensor:
        if not self.settings.model.variational:
            return latent.mu
        return latent.mu + _normal(latent.mu, generator) * torch.exp(latent.logvar / 2)

    def _encode_captions(self, captions: Sequence[str]) -> TextFeatures:
        assert self.tmr.text_model is not None
        return self.tmr.text_model.encode(captions).to(self.device)


def _single(latent: Latent) -> Latent:
    return Latent(latent.mu.float(), latent.logvar.float())


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator).to(like.device)
