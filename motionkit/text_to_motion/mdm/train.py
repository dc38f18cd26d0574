"""`motionkit pretrain mdm`: batches, losses and trainer."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.config import Chosen
from motionkit.contracts.dataset import TextClip, TextMotionDataset
from motionkit.contracts.open_model import trained_on
from motionkit.contracts.reward import Reward
from motionkit.errors import MotionkitError
from motionkit.motion import Normalizer, Skeleton, mirror_features
from motionkit.page.wording import count
from motionkit.rl import draw_timesteps, length_mask, stable_hash
from motionkit.runs import Run, fingerprint_tensors
from motionkit.text import Prompt, mirror_text, proof, reads_sides
from motionkit.text_to_motion.evaluation.judge import open_judge
from motionkit.text_to_motion.evaluation.points import drop_points, is_point, keep_point, sample_point
from motionkit.text_to_motion.evaluation.quality import Quality, measure_quality
from motionkit.text_to_motion.evaluation.real_motions import RealMotions
from motionkit.text_to_motion.evaluation.same_data import Named, SameData, find_evaluator, training_command
from motionkit.text_to_motion.evaluation.settings import EvaluatorSettings
from motionkit.text_to_motion.findings import is_noise, noise_sentence
from motionkit.text_to_motion.generating import plan_steps
from motionkit.text_to_motion.matmul import settle_matmul
from motionkit.text_to_motion.mdm.losses import clip_losses, weighted_loss
from motionkit.text_to_motion.mdm.open import new_policy, open_encoder
from motionkit.text_to_motion.mdm.policy import MDMPolicy
from motionkit.text_to_motion.mdm.settings import PretrainMDMSettings
from motionkit.text_to_motion.mdm.start import encoder_of, open_start, shape_of
from motionkit.text_to_motion.pairs.data import below, clip_inputs, held_out_clips, trained_on_clips, usable_clips
from motionkit.text_to_motion.policy import DiffusionPolicy, guidance_of
from motionkit.text_to_motion.rewards.joint_space import space_of
from motionkit.text_to_motion.trained import count_takes
from motionkit.tracking import Report, entry_of, table_of
from motionkit.training.base import LOSS, Figure, inputs_of
from motionkit.training.device import autocast, describe_device, set_up
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.memory import Forecast, forecast_loss
from motionkit.training.supervised import fit
from motionkit.training.world import OneProcess, World, share_of, sum_over

_NEIGHBOURS = 2
_LONGEST = 64  # frames of one neighbour; longer ones would only make batches longer
_logger = logging.getLogger("motionkit.pretrain")
_SAMPLING_STEPS = 20  # default number of sampling steps


@dataclass(frozen=True)
class MdmBatch:
    """One step's data."""

    x0: Tensor  # [B, T, D] normalised, zeros past the end
    own: Tensor  # [B, T] bool, the frames of the clip, on which the loss is taken; the others are clutter
    lengths: Tensor  # [B] int64, clutter included
    prompts: list[Prompt]  # one per row; clauses of clutter do not describe it
    timestep: Tensor  # [B] int64
    noise: Tensor  # [B, T, D] standard normal
    drop: Tensor  # [B] bool, True = without text

    def rows(self, share: slice) -> MdmBatch:
        """Return some of the rows, with the same padding."""
        values = (self.x0, self.own, self.lengths, self.prompts, self.timestep, self.noise, self.drop)
        return MdmBatch(*(value[share] for value in values))  # type: ignore[arg-type]  # one type for all


