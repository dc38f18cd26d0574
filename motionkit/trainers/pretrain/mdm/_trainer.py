"""`motionkit pretrain mdm`: the trainer."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor

from motionkit.config import Chosen
from motionkit.datasets.base import TextClip, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.evaluation._judge import open_judge
from motionkit.evaluation._quality import Quality, measure_quality
from motionkit.evaluation._real import RealMotions
from motionkit.evaluation._trained_on import trained_on
from motionkit.policies.base import DiffusionPolicy, guidance_of
from motionkit.policies.generating import plan_steps
from motionkit.policies.mdm import MDMOptions
from motionkit.policies.mdm._factory import new_policy, open_encoder, open_policy
from motionkit.policies.mdm._policy import MDMPolicy
from motionkit.policies.sampling import refuse_blocks
from motionkit.rewards.base import Reward
from motionkit.runs import Run, fingerprint_tensors
from motionkit.text import Prompt, TextRecord, proof
from motionkit.tracking import result_table, results
from motionkit.trainers._device import autocast, describe_device, set_up
from motionkit.trainers._learner import Learner, cosine_rate
from motionkit.trainers._loop import run_steps
from motionkit.trainers._matmul import settle_matmul
from motionkit.trainers._state import Kept, restore
from motionkit.trainers._world import OneProcess, World, share_of, sum_over
from motionkit.trainers.base import LOSS, Figure, inputs_of
from motionkit.trainers.pretrain._clips import clip_inputs, held_out_clips, trained_on_clips, usable_clips
from motionkit.trainers.pretrain.mdm._batches import MdmBatch, MdmBatches
from motionkit.trainers.pretrain.mdm._loss import diffusion_loss, joint_velocity_loss, velocity_loss
from motionkit.trainers.pretrain.mdm._settings import PretrainMDMSettings

_logger = logging.getLogger("motionkit.pretrain")
_MAY_DIFFER = ("dropout", "cond_mask_prob", "noise_shift")
"""Settings in which a policy may differ from the one it starts from: no tensor depends on them."""

_SAMPLING_STEPS = 20
"""Steps in which a policy is sampled where nothing is said."""


class PretrainMDM:
    """Trains an MDM from scratch; see `motionkit.trainers.base.Trainer`.

    x0 loss at uniform timesteps over valid frames, AdamW with warm-up and cosine decay, dropped text for
    classifier-free guidance, averaged weights. The averaged weights become ``RUN/policy``.

    Args:
        settings: All settings.
    """

    shape_keys: ClassVar[tuple[str, ...]] = (
        "init",
        "dataset",
        "model",
        "text",
        "train",
        "optim",
        "seed",
        "run.num_steps",
    )

    figures: ClassVar[tuple[Figure, ...]] = (LOSS, Figure("val", ("val/loss/diffusion",)))

    def __init__(self, settings: PretrainMDMSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()

    def prepare(self) -> None:
        """Open dataset and text encoder and build the network.

        Raises:
            MotionkitError: An input is missing or unusable.
        """
        settings = self.settings
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        self._random_crop = dataset.random_crop
        self._train_clips = usable_clips(dataset, "train", settings.dataset.label, least=1)
        size = min(settings.train.batch_size, len(self._train_clips))
        self._share = share_of(size, self.world, what="clips", flag="--batch-size")
        self._items = trained_on_clips(dataset, self._train_clips)
        if settings.init:
            self._items |= trained_on(settings.init)
        found, self._note = held_out_clips(dataset, settings.dataset.label, self._items, least=1)
        self._val_clips = found[: settings.train.val_clips]
        self.inputs = clip_inputs(settings.dataset, dataset, self._train_clips, self._val_clips)
        self._judge, self._real = None, RealMotions(dataset, "val")
        if settings.train.samples:
            self._judge, why = open_judge(settings.judge, dataset, device=self.device)
            if self._judge is None:
                _logger.info("FID will not be measured, because it needs a judge: %s", why)
            elif settings.judge is not None:
                _require_space(settings.judge, self._judge)
            self.inputs |= inputs_of({"judge": self._judge}, {"judge": settings.judge} if settings.judge else None)
        name = settings.text.encoder
        if name == "auto":
            name = "stored" if dataset.name == "starter" else "minilm"
        encoder = open_encoder(name, settings.text.model, device=self.device)
        shape = settings.model.network(settings.train.cond_drop)
        if name == "distilbert" and (shape.arch == "trans_enc" or shape.clause_frames):
            raise MotionkitError(
                "DistilBERT gives one token per word, which only the plain decoder reads.",
                fix="--model.arch trans_dec --set model.clause_frames=false, or another --text.encoder.",
            )
        if mark := proof(encoder.fingerprint):
            self.inputs["text.model"] = mark
        self.policy = new_policy(shape, dataset=dataset, encoder=encoder, seed=settings.seed, device=self.device)
        _scale_text(self.policy, self._train_clips)
        steps = settings.train.sampling_steps
        steps = _SAMPLING_STEPS if steps is None else steps
        if 0 < steps < len(self.policy.schedule):
            self.policy.sampling_steps = steps
        if settings.init:
            self._start_from(settings.init, dataset)
        self._weight = self.policy.schedule.snr.clamp(1.0, settings.train.max_weight)
        asked = [_first_prompt(clip, self.policy.max_length) for clip in self._train_clips[:8]]
        settle_matmul(settings, cast(DiffusionPolicy, self.policy), asked, samples=settings.train.batch_size)

    def _start_from(self, checkpoint: str, dataset: TextMotionDataset) -> None:
        options = MDMOptions(checkpoint=checkpoint, text_model=self.settings.text.model)
        given = open_policy(options, device=self.device, dataset=dataset)
        refuse_blocks(cast(DiffusionPolicy, given))
        self.inputs["init"] = fingerprint_tensors(given.tensors())
        mine, theirs = self.policy.settings.model_dump(), given.settings.model_dump()
        if odd := [key for key in mine if mine[key] != theirs[key] and key not in _MAY_DIFFER]:
            raise MotionkitError(
                f"{checkpoint} is another model: its {odd[0]} is {theirs[odd[0]]}, not {mine[odd[0]]}.",
                fix=f"--set model.{odd[0]}={theirs[odd[0]]}, or start from another policy.",
            )
        TextRecord.of(given.encoder).require(self.policy.encoder, origin=checkpoint, option="--text.model")
        # Weights only mean something together with the statistics they were trained with.
        self.policy.normalizer = given.normalizer
        self.policy.network.load_state_dict(given.network.state_dict())

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {
            "policy": "mdm",
            "parameters": sum(parameter.numel() for parameter in self.policy.network.parameters()),
            "train_clips": len(self._train_clips),
            "val_clips": len(self._val_clips),
            "text_encoder": self.policy.encoder.name,
            "epochs": round(self.settings.run.num_steps / self._batches().per_epoch, 1),
            "device": describe_device(self.device),
            **({"notes": [self._note]} if self._note else {}),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.trainers.base.Trainer.train`."""
        settings, optim = self.settings, self.settings.optim
        if self._note:
            _logger.warning("%s", self._note)
        batches, held_out = self._batches(), self._held_out()
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, settings.train.final_rate)
        learner = Learner(self.policy, optim, rate, ema=settings.train.ema, world=self.world)
        start = Kept()
        parts = {**learner.parts(), "before": start}
        if (checkpoint := run.checkpoint()) is not None:
            restore(parts, checkpoint)
        else:
            _logger.info("measuring the loss on %d held-out clips before training", len(self._val_clips))
            start.values = {"loss": self._validate(held_out)}
        if self.world.main:
            self.policy.save(run.artifact("policy"), tensors=False)
            self._items.write(run.artifact("policy"))
        last = float("nan")

        def step_fn(step: int) -> Mapping[str, float]:
            nonlocal last
            metrics = self._step(batches(step).rows(self._share), learner, step)
            every = settings.train.val_every
            if step == settings.run.num_steps or (every and step % every == 0):
                with learner.averaged():
                    last = metrics["val/loss/diffusion"] = self._validate(held_out)
            return metrics

        if not run_steps(run, settings, step_fn, parts, world=self.world):
            return {}
        with learner.averaged():
            if math.isnan(last):  # resumed after the last step
                last = self._validate(held_out)
            if self.world.main:
                self.policy.save(run.artifact("policy"))
            quality = self._sample(run)
        before = float(start.values["loss"])
        heldout = {"loss": {"before": before, "after": last, "delta": last - before, "n": len(self._val_clips)}}
        tables = [result_table(results(heldout), f"Diffusion loss on {len(self._val_clips)} held-out clips")]
        metrics = {"val/loss/diffusion": last}
        if quality is not None:
            metrics |= {"heldout/fid": quality.fid, "heldout/judge/mean": quality.score}
            rows = [
                ("FID in the judge's space", f"{quality.fid:.2f}", "0"),
                ("judge", f"{quality.score:.3f}", f"{quality.real:.3f}"),
                *((name, f"{made:.3f}", f"{real:.3f}") for name, (made, real) in quality.moving.items()),
            ]
            metrics |= {f"heldout/{name}": made for name, (made, _) in quality.moving.items()}
            title = f"{quality.count} held-out captions, sampled as motionkit generate does"
            tables.append({"title": title, "columns": ["", "generated", "real clips"], "rows": rows, "numbers": [1, 2]})
        return {"heldout": heldout, "metrics": metrics, "table": tables}

    def _sample(self, run: Run) -> Quality | None:
        """Compare samples with real clips, and keep some for the page; None without a judge."""
        clips = self._val_clips[: self.settings.train.samples]
        judge = self._judge
        tmr = getattr(judge, "space", None)
        if judge is None or tmr is None or len(clips) < 2:
            return None
        _logger.info("sampling %d held-out captions, to compare them with real clips", len(clips))
        self.policy.network.eval()
        policy = cast(DiffusionPolicy, self.policy)
        plan, guidance = plan_steps(policy), guidance_of(policy)
        quality = measure_quality(policy, clips, judge, tmr, plan=plan, guidance=guidance, actions=self._real.actions)
        quality.shown.keep(run, "after")
        return quality

    def _batches(self) -> MdmBatches:
        settings = self.settings
        return MdmBatches(
            self._train_clips,
            self.policy.normalizer.to("cpu"),
            batch_size=settings.train.batch_size,
            steps=settings.model.diffusion_steps,
            max_length=self.policy.max_length,
            seed=settings.seed,
            random_crop=self._random_crop,
            cond_drop=settings.train.cond_drop,
            early=settings.train.early,
            clutter=settings.train.clutter if settings.model.clause_frames else 0.0,
            grid=settings.model.patch_size,
        )

    def _held_out(self) -> list[MdmBatch]:
        return MdmBatches(
            self._val_clips,
            self.policy.normalizer.to("cpu"),
            batch_size=self.settings.train.batch_size,
            steps=self.settings.model.diffusion_steps,
            max_length=self.policy.max_length,
            seed=0,
        ).fixed()

    def _step(self, batch: MdmBatch, learner: Learner, step: int) -> dict[str, float]:
        learner.zero_grad()
        self.policy.network.train()
        # Of a batch that processes share, each adds its part of the mean.
        losses = self._losses(batch)
        parts = {name: values.mean() / self.world.size for name, values in losses.items()}
        train = self.settings.train
        sums = losses["diffusion"] + train.velocity * losses["velocity"]
        if train.joint_velocity:
            sums = sums + train.joint_velocity * losses["joint_velocity"]
        loss = (self._weight[batch.timestep].to(sums) * sums).mean() / self.world.size
        loss.backward()
        moved = learner.descend(step - 1)
        self.policy.network.eval()
        named = {"total": loss} | parts
        return sum_over({f"loss/{name}": float(value.detach()) for name, value in named.items()}, self.world) | moved

    @torch.no_grad()
    def _validate(self, batches: Sequence[MdmBatch]) -> float:
        losses = torch.cat([self._losses(batch)["diffusion"] for batch in batches])
        return float(losses.mean())

    def _losses(self, batch: MdmBatch) -> dict[str, Tensor]:
        """Return the unweighted losses of each sample, ``[B]``."""
        policy, device = self.policy, self.device
        x0, own, lengths = batch.x0.to(device), batch.own.to(device), batch.lengths.to(device)
        timestep, noise = batch.timestep.to(device), batch.noise.to(device)
        mask = torch.arange(x0.shape[1], device=device) < lengths[:, None]
        condition = policy.condition(batch.prompts)
        with autocast(device, self.settings.precision):
            predicted = policy.network(
                policy.schedule.noised(x0, timestep, noise),
                timestep,
                condition.text,
                condition.mask,
                windows=condition.windows,
                frame_mask=mask,
                drop=batch.drop.to(device),
            )
        losses = {"diffusion": diffusion_loss(predicted, x0, own), "velocity": velocity_loss(predicted, x0, own)}
        if self.settings.train.joint_velocity:
            losses["joint_velocity"] = joint_velocity_loss(
                predicted, x0, own, normalizer=policy.normalizer, skeleton=policy.skeleton, fps=policy.fps
            )
        return losses


def _require_space(chosen: Chosen, judge: Reward) -> None:
    """Refuse a judge that puts motions into no space in which FID could be measured.

    Raises:
        MotionkitError: It does not.
    """
    if getattr(judge, "space", None) is None:
        raise MotionkitError(
            f"--judge {chosen.name} has no space of motions, in which FID is measured.",
            fix="--judge tmr-dense --judge.weights DIR",
        )


def _first_prompt(clip: TextClip, frames: int = 1) -> Prompt:
    return Prompt((clip.captions[0],), (min(frames, len(clip.features)),))


@torch.no_grad()
def _scale_text(policy: MDMPolicy, clips: Sequence[TextClip]) -> None:
    """Divide the text projection by the size of the features it will read; also opens the text model in earnest.

    Unit-norm sentence vectors have values near 0.05: the default initialisation would bury them under the time
    embedding, and the text would be learnt long after everything else.
    """
    prompts = [_first_prompt(clip) for clip in clips[:: max(1, len(clips) // 256)]]
    condition = policy.condition(prompts)
    size = float(condition.text[condition.mask].square().mean().sqrt())
    policy.network.embed_text.weight.div_(max(size, 1e-6))
