"""`motionkit pretrain kimodo`: supervised training on clips, of a released model or of a small new one."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ClassVar
from weakref import finalize

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.contracts.dataset import TextMotionDataset, record_of
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import MotionBatch
from motionkit.rl import NoiseSource, draw_timesteps, length_mask, stable_hash
from motionkit.runs import Run, fingerprint_tensors, locate
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import plan_steps, sample
from motionkit.text_to_motion.pairs.data import clip_inputs, trained_on_clips, usable_clips
from motionkit.training.base import LOSS, Figure
from motionkit.training.device import autocast, describe_device, set_up
from motionkit.training.learner import Learner, cosine_rate
from motionkit.training.memory import Forecast, forecast_loss
from motionkit.training.supervised import fit
from motionkit_policy_kimodo.clips import encode_clips, own_body, write_starter_table
from motionkit_policy_kimodo.constraints import PARTS, columns_of
from motionkit_policy_kimodo.files import new_checkpoint, read_checkpoint
from motionkit_policy_kimodo.network import Conditions, Shape
from motionkit_policy_kimodo.policy import KimodoPolicy
from motionkit_policy_kimodo.representation import KimodoRepresentation, local_root
from motionkit_policy_kimodo.settings import KimodoOptions, PretrainKimodoSettings
from motionkit_policy_kimodo.texts import TextTable

_WEIGHTS = {"root": 10.0, "heading": 2.0, "positions": 10.0, "rotations": 10.0, "velocities": 3.0, "contacts": 4.0}
_JOINTS = 5.0  # weight of the joints by forward kinematics
_MOST = 20  # frames of a constraint
_POINTS = 3  # of a path, where `train.points` draws them
_MEASURED = 512  # clips, or up to twice as many, that the statistics of a new model are taken from
_POOL = 16  # batches whose clips are sorted by length, so that little is padded
_TURNS = 4  # headings of each clip in the statistics of a new model
_logger = logging.getLogger("motionkit.pretrain")


@dataclass(frozen=True)
class Batch:
    """One step's data."""

    x0: Tensor  # ``[B, T, D]`` normalised, zeros past the end
    lengths: Tensor  # ``[B]``
    conditions: Conditions
    timestep: Tensor  # ``[B]``
    noise: Tensor  # ``[B, T, D]``