class MdmBatches:
    """Endless batches of similar lengths, a function of seed and step alone.

    Args:
        clips: The training clips.
        normalizer: The dataset's statistics.
        batch_size: Clips per batch; fewer if there are fewer clips.
        steps: Length of the noise schedule.
        max_length: Longer clips are cropped.
        seed: Seed of the run.
        random_crop: Crop at a random place, not at the first frame.
        cond_drop: Share without text.
        early: Share of timesteps drawn as ``(steps - 1) (1 - u^2)``, densest at the noisy end; the others uniformly.
        clutter: Share of batches whose clips are put among pieces of other clips with texts of yet other clips. These
            have no loss, so the network is trained on single actions only, but learns that a clause describes its
            frames alone. Whole batches, because one long row would make all rows of its batch as long.
        grid: Pieces of clutter are multiples of this many frames.
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        normalizer: Normalizer,
        *,
        batch_size: int,
        steps: int,
        max_length: int,
        seed: int,
        random_crop: bool = True,
        cond_drop: float = 0.0,
        early: float = 0.0,
        clutter: float = 0.0,
        grid: int = 1,
    ) -> None:
        self._clips = clips
        self._normalizer = normalizer
        self._size = min(batch_size, len(clips))
        self._steps, self._max, self._seed, self._random_crop = steps, max_length, seed, random_crop
        self._drop, self._early, self._clutter, self._grid = cond_drop, early, clutter, grid
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    @cached_property
    def _lengths(self) -> Tensor:
        return torch.tensor([min(clip.features.shape[0], self._max) for clip in self._clips])

    @property
    def per_epoch(self) -> int:
        """Batches in one pass over the clips; the last few clips of a pass wait for the next one."""
        return len(self._clips) // self._size

    def __call__(self, step: int) -> MdmBatch:
        """Return the batch of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        return self._make(self._epoch[1][position].tolist(), self._generator("step", step))

    def fixed(self) -> list[MdmBatch]:
        """Return all clips once, with their first captions and no text dropped: the same data every time."""
        rows = torch.split(torch.argsort(self._lengths, stable=True), self._size)
        return [self._make(row.tolist(), self._generator("fixed", i), plain=True) for i, row in enumerate(rows)]

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"{purpose}/{self._seed}/{number}") % 2**63)

    def _order(self, epoch: int) -> list[Tensor]:
        """Shuffle, then cut into batches of similar lengths (sorted within pools of 16 batches), in random order."""
        generator = self._generator("epoch", epoch)
        order = torch.randperm(len(self._clips), generator=generator)
        pools = torch.split(order, 16 * self._size)
        rows = torch.cat([pool[torch.argsort(self._lengths[pool], stable=True)] for pool in pools])
        batches = torch.split(rows[: self.per_epoch * self._size], self._size)
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def _make(self, rows: list[int], generator: torch.Generator, *, plain: bool = False) -> MdmBatch:
        texts = [self._caption(row, generator, plain=plain) for row in rows]
        clips = [self._crop(row, int(self._lengths[row]), generator) for row in rows]
        clutter = not plain and self._clutter > 0 and float(torch.rand((), generator=generator)) < self._clutter
        neighbours = _NEIGHBOURS if clutter else 0
        timelines, prompts = [], []
        for clip, text in zip(clips, texts, strict=True):
            parts = [(clip, text, True)]
            for _ in range(neighbours):
                room = self._max - sum(len(part[0]) for part in parts)
                piece = self._piece(clips[below(len(clips), generator)], room, generator)
                parts.insert(below(2, generator) * len(parts), (piece, texts[below(len(texts), generator)], False))
            parts = [part for part in parts if len(part[0])]
            timelines.append(parts)
            prompts.append(Prompt(tuple(part[1] for part in parts), tuple(len(part[0]) for part in parts)))
        # [B, T, D]: a row is its clip with the clutter around it; zeros past its end.
        x0 = pad_sequence([torch.cat([part[0] for part in parts]) for parts in timelines], batch_first=True)
        # [B, T]: True in the frames of the clip.
        in_clip = pad_sequence(
            [torch.cat([torch.full((len(part[0]),), part[2]) for part in parts]) for parts in timelines],
            batch_first=True,
        )
        lengths = torch.tensor([prompt.length for prompt in prompts])
        drop = torch.rand(len(rows), generator=generator) < (0.0 if plain else self._drop)
        noise = torch.randn(x0.shape, generator=generator)
        timestep = draw_timesteps(self._steps, len(rows), generator, self._early)
        return MdmBatch(x0, in_clip, lengths, prompts, timestep, noise, drop)

    def _caption(self, row: int, generator: torch.Generator, *, plain: bool) -> str:
        captions = self._clips[row].captions
        return captions[0 if plain else below(len(captions), generator)]

    def _crop(self, row: int, length: int, generator: torch.Generator) -> Tensor:
        features = self._clips[row].features
        start = below(len(features) - length + 1, generator) if self._random_crop else 0
        return self._normalizer.normalize(features[start : start + length])

    def _piece(self, clip: Tensor, room: int, generator: torch.Generator) -> Tensor:
        """Cut a neighbour of a random length that fits; empty a third of the time, or without room."""
        most = min(room, _LONGEST, len(clip)) // self._grid
        length = self._grid * (1 + below(most, generator)) if most > 0 and below(3, generator) else 0
        start = below(len(clip) - length + 1, generator)
        return clip[start : start + length]


class PretrainMDM:
    """Trains an MDM, from scratch or from another policy; see `motionkit.training.base.Trainer`.

    x0 loss at uniform timesteps over valid frames, AdamW with warm-up and cosine decay, dropped text for
    classifier-free guidance, averaged weights. The averaged weights become ``RUN/policy``.
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
    typed: Collection[str] = ()

    def __init__(self, settings: PretrainMDMSettings) -> None:
        self.settings = settings
        self.world: World = OneProcess()
        self._mirrored: list[TextClip] = []

    def prepare(self) -> None:
        """Open dataset and text encoder and build the network."""
        settings = self.settings
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        start = open_start(settings, dataset, self.device) if settings.init else None
        self._random_crop = dataset.random_crop
        self._train_clips = usable_clips(dataset, "train", settings.dataset.label, least=1)
        size = min(settings.train.batch_size, len(self._train_clips))
        self._share = share_of(size, self.world, what="clips", flag="--batch-size")
        self._items = trained_on_clips(dataset, self._train_clips)
        if settings.init:
            self._items |= trained_on(settings.init)
        val_clips, self._note = held_out_clips(dataset, settings.dataset.label, self._items, least=1)
        self._val_clips = val_clips[: settings.train.val_clips]
        self.inputs = clip_inputs(settings.dataset, dataset, self._train_clips, self._val_clips)
        self._judge, self._named, self._real = None, None, RealMotions(dataset, "val")
        if settings.train.samples:
            self._judge, _ = open_judge(settings.judge, dataset, device=self.device)
            if self._judge is None:
                self._named = self._find_evaluator(dataset)
            elif settings.judge is not None:
                _require_space(settings.judge, self._judge)
            self.inputs |= inputs_of({"judge": self._judge}, {"judge": settings.judge} if settings.judge else None)
        self.policy = self._fresh(dataset) if start is None else self._going_on(start, dataset)
        if mark := proof(self.policy.encoder.fingerprint):
            self.inputs["text.model"] = mark
        steps, most = settings.train.sampling_steps, len(self.policy.schedule)
        if steps is not None and steps > most:
            raise MotionkitError(
                f"train.sampling_steps is {steps}, and model.diffusion_steps is {most}: use 0 to {most}.",
                fix=f"--set train.sampling_steps={most}",
            )
        steps = _SAMPLING_STEPS if steps is None else steps
        if 0 < steps < most:
            self.policy.sampling_steps = steps
        self._weight = self.policy.schedule.snr.clamp(1.0, settings.train.max_weight)
        prompts = [_first_prompt(clip, self.policy.max_length) for clip in self._train_clips[:8]]
        if settings.train.mirror:
            self._mirrored = mirrored(self._train_clips, self.policy.skeleton)
            self.policy.encoder.encode([text for clip in self._mirrored for text in clip.captions])  # refused here
        settle_matmul(settings, cast(DiffusionPolicy, self.policy), prompts, samples=settings.train.batch_size)
        optim, train = settings.optim, settings.train
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, train.final_rate)
        self.learner = Learner(self.policy, optim, rate, ema=train.ema, world=self.world)
        self.forecast = self._forecast()
        self.forecast.warn(self.device)

    def _forecast(self) -> Forecast:
        """Forecast a step of this process's share of a batch of the longest clips."""
        longest = max(self._train_clips, key=lambda clip: len(clip.features))
        if self.settings.train.clutter and self.policy.settings.clause_frames:  # with the longest neighbours
            frames = len(longest.features) + _NEIGHBOURS * _LONGEST
            longest = replace(
                longest, features=longest.features.repeat(-(-frames // len(longest.features)), 1)[:frames]
            )

        def loss(rows: int) -> Tensor:
            (batch,) = self._plain([longest] * rows)
            return self._total(self._losses(batch), batch)

        rows = min(self.settings.train.batch_size, len(self._train_clips)) // self.world.size
        return forecast_loss(self.learner, loss, rows, self.device)

    def _find_evaluator(self, dataset: TextMotionDataset) -> Named | None:
        """Return the newest finished evaluator of these data, in whose space FID is measured without a judge.

        It measures once, at the end, and is no input of the run: one that is made later does not stop a resume.
        """
        with torch.random.fork_rng(devices=[]):  # the same bits with an evaluator and without
            named = find_evaluator(EvaluatorSettings(), SameData(dataset, "val"), device=self.device)
        if named is None:
            _logger.info(
                "FID will not be measured: no judge is named (--judge tmr-dense --judge.weights DIR), and no finished "
                "run on these data has an evaluator (%s)",
                training_command("t2m-evaluator", self.settings.dataset),
            )
        else:
            _logger.info("FID is measured at the end: %s", named.words)
        return named

    def _fresh(self, dataset: TextMotionDataset) -> MDMPolicy:
        """Make a policy with random weights."""
        settings, name = self.settings, self.settings.text.encoder
        if name == "auto":
            name = "stored" if dataset.name == "starter" else "minilm"
        encoder = open_encoder(name, settings.text.model, device=self.device)
        shape = settings.model.network(settings.train.cond_drop)
        if name == "distilbert" and (shape.arch == "trans_enc" or shape.clause_frames):
            raise MotionkitError(
                "DistilBERT gives one token per word, which only the plain decoder reads.",
                fix="--model.arch trans_dec --set model.clause_frames=false, or another --text.encoder.",
            )
        policy = new_policy(shape, dataset=dataset, encoder=encoder, seed=settings.seed, device=self.device)
        _scale_text(policy, self._train_clips)
        return policy

    def _going_on(self, start: MDMPolicy, dataset: TextMotionDataset) -> MDMPolicy:
        """Make a policy with the weights of `start`."""
        settings = self.settings
        self.inputs["init"] = fingerprint_tensors(start.tensors())
        encoder = encoder_of(settings, start, dataset, self.device)
        shape = shape_of(settings.model, start, init=settings.init, typed=self.typed)
        shape = shape.model_copy(update={"cond_mask_prob": settings.train.cond_drop})
        policy = new_policy(shape, dataset=dataset, encoder=encoder, seed=settings.seed, device=self.device)
        # The weights need the statistics that they were trained with.
        policy.normalizer = start.normalizer
        policy.network.load_state_dict(start.network.state_dict())
        if policy.trained_on is not None:
            policy.trained_on = policy.trained_on.after(start.trained_on)
        return policy

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {
            "policy": "mdm",
            "parameters": sum(parameter.numel() for parameter in self.policy.network.parameters()),
            "train_clips": len(self._train_clips),
            "val_clips": len(self._val_clips),
            "text_encoder": self.policy.encoder.name,
            "epochs": round(self.settings.run.num_steps / self._batches().per_epoch, 1),
            "step": str(self.forecast),
            "device": describe_device(self.device),
            **({"notes": [self._note]} if self._note else {}),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings, learner = self.settings, self.learner
        if self._note:
            _logger.warning("%s", self._note)
        batches, held_out = self._batches(), self._plain(self._val_clips)
        validated = "val/loss/diffusion"

        def begin() -> None:
            _logger.info("%s", self.forecast)
            if self.world.main:
                self.policy.save(run.artifact("policy"), tensors=False)
                self._items.write(run.artifact("policy"))

        def validate_first() -> dict[str, float]:
            _logger.info("measuring the loss on %s before training", count(len(self._val_clips), "held-out clip"))
            self._keep(run, 0)
            return {"loss": self._validate(held_out)}

        def measure(step: int) -> dict[str, float]:
            if is_point(step, settings.train.val_every, settings.run.num_steps):
                self._keep(run, step)
            return {validated: self._validate(held_out)}

        drop_points(run.directory, after=run.start_step)
        fitted = fit(
            run,
            settings,
            learner,
            lambda step: self._step(batches(step).rows(self._share), step),
            measure=measure,
            every=settings.train.val_every,
            before=validate_first,
            begin=begin,
        )
        if fitted is None:
            return {}
        with learner.averaged():
            if self.world.main:
                self.policy.save(run.artifact("policy"))
            quality = self._sample(run)
        before, last = float(fitted.before["loss"]), float(fitted.after[validated])
        heldout = {"loss": entry_of(before, last, count_takes(self._val_clips))}
        tables = [Report(heldout).table(f"Diffusion loss on {count(len(self._val_clips), 'held-out clip')}")]
        metrics = {validated: last}
        if quality is not None:
            judged, metrics = self._named is None, metrics | {"heldout/fid": quality.fid}
            metrics |= {"heldout/judge/mean": quality.score} if judged else {}
            rows = [
                (f"FID in the {'judge' if judged else 'evaluator'}'s space", f"{quality.fid:.2f}", "0"),
                *([("judge", f"{quality.score:.3f}", f"{quality.real:.3f}")] if judged else []),
                *((name, f"{generated:.3f}", f"{real:.3f}") for name, (generated, real) in quality.moving.items()),
                ("jerk (m/s^3)", *(f"{value:.1f}" for value in quality.jerk)),
            ]
            metrics["heldout/physics/jerk"] = quality.jerk[0]
            if is_noise(*quality.jerk):
                _logger.warning("%s: train it longer", noise_sentence(*quality.jerk))
            metrics |= {f"heldout/{name}": generated for name, (generated, _) in quality.moving.items()}
            title = f"{quality.count} held-out captions, sampled as motionkit generate does"
            title += f"; {self._named.words}" if self._named is not None else ""
            tables.append(table_of(title, ["", "generated", "reference clips"], rows))
        return {"heldout": heldout, "metrics": metrics, "table": tables}

    def _keep(self, run: Run, step: int) -> None:
        """Keep motions of a few held-out captions, to be looked at."""
        every = self._val_clips
        shows = min(self.settings.motions, len(every))
        if not shows or not self.world.main:
            return
        network = self.policy.network
        training = network.training
        clips = [every[place * len(every) // shows] for place in range(shows)]
        prompts = [
            Prompt((clip.captions[0],), (min(len(clip.features), self.policy.max_length),), clip.key) for clip in clips
        ]
        network.eval()
        shown = sample_point(cast(DiffusionPolicy, self.policy), prompts, self._judge)
        network.train(training)
        keep_point(run, step, shown, shows)

    def _sample(self, run: Run) -> Quality | None:
        """Compare samples with reference clips, and keep some for the page; None without judge and evaluator."""
        clips = self._val_clips[: self.settings.train.samples]
        judge = self._judge
        space = space_of(judge) if self._named is None else self._named.evaluator
        if space is None or len(clips) < 2:
            return None
        _logger.info("sampling %d held-out captions, to compare them with reference clips", len(clips))
        self.policy.network.eval()
        policy = cast(DiffusionPolicy, self.policy)
        plan, guidance = plan_steps(policy), guidance_of(policy)
        quality = measure_quality(policy, clips, judge, space, plan=plan, guidance=guidance, actions=self._real.actions)
        quality.shown.keep(run, "after")
        return quality

    def _batches(self) -> MdmBatches:
        settings = self.settings
        return MdmBatches(
            [*self._train_clips, *self._mirrored],
            self.policy.normalizer.to("cpu"),
            batch_size=settings.train.batch_size,
            steps=len(self.policy.schedule),
            max_length=self.policy.max_length,
            seed=settings.seed,
            random_crop=self._random_crop,
            cond_drop=settings.train.cond_drop,
            early=settings.train.early,
            clutter=settings.train.clutter if self.policy.settings.clause_frames else 0.0,
            grid=self.policy.settings.patch_size,
        )

    def _plain(self, clips: Sequence[TextClip]) -> list[MdmBatch]:
        """Return clips in batches without clutter, their texts kept; the same every time."""
        return MdmBatches(
            clips,
            self.policy.normalizer.to("cpu"),
            batch_size=self.settings.train.batch_size,
            steps=len(self.policy.schedule),
            max_length=self.policy.max_length,
            seed=0,
        ).fixed()

    def _total(self, losses: Mapping[str, Tensor], batch: MdmBatch) -> Tensor:
        """Return this process's part of the batch's mean loss."""
        return weighted_loss(losses, self._weight[batch.timestep], self.settings.train) / self.world.size

    def _step(self, batch: MdmBatch, step: int) -> dict[str, float]:
        self.learner.zero_grad()
        self.policy.network.train()
        losses = self._losses(batch)
        parts = {name: values.mean() / self.world.size for name, values in losses.items()}
        loss = self._total(losses, batch)
        loss.backward()
        moved = self.learner.descend(step - 1)
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
        x0, in_clip, lengths = batch.x0.to(device), batch.own.to(device), batch.lengths.to(device)
        timestep, noise = batch.timestep.to(device), batch.noise.to(device)
        mask = length_mask(lengths, x0.shape[1])
        # The network reads the clutter too (`mask`); losses are taken on the clip's frames only (`in_clip`).
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
        joints = bool(self.settings.train.joint_velocity)
        return clip_losses(predicted, x0, in_clip, cast(DiffusionPolicy, policy), joint_velocity=joints)


def _require_space(chosen: Chosen, judge: Reward) -> None:
    """Refuse a judge without a space of motions."""
    if space_of(judge) is None:
        raise MotionkitError(
            f"--judge {chosen.name} has no space of motions, in which FID is measured.",
            fix="--judge tmr-dense --judge.weights DIR",
        )


def mirrored(clips: Sequence[TextClip], skeleton: Skeleton) -> list[TextClip]:
    """Return the mirror images of clips, without captions whose sides cannot be read (other languages)."""
    texts = [tuple(mirror_text(text) for text in clip.captions if reads_sides(text)) for clip in clips]
    return [
        TextClip(clip.key, mirror_features(clip.features, skeleton), captions)
        for clip, captions in zip(clips, texts, strict=True)
        if captions
    ]


def _first_prompt(clip: TextClip, frames: int = 1) -> Prompt:
    return Prompt((clip.captions[0],), (min(frames, len(clip.features)),))


@torch.no_grad()
def _scale_text(policy: MDMPolicy, clips: Sequence[TextClip]) -> None:
    """Divide the text projection by the root mean square of its inputs; also loads the text model.

    Unit-norm sentence vectors have values near 0.05, much smaller than the time embedding: with the default
    initialisation the text would be learnt long after everything else.
    """
    prompts = [_first_prompt(clip) for clip in clips[:: max(1, len(clips) // 256)]]
    condition = policy.condition(prompts)
    size = float(condition.text[condition.mask].square().mean().sqrt())
    policy.network.embed_text.weight.div_(max(size, 1e-6))