class PretrainKimodo:
    """Trains Kimodo on clips with captions; see `motionkit.training.base.Trainer`.

    The paper's loss: smooth L1 on the blocks of the features and on the joints by forward kinematics, with random first
    headings and random constraints, and texts left out for guidance. The velocities and accelerations of the joints are
    added to it: without them, small networks jerk. Timesteps are uniform, or denser at the noisy end.
    """

    shape_keys = ("init", "dataset", "model", "train", "optim", "lora", "seed", "run.num_steps")
    figures: ClassVar[tuple[Figure, ...]] = (LOSS, Figure("val", ("val/loss/total",)))
    typed = ()

    def __init__(self, settings: PretrainKimodoSettings) -> None:
        self.settings = settings

    def prepare(self) -> None:
        """Open the dataset, bring its clips to the body, and open or make the model."""
        settings = self.settings
        if settings.run.resume is not None:
            _refuse_earlier(settings.run.resume)
        self.device = set_up(settings)
        dataset: TextMotionDataset = settings.dataset.build()
        clips = {
            "train": usable_clips(dataset, "train", settings.dataset.label, least=2),
            "val": usable_clips(dataset, "val", settings.dataset.label, least=1)[: settings.train.val_clips],
        }
        aside, table = Path(mkdtemp()), settings.embeddings
        finalize(self, rmtree, aside, ignore_errors=True)
        if table is None and dataset.source_name == "starter" and not settings.init:
            table = write_starter_table(aside / "texts.safetensors")
        if table is None:
            raise MotionkitError("no text vectors are named.", fix="motionkit kimodo-embed, then --embeddings TABLE")
        source = settings.init
        if source:
            representation = read_checkpoint(source, smplx=settings.body).representation
        else:
            representation = KimodoRepresentation(own_body(clips["train"][0], dataset.skeleton))
        self._features = {
            split: encode_clips(some, dataset.skeleton, dataset.fps, representation) for split, some in clips.items()
        }
        self._captions = {split: [clip.captions for clip in some] for split, some in clips.items()}
        if not source:
            source = str(self._new(aside / "model", representation, TextTable(table).width))
        self.policy = KimodoPolicy(
            KimodoOptions(checkpoint=source, embeddings=table, body=settings.body), device=self.device
        )
        every = [text for split in self._captions.values() for captions in split for text in captions]
        self.policy.texts.encode(every)  # refuses texts without a vector
        self.policy.trained_on = record_of(dataset)
        if settings.lora.enabled:
            self.policy.adapt(**settings.lora.model_dump(exclude={"enabled"}), seed=settings.seed)
        self._items = trained_on_clips(dataset, clips["train"])
        self.inputs = clip_inputs(settings.dataset, dataset, clips["train"], clips["val"])
        self.inputs |= {"embeddings": self.policy.texts.fingerprint}
        if settings.init:
            self.inputs |= {"init": fingerprint_tensors(self.policy.network.state_dict())}
        optim, train = settings.optim, settings.train
        rate = cosine_rate(optim.learning_rate, optim.warmup_steps, settings.run.num_steps, train.final_rate)
        frozen = self.policy.network.body_model if train.stage == "root" else None
        self.learner = Learner(self.policy, optim, rate, ema=train.ema, frozen=frozen)
        self.forecast = self._forecast()
        self.forecast.warn(self.device)

    def _forecast(self) -> Forecast:
        """Forecast a step of the longest clip, with the losses of constraints."""
        clips = self._features["train"]
        longest = max(range(len(clips)), key=lambda row: len(clips[row]))

        def loss(rows: int) -> Tensor:
            return self._losses(self._made("train", [longest] * rows, _generator("plan", 0), plain=False))["total"]

        rows = min(self.settings.train.batch_size, len(clips))
        return forecast_loss(self.learner, loss, rows, self.device)

    def _new(self, folder: Path, representation: KimodoRepresentation, width: int) -> Path:
        """Write a model with random weights and the statistics of training clips, and return its folder."""
        draw, rows, local = _generator("statistics", 0), [], []
        for clip in self._features["train"][:: max(1, len(self._features["train"]) // _MEASURED)]:
            angles = self._headings(_TURNS, draw)
            turned = representation.canonical(clip.expand(_TURNS, -1, -1), angles)
            rows.append(turned.flatten(0, 1))
            local.append(
                local_root(turned[..., :5], torch.full((_TURNS,), len(clip)), representation.fps).flatten(0, 1)
            )
        shape = Shape(representation.width, width, 1, **self.settings.model.model_dump())
        return new_checkpoint(folder, shape, representation, torch.cat(rows), torch.cat(local), self.settings.seed)

    def _headings(self, count: int, draw: torch.Generator) -> Tensor:
        return self.settings.train.headings * math.pi * (2 * torch.rand(count, generator=draw) - 1)

    def describe(self) -> Mapping[str, object]:
        """Return the plan."""
        return {
            "policy": "kimodo",
            "body": self.policy.skeleton.name,
            "parameters": sum(parameter.numel() for parameter in self.policy.network.parameters()),
            "train_clips": len(self._features["train"]),
            "val_clips": len(self._features["val"]),
            "step": str(self.forecast),
            "device": describe_device(self.device),
        }

    def train(self, run: Run) -> Mapping[str, object]:
        """Train; see `motionkit.training.base.Trainer.train`."""
        settings, learner, held_out = self.settings, self.learner, self._fixed()

        def begin() -> None:
            _logger.info("%s", self.forecast)
            folder = run.artifact("policy")
            if settings.embeddings is None:  # the run keeps the starter's table
                self.policy.texts = TextTable(write_starter_table(folder / "texts.safetensors"))
            self.policy.save(folder, tensors=False)
            self._items.write(folder)

        fitted = fit(
            run,
            settings,
            learner,
            self._step,
            measure=lambda _: {"val/loss/total": self._validate(held_out)},
            every=settings.train.val_every,
            before=lambda: {"loss": self._validate(held_out)},
            begin=begin,
        )
        if fitted is None:
            return {}
        with learner.averaged():
            self.policy.save(run.artifact("policy"))
            jerk = self._jerk()
        last = float(fitted.after["val/loss/total"])
        rows = [("loss", f"{fitted.before['loss']:.3f}", f"{last:.3f}"), ("jerk (m/s^3), of clips, of samples", *jerk)]
        table = {"title": "Held-out clips", "columns": ["", "before", "after"], "rows": rows, "numbers": [1, 2]}
        return {"metrics": {"val/loss/total": last, "heldout/physics/jerk": float(jerk[1])}, "table": table}

    def _step(self, step: int) -> dict[str, float]:
        self.learner.zero_grad()
        self.policy.network.train()
        losses = self._losses(self._batch(step))
        losses["total"].backward()
        moved = self.learner.descend(step - 1)
        self.policy.network.eval()
        return {"loss/total": float(losses["total"].detach())} | moved

    def _batch(self, step: int) -> Batch:
        """Return the batch of a step, a function of seed and step alone: clips of like lengths of a shuffled epoch."""
        every = len(self._features["train"])
        size = min(self.settings.train.batch_size, every)
        epoch, number = divmod(step - 1, every // size)
        draw = _generator(f"epoch {self.settings.seed}", epoch)
        shuffled = torch.randperm(every, generator=draw)[: every // size * size]
        # The step's batch is one of a pool of the epoch's clips, sorted by length.
        at = int(torch.randperm(every // size, generator=draw)[number])
        pool = shuffled.split(_POOL * size)[at // _POOL].tolist()
        pool.sort(key=lambda row: len(self._features["train"][row]))
        rows = pool[at % _POOL * size : (at % _POOL + 1) * size]
        return self._made("train", rows, _generator(f"step {self.settings.seed}", step), plain=False)

    def _fixed(self) -> list[Batch]:
        rows = torch.arange(len(self._features["val"])).split(self.settings.train.batch_size)
        return [self._made("val", part.tolist(), _generator("val", n), plain=True) for n, part in enumerate(rows)]

    def _made(self, split: str, rows: Sequence[int], draw: torch.Generator, *, plain: bool) -> Batch:
        policy, train = self.policy, self.settings.train
        clips = [self._features[split][row][: policy.max_length] for row in rows]
        lengths, heading = torch.tensor([len(clip) for clip in clips]), self._headings(len(rows), draw)
        turned = [policy.skeleton.canonical(clip, angle) for clip, angle in zip(clips, heading, strict=True)]
        normalizer = policy.normalizer.to("cpu")
        x0 = pad_sequence([normalizer.normalize(clip) for clip in turned], batch_first=True)
        captions = [self._captions[split][row] for row in rows]
        picked = [some[0 if plain else int(torch.randint(len(some), (), generator=draw))] for some in captions]
        features = policy.texts.encode(picked)
        kept = torch.rand(len(rows), generator=draw) >= (0.0 if plain else train.cond_drop)
        tokens = features.tokens
        if not plain and train.text_noise:
            tokens = tokens + train.text_noise * torch.randn(tokens.shape, generator=draw)
        text, mask = tokens * kept[:, None, None], features.mask & kept[:, None]
        given = torch.zeros(x0.shape, dtype=torch.bool)
        for row, length in enumerate(lengths.tolist()):
            if not plain and float(torch.rand((), generator=draw)) < train.constraints:
                given[row, :length] = random_mask(policy.skeleton, length, draw, dense=train.dense, points=train.points)
                if train.bent:
                    bent = policy.skeleton.carried(turned[row], random_way(length, train.bent, draw))
                    x0[row, :length] = normalizer.normalize(bent)
        early = 0.0 if plain else train.early
        timestep = draw_timesteps(len(policy.schedule), len(rows), draw, early, power=train.early_power)
        noise = torch.randn(x0.shape, generator=draw)
        parts: tuple[Any, ...] = (x0, lengths, Conditions(text, mask, heading, x0, given), timestep, noise)
        return Batch(*(part.to(self.device) for part in parts))

    def _losses(self, batch: Batch) -> dict[str, Tensor]:
        policy, conditions = self.policy, batch.conditions
        with autocast(self.device, self.settings.precision):
            noisy = policy.schedule.noised(batch.x0, batch.timestep, batch.noise)
            alone = self.settings.train.stage == "root"
            made = policy.network(noisy, batch.timestep, batch.lengths, **vars(conditions), root_only=alone)
        # Of the first stage alone, the body is taken as it should be.
        made = torch.cat([made, batch.x0[..., made.shape[-1] :]], dim=-1)
        train = self.settings.train
        weights = {"velocities": train.velocities, "accelerations": train.accelerations}
        return kimodo_loss(made, batch.x0, batch.lengths, policy, **weights, given=train.given, mask=conditions.mask)

    @torch.no_grad()
    def _validate(self, batches: Sequence[Batch]) -> float:
        return sum(float(self._losses(batch)["total"]) for batch in batches) / len(batches)

    @torch.no_grad()
    def _jerk(self) -> tuple[str, str]:
        """Return the mean jerk of some held-out clips, and of samples of their captions and lengths."""
        policy, count = self.policy, min(self.settings.train.samples, len(self._features["val"]))
        clips = [clip[: policy.max_length] for clip in self._features["val"][:count]]
        lengths = torch.tensor([len(clip) for clip in clips])
        prompts = [
            Prompt((texts[0],), (len(clip),), f"val {row}")
            for row, (texts, clip) in enumerate(zip(self._captions["val"], clips, strict=False))
        ]
        real = MotionBatch(pad_sequence(clips, batch_first=True), lengths, skeleton=policy.skeleton, fps=policy.fps)
        made = sample(policy, prompts, plan_steps(policy), NoiseSource(0), guidance=policy.guidance or 1.0).motions

        def jerk(motions: MotionBatch) -> str:
            found = physics_sums(motions.joints.cpu(), lengths, fps=policy.fps, feet=policy.skeleton.feet)[1]
            return f"{float(found.mean()):.1f}"

        return jerk(real), jerk(made)


def kimodo_loss(
    made: Tensor,
    x0: Tensor,
    lengths: Tensor,
    policy: KimodoPolicy,
    *,
    velocities: float = 0.0,
    accelerations: float = 0.0,
    given: float = 0.0,
    mask: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the losses of predictions ``[B, T, D]`` (normalised) by block, and ``total``, their weighted sum.

    Args:
        made: Predictions.
        x0: What they should be.
        lengths: ``[B]``, each at least 2.
        policy: Gives features and statistics.
        velocities: Weight of the velocities of the joints by forward kinematics, m/s; the paper has none.
        accelerations: Weight of their accelerations, tens of m/s^2.
        given: Weight of the same losses of the features that constraints give, which else are few of many.
        mask: ``[B, T, D]`` bool, where they are; None without constraints.
    """
    body, valid = policy.skeleton, length_mask(lengths, x0.shape[1])
    losses = {name: F.smooth_l1_loss(made[..., part][valid], x0[..., part][valid]) for name, part in body.parts.items()}
    total = sum((_WEIGHTS[name] * value for name, value in losses.items()), x0.new_zeros(()))
    joints, truth = (body.positions(policy.normalizer.denormalize(x), lengths) for x in (made, x0))
    off = joints - truth
    speed = off.diff(dim=1) * policy.fps
    force = speed.diff(dim=1) * (policy.fps / 10)
    for name, weight, miss in (
        ("joints", _JOINTS, off),
        ("joint_velocities", velocities, speed),
        ("joint_accelerations", accelerations, force),
    ):
        if weight and miss.shape[1]:  # two frames have no acceleration
            miss = miss[valid[:, -miss.shape[1] :]]
            losses[name] = F.smooth_l1_loss(miss, torch.zeros_like(miss))
            total = total + weight * losses[name]
    if given and mask is not None and mask.any():
        parts = body.parts.items()
        losses["given"] = torch.stack([_WEIGHTS[name] * _given(made, x0, mask, part) for name, part in parts]).sum()
        total = total + given * losses["given"]
    return losses | {"total": total}


def _given(made: Tensor, x0: Tensor, mask: Tensor, part: slice) -> Tensor:
    """Return the mean loss of the given values of a block, each motion that has some of them counting alike."""
    where, right = mask[..., part], x0[..., part]
    count = where.sum((1, 2))
    off = F.smooth_l1_loss(torch.where(where, made[..., part], right), right, reduction="none").sum((1, 2))
    return (off / count.clamp(min=1)).sum() / (count > 0).sum().clamp(min=1)


def random_mask(
    representation: KimodoRepresentation,
    length: int,
    draw: torch.Generator,
    *,
    dense: float = 0.0,
    points: float = 0.0,
) -> Tensor:
    """Return a mask ``[length, D]`` of random constraints: of a path, of whole bodies, or of one part.

    Every other path has headings. Few frames are likelier than many; a share `dense` is of all frames. Of all, a share
    `points` is of one to three frames of a path without headings.
    """
    mask = torch.zeros(length, representation.width, dtype=torch.bool)
    if points and float(torch.rand((), generator=draw)) < points:
        count = 1 + int(torch.randint(_POINTS, (), generator=draw))
        frames = torch.randperm(length, generator=draw)[:count]
        mask[frames[:, None], columns_of(representation, "root2d")[:2]] = True
        return mask
    family, part, turned = (int(torch.randint(some, (), generator=draw)) for some in (3, len(PARTS), 2))
    columns = columns_of(representation, ("root2d", "fullbody", PARTS[part])[family])
    if family == 0 and not turned:
        columns = columns[:2]
    count = 1 + int(min(_MOST, length) * torch.rand((), generator=draw).square())
    frames = torch.randperm(length, generator=draw)[:count]
    if dense and float(torch.rand((), generator=draw)) < dense:
        frames = torch.arange(length)
    mask[frames[:, None], columns] = True
    return mask


def random_way(length: int, metres: float, draw: torch.Generator) -> Tensor:
    """Return a way ``[length, 2]`` from 0: a quadratic Bezier curve, its other points random, up to `metres` off."""
    points = metres * (2 * torch.rand(2, 2, generator=draw) - 1)
    s = torch.linspace(0, 1, length)
    return torch.stack([2 * s * (1 - s), s.square()], dim=1) @ points


def _refuse_earlier(run: Path) -> None:
    """Refuse to go on with a run from before its batches were of like lengths: the rest would have other batches."""
    directory, _, record, config = locate(run)
    if record.command == "pretrain kimodo" and "headings" not in config.get("train", {}):
        raise MotionkitError(
            f"{directory} was begun by an earlier version, which drew other batches, headings and constraints.",
            why="what is left of it would not be the training that it began.",
            fix=f"start anew, or from its last weights: --init {directory}, with --embeddings {directory}/policy/"
            "texts.safetensors",
        )


def _generator(purpose: str, number: int) -> torch.Generator:
    return torch.Generator().manual_seed(stable_hash(f"kimodo {purpose} {number}") % 2**63)
